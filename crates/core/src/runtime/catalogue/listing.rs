//! Lists the named items of a runtime and the problems with their names. `lookup.rs` looks up
//! single items.

use std::collections::BTreeMap;
#[cfg(feature = "dynamic")]
use std::collections::BTreeSet;
use std::sync::Arc;

#[cfg(feature = "dynamic")]
use agentflow_schema::schema_check::SchemaCheck;

use crate::agent::{linked_agents, two_linked_agents};
use crate::error::{Error, RegistryError, Result};
use crate::runtime::catalogue::catalogue_entry::{Catalogue, CatalogueEntry, EntryKind, Origin};
use crate::runtime::catalogue::lookup::{given, linked_at, same_agent, same_workflow, taken};
use crate::runtime::catalogue::reader::CatalogueReader;
use crate::runtime::catalogue::registered_items::refresh_items;
use crate::runtime::execution::compensate_run::problem_among;
#[cfg(feature = "dynamic")]
use crate::tool::PARAMETERS;
use crate::tool::{Registry, SourceLocation, ToolRef, linked_tools, problem_of};
use crate::workflow::Graph;
use crate::workflow::linked_workflow::{linked, two_linked};
use crate::workflow::spec::Spec;

impl CatalogueReader<'_> {
    /// Returns a snapshot of all named items of this runtime: tools, toolsets with their tools,
    /// agents, workflows, model providers and schemas, registered or linked into the program. Tools
    /// of toolsets are fetched, and the presence of the providers' API keys is checked.
    ///
    /// Problems do not hide other items: they are in [`Catalogue::problems`]. [`Catalogue::check`]
    /// turns them into an error, for a program that should not start in this case. Looking up an
    /// item by name also reports the problem of that name, whether or not this function was called.
    ///
    /// ```standalone_crate
    /// use agentflow::prelude::*;
    /// use agentflow::runtime::EntryKind;
    ///
    /// /// Add two integers.
    /// #[tool]
    /// fn add(a: i64, b: i64) -> i64 {
    ///     a + b
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().tools(tools![add]).build();
    /// let catalogue = runtime.catalogue().snapshot().await.check()?;
    /// let entry = catalogue.get(EntryKind::Tool, "add")?;
    /// assert_eq!(&*entry.description, "Add two integers.");
    /// let unknown = catalogue.get(EntryKind::Tool, "ad").unwrap_err();
    /// assert_eq!(unknown.to_string(), "this program has no tool `ad`; did you mean `add`?");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "catalogue")]
    pub async fn snapshot(self) -> Catalogue {
        if let Err(error) = refresh_items(self.0).await {
            tracing::warn!(%error, "the list may lack changes of stored documents");
        }
        let catalogue = self.snapshot_unchecked().await;
        #[cfg(feature = "dynamic")]
        let catalogue = with_problems_of_schemas(catalogue);
        catalogue
    }

    /// Returns the catalogue without checking its schemas.
    #[doc(hidden)]
    pub async fn snapshot_unchecked(self) -> Catalogue {
        let mut list = Listing::default();
        self.list_tools(&mut list).await;
        self.list_agents(&mut list);
        self.list_workflows(&mut list);
        for provider in self.model_providers().await {
            // The last registration of a name counts.
            let of_host = given(self.0.host(), |given| &given.providers);
            let place = of_host
                .iter()
                .rev()
                .find(|(name, _)| *name == provider.name)
                .map(|(_, origin)| origin.clone());
            let origin = place.unwrap_or(Origin::BuiltIn);
            let mut entry = CatalogueEntry::new(EntryKind::Model, provider.name, origin);
            entry.description = provider.base_url.or(provider.problem).unwrap_or_default().into();
            list.entries.push(entry);
        }
        for ((name, schema), origin) in given(self.0.host(), |given| &given.schemas).iter() {
            let same = |other: &CatalogueEntry| other.input.as_ref() == Some(schema);
            if list.is_new(EntryKind::Schema, name, origin, same) {
                let mut entry =
                    CatalogueEntry::new(EntryKind::Schema, Arc::clone(name), origin.clone());
                entry.input = Some(schema.clone());
                list.entries.push(entry);
            }
        }
        let Listing { mut entries, problems } = list;
        entries.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Catalogue { entries, problems }
    }

    async fn list_tools(self, list: &mut Listing) {
        let mut tools = given(self.0.host(), |given| &given.tools).to_vec();
        // Duplicates are reported below, together with registered tools.
        if let Err(error) = Registry::linked()
            && !matches!(error, RegistryError::Duplicate { .. } | RegistryError::WireName { .. })
        {
            list.problems.push(error.into());
        }
        tools.extend(linked_tools().iter().map(|tool| (tool.clone(), linked_at(tool))));
        for (toolset, origin) in given(self.0.host(), |given| &given.toolsets).iter() {
            let name = toolset.name();
            // Two toolsets with the same name always conflict, even if they have the same tools.
            list.is_new(EntryKind::Toolset, name, origin, |_| false);
            list.entries.push(CatalogueEntry::new(
                EntryKind::Toolset,
                Arc::clone(name),
                origin.clone(),
            ));
            match toolset.tools().await {
                Ok(of) => {
                    let origin = Origin::Toolset { name: Arc::clone(name) };
                    tools.extend(of.iter().map(|tool| (tool.clone(), origin.clone())));
                }
                Err(error) => list.problems.push(error),
            }
        }
        for (tool, _) in &tools {
            let problem = problem_among(tool, tools.iter().map(|(tool, _)| tool));
            list.problems.extend(problem.map(Error::from));
        }
        let mut by_wire_name: BTreeMap<Arc<str>, (ToolRef, Origin)> = BTreeMap::new();
        for (tool, origin) in tools {
            // Linked tools and tools of toolsets were checked when they were collected.
            if !matches!(origin, Origin::Linked(_) | Origin::Toolset { .. }) {
                list.problems.extend(problem_of(&tool).map(Error::from));
            }
            let definition = tool.definition();
            match by_wire_name.get(&definition.name) {
                Some((other, _)) if other.is(&tool) => continue,
                Some((other, first)) if other.catalogue_name() == tool.catalogue_name() => {
                    list.problems.push(taken("tool", tool.catalogue_name(), first, &origin));
                }
                Some((other, _)) => {
                    let (first, second) =
                        (Arc::clone(other.catalogue_name()), Arc::clone(tool.catalogue_name()));
                    let wire_name = Arc::clone(&definition.name);
                    list.problems.push(RegistryError::WireName { wire_name, first, second }.into());
                }
                None => drop(
                    by_wire_name
                        .insert(Arc::clone(&definition.name), (tool.clone(), origin.clone())),
                ),
            }
            let mut entry =
                CatalogueEntry::new(EntryKind::Tool, Arc::clone(tool.catalogue_name()), origin);
            entry.wire_name = Some(Arc::clone(&definition.name));
            entry.description = Arc::clone(
                definition.public_description.as_ref().unwrap_or(&definition.description),
            );
            entry.input = Some(definition.parameters.clone());
            entry.output = tool.output_schema();
            entry.policy = Some(definition.policy.clone());
            entry.supports_streaming = definition.supports_streaming;
            #[cfg(feature = "dynamic")]
            if tool.written().is_none()
                && let Ok(check) = definition.arguments_check()
            {
                entry.unchecked = check.unchecked().to_vec();
            }
            list.entries.push(entry);
        }
    }

    fn list_agents(self, list: &mut Listing) {
        let mut agents = given(self.0.host(), |given| &given.agents).to_vec();
        let linked = linked_agents();
        agents
            .extend(linked.once().map(|agent| (agent.described(), Origin::Linked(agent.source()))));
        list.problems.extend(linked.twice().map(|two| Error::from(two_linked_agents(two))));
        // Equal duplicates are listed once. Different agents with the same name are all listed and
        // reported.
        for (at, (agent, origin)) in agents.iter().enumerate() {
            let first = agents[..at].iter().find(|(other, _)| other.name() == agent.name());
            match first {
                Some((other, _)) if same_agent(other, agent) => continue,
                Some((_, first)) => list.problems.push(taken("agent", agent.name(), first, origin)),
                None => {}
            }
            let mut entry =
                CatalogueEntry::new(EntryKind::Agent, Arc::clone(agent.name()), origin.clone());
            // The instructions are visible to the agent's model only.
            entry.description = agent.public_description();
            // A registered agent takes a text message, which replaces the prompt of its function.
            entry.input = match (agent.definition(), origin) {
                (Some(function), Origin::Linked(_)) => function.input_schema().ok(),
                _ => Some(serde_json::json!({"type": "string"})),
            };
            entry.output = Some(agent.answer_schema());
            list.entries.push(entry);
        }
    }

    fn list_workflows(self, list: &mut Listing) {
        let mut workflows = given(self.0.host(), |given| &given.workflows).to_vec();
        let linked = linked();
        for linked in linked.once() {
            match linked.spec() {
                Ok(spec) => workflows
                    .push((spec, Origin::Linked(SourceLocation::new(linked.file, linked.line)))),
                Err(error) => list.problems.push(error),
            }
        }
        list.problems.extend(linked.twice().map(two_linked));
        #[cfg(feature = "dynamic")]
        let graphs = crate::runtime::catalogue::lookup::graphs(self.0.host());
        #[cfg(feature = "dynamic")]
        for (graph, origin) in graphs.iter() {
            match graph.spec(self.0.host(), graphs.moment(), &[]) {
                Ok(spec) => workflows.push((spec, origin.clone())),
                Err(error) => list.problems.push(error),
            }
        }
        // Equal duplicates are listed once, as for agents.
        for (at, (spec, origin)) in workflows.iter().enumerate() {
            let first: Option<&(Arc<Spec>, Origin)> =
                workflows[..at].iter().find(|(other, _)| other.name == spec.name);
            match first {
                Some((other, _)) if same_workflow(other, spec) => continue,
                Some((_, first)) => {
                    list.problems.push(taken("workflow", &spec.name, first, origin));
                }
                None => {}
            }
            let graph = Graph::from_plan(spec);
            let mut entry =
                CatalogueEntry::new(EntryKind::Workflow, Arc::clone(&spec.name), origin.clone());
            entry.description = Arc::clone(&spec.description);
            entry.input = Some(graph.input_schema());
            entry.output = Some(spec.output_schema());
            list.entries.push(entry);
        }
    }

    /// Returns the workflows that are registered with this runtime or linked into the program,
    /// ordered by name.
    ///
    /// # Errors
    /// If two workflows have the same name, or a workflow cannot be built.
    pub fn workflows(self) -> Result<Vec<Graph>> {
        let given = given(self.0.host(), |given| &given.workflows);
        let names = given.iter().map(|(spec, _)| Arc::clone(&spec.name));
        let mut names: Vec<Arc<str>> = names.chain(linked().names().map(Arc::from)).collect();
        #[cfg(feature = "dynamic")]
        names.extend(
            crate::runtime::catalogue::lookup::graphs(self.0.host())
                .iter()
                .map(|(graph, _)| graph.graph.name.as_str().into()),
        );
        names.sort();
        names.dedup();
        names.iter().map(|name| self.workflow_graph(name)).collect()
    }
}

/// A catalogue under construction.
#[derive(Default)]
struct Listing {
    entries: Vec<CatalogueEntry>,
    problems: Vec<Error>,
}

impl Listing {
    /// `true` if no equal item is listed. A different item of the same kind and name is added as a
    /// problem.
    fn is_new(
        &mut self,
        kind: EntryKind,
        name: &str,
        origin: &Origin,
        same: impl Fn(&CatalogueEntry) -> bool,
    ) -> bool {
        let first = self.entries.iter().find(|entry| entry.kind == kind && *entry.name == *name);
        match first {
            Some(first) if same(first) => false,
            Some(first) => {
                self.problems.push(taken(kind.as_str(), name, &first.origin, origin));
                true
            }
            None => true,
        }
    }
}

/// Adds errors for invalid JSON Schemas, unless they were reported for a tool already.
#[cfg(feature = "dynamic")]
fn with_problems_of_schemas(mut catalogue: Catalogue) -> Catalogue {
    let mut known: BTreeSet<String> = catalogue.problems.iter().map(ToString::to_string).collect();
    for entry in &catalogue.entries {
        let (input, output) = match entry.kind {
            EntryKind::Tool => (PARAMETERS, "answer of the tool"),
            EntryKind::Agent => ("input of the agent", "answer of the agent"),
            EntryKind::Workflow => ("input of the workflow", "output of the workflow"),
            EntryKind::Schema => ("schema", ""),
            EntryKind::Toolset | EntryKind::Model => continue,
        };
        for (of, schema) in [(input, &entry.input), (output, &entry.output)] {
            let read = if entry.kind == EntryKind::Tool {
                SchemaCheck::tolerant
            } else {
                SchemaCheck::new
            };
            let Some(Err(problem)) = schema.as_ref().map(read) else { continue };
            let error = Error::from(RegistryError::InvalidSchema {
                of,
                name: Arc::clone(&entry.name),
                problem: problem.message(),
            });
            if known.insert(error.to_string()) {
                catalogue.problems.push(error);
            }
        }
    }
    catalogue
}
