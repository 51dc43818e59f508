//! Workflows that were given as graphs: what the names in them refer to, among all that the runtime knows. A graph is
//! read when its workflow is first asked for, and once.

use std::sync::{Arc, OnceLock};

use super::catalogue::{given, linked_tools, only, workflow_spec_in};
use super::catalogue_entry::Origin;
use crate::error::{Error, Result};
use crate::run::Host;
use crate::text::{did_you_mean, nearest};
use crate::tool::ToolRef;
use crate::workflow::reference_steps::Callee;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, ReferenceKind};

/// A graph that a runtime was given.
#[derive(Clone)]
pub(super) struct GivenGraph {
    pub(super) graph: Arc<Graph>,
    /// The workflow of it, once it was asked for.
    spec: Arc<OnceLock<Arc<Spec>>>,
}

impl GivenGraph {
    pub(super) fn new(graph: Graph) -> Self {
        Self { graph: Arc::new(graph), spec: Arc::default() }
    }

    /// The workflow; `within` are the graphs that are being read, which call it.
    pub(super) fn spec(&self, host: &Host, within: &[&str]) -> Result<Arc<Spec>> {
        if let Some(spec) = self.spec.get() {
            return Ok(Arc::clone(spec));
        }
        let name = self.graph.name.as_str();
        let problem = |problem| Error::Build { what: "workflow", name: name.into(), problem };
        if within.contains(&name) {
            let way: Vec<String> = within.iter().chain([&name]).map(|name| format!("`{name}`")).collect();
            return Err(problem(format!("it calls itself: {}", way.join(" calls "))));
        }
        let within: Vec<&str> = within.iter().copied().chain([name]).collect();
        let resolve = |kind, name: &str| found(host, kind, name, &within);
        let spec = self.graph.to_spec(&resolve).map_err(problem)?;
        // Two that read it at once have made the same.
        Ok(Arc::clone(self.spec.get_or_init(|| Arc::new(spec))))
    }
}

/// What a name in a graph refers to.
fn found(host: &Host, kind: ReferenceKind, name: &str, within: &[&str]) -> Result<Callee, String> {
    match kind {
        ReferenceKind::Tool => tool(host, name).map(Callee::Tool),
        ReferenceKind::Agent => agent(host, name),
        ReferenceKind::Workflow => {
            workflow_spec_in(host, name, within).map(Callee::Workflow).map_err(|error| error.to_string())
        }
    }
}

fn tool(host: &Host, name: &str) -> Result<ToolRef, String> {
    let mut known: Vec<(ToolRef, Origin)> = given(host, |given| &given.tools).to_vec();
    known.extend(linked_tools());
    let of_name = known.iter().filter(|(tool, _)| **tool.catalogue_name() == *name).cloned();
    let found = only("tool", name, of_name, ToolRef::is).map_err(|error| error.to_string())?;
    found.ok_or_else(|| {
        let near = did_you_mean(nearest(name, known.iter().map(|(tool, _)| &**tool.catalogue_name())));
        format!("this program knows no tool `{name}`{near}")
    })
}

fn agent(host: &Host, name: &str) -> Result<Callee, String> {
    let given = given(host, |given| &given.agents);
    let of_name = given.iter().filter(|(agent, _)| **agent.name() == *name).cloned();
    let same = super::catalogue::same_agent;
    let found = only("agent", name, of_name, same).map_err(|error| error.to_string())?;
    found.map(Callee::Agent).ok_or_else(|| {
        let near = did_you_mean(nearest(name, given.iter().map(|(agent, _)| &**agent.name())));
        format!(
            "the runtime was given no agent `{name}`{near}; give it one with `Runtime::builder().agent(..)`, of an `#[agent]` \
             function `{name}::agent(..)`"
        )
    })
}
