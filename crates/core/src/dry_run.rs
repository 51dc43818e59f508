//! [`DryRun`]: a description of the steps of a workflow or an agent, computed without executing
//! them. The types are plain data; workflows and agents fill them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::schema::words;
use serde::Serialize;
use serde_json::Value;

use crate::tool_definition::{Effects, ToolPolicy};

/// The steps that a workflow or an agent would execute, in a possible order, with the data that
/// each reads, returns and calls, and the resources and limits it needs. No tool or model is called
/// and no store is read.
///
/// Returned by [`Workflow::dry_run`](crate::Workflow::dry_run), by
/// [`AgentOutline::dry_run`](crate::agent::AgentOutline::dry_run) and, by name, by
/// [`CatalogueReader::dry_run`](crate::runtime::CatalogueReader::dry_run). It can be printed as text and serialized.
///
/// ```
/// use agentflow::prelude::*;
///
/// /// The weather of a city.
/// #[tool(effects = "read", scopes(weather))]
/// async fn dry_weather(city: String) -> String {
///     format!("{city}: rain")
/// }
///
/// /// Sends a text.
/// #[tool(approve)]
/// async fn dry_send(text: String) -> u32 {
///     text.len() as u32
/// }
///
/// #[workflow]
/// async fn dry_report(home: String, away: String) -> Result<u32> {
///     let here = dry_weather(home).await;
///     let there = dry_weather(away).await;
///     let sent = dry_send(format!("{here}, {there}")).await;
///     Ok(sent)
/// }
///
/// # fn main() {
/// let dry = dry_report::workflow().dry_run();
/// assert_eq!(dry.stages()[0], ["here", "there"]);
/// assert_eq!(dry.scopes().into_iter().collect::<Vec<_>>(), ["weather"]);
/// let send = dry.step("sent").unwrap();
/// assert_eq!(send.asks.as_deref(), Some("call `dry_send(format!(\"{here}, {there}\"))`?"));
/// println!("{dry}");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DryRun {
    /// `workflow` or `agent`.
    pub what: &'static str,
    /// Name of the workflow or agent.
    pub name: Arc<str>,
    /// JSON Schema of the input: an object with the inputs of a workflow, or the message to an
    /// agent.
    pub input: Value,
    /// JSON Schema of the output.
    pub output: Value,
    /// The steps, each after the steps it waits for. For an agent: its model calls and the tools
    /// that the model may call.
    pub steps: Vec<DryStep>,
    /// Limits by name: the maximum number of concurrent steps of a workflow, the limits of an
    /// agent.
    pub limits: Value,
    /// Reads of the state that may fail, since no earlier node declares that it saves the key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<DryIssue>,
}

/// A problem that may make the run fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DryIssue {
    /// The node.
    pub node: Arc<str>,
    /// The problem and its consequence, as a sentence.
    pub problem: String,
}

/// A key of the [state](crate::state) that a step reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DryStateRead {
    /// The key.
    pub key: Arc<str>,
    /// `true` if the step also runs without it.
    pub optional: bool,
}

/// A step of a [`DryRun`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DryStep {
    /// Name of the node; for an agent, `model` or the name of the tool.
    pub name: String,
    /// Kind of step, such as `step`, `router`, `gate`, `model` or `tool`.
    pub kind: String,
    /// Stage, from 1. Steps of one stage do not wait for each other and may run concurrently.
    pub stage: u32,
    /// Inputs and nodes that the step reads.
    pub reads: Vec<DryRead>,
    /// Keys of the state that the step declares to read. Reads in the code of a tool are not
    /// included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads_state: Vec<DryStateRead>,
    /// Keys of the state that the step declares to save; `*` for all fields of its output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub saves_state: Vec<Arc<str>>,
    /// Other nodes that the step waits for.
    pub after: Vec<String>,
    /// Conditions under which the step runs, in words. All of them must hold, unless `enough` is
    /// set.
    pub when: Vec<String>,
    /// Minimum number of conditions that must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enough: Option<usize>,
    /// JSON Schema of the output.
    pub gives: Value,
    /// Calls that are visible in the definition. Calls in the body of a function are not included.
    pub calls: Vec<DryCall>,
    /// Question to a person before the step runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Time limit, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Maximum number of attempts.
    pub attempts: u32,
    /// `true` if the step is executed again after a crash interrupted it.
    pub repeatable: bool,
    /// `true` if the step changes data outside of the run, according to its declaration.
    pub writes: bool,
    /// `true` if the run ends with the output of this step.
    pub ends: bool,
    /// Steps of the items, rounds or branches, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<DryBody>,
}

/// The steps of an item, a round or a branch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DryBody {
    /// The branch; empty for items and rounds.
    pub branch: String,
    /// The steps.
    pub steps: Vec<DryStep>,
}

/// A value that a step reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DryRead {
    /// Name of the input or node.
    pub node: String,
    /// JSON Schema of the value.
    pub schema: Value,
    /// `true` if the step also runs without the value.
    pub optional: bool,
}

/// A call that a step makes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DryCall {
    /// `tool`, `agent`, `workflow` or `model`.
    pub what: &'static str,
    /// Name of the tool, agent, workflow or model.
    pub name: Arc<str>,
    /// Policy, for a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ToolPolicy>,
}

impl DryCall {
    pub(crate) fn new(what: &'static str, name: impl Into<Arc<str>>) -> Self {
        Self { what, name: name.into(), policy: None }
    }

    pub(crate) fn tool(name: &Arc<str>, policy: &ToolPolicy) -> Self {
        Self { what: "tool", name: Arc::clone(name), policy: Some(policy.clone()) }
    }
}

impl DryRun {
    /// Returns the step with this name.
    pub fn step(&self, name: &str) -> Option<&DryStep> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Returns the names of the steps by stage. Steps of one stage may run concurrently.
    pub fn stages(&self) -> Vec<Vec<&str>> {
        let mut stages: Vec<Vec<&str>> = Vec::new();
        for step in &self.steps {
            let at = step.stage.max(1) as usize;
            if stages.len() < at {
                stages.resize(at, Vec::new());
            }
            stages[at - 1].push(&step.name);
        }
        stages.retain(|stage| !stage.is_empty());
        stages
    }

    /// Returns all calls, including those of items, rounds and branches.
    pub fn calls(&self) -> Vec<&DryCall> {
        fn collect<'d>(steps: &'d [DryStep], into: &mut Vec<&'d DryCall>) {
            for step in steps {
                into.extend(&step.calls);
                step.bodies.iter().for_each(|body| collect(&body.steps, into));
            }
        }
        let mut calls = Vec::new();
        collect(&self.steps, &mut calls);
        calls
    }

    /// Returns the scopes that the called tools require. A run that was granted fewer fails at the
    /// first tool that requires a missing one.
    pub fn scopes(&self) -> BTreeSet<&str> {
        let policies = self.calls().into_iter().filter_map(|call| call.policy.as_ref());
        policies.flat_map(|policy| &policy.scopes).map(|scope| &**scope).collect()
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.input["properties"].as_object();
        // An agent has a message instead of named inputs.
        let input = match fields.filter(|_| self.what == "workflow") {
            Some(fields) => {
                let shown = fields
                    .iter()
                    .map(|(name, schema)| format!("{name}: {}", words(schema, &self.input)));
                shown.collect::<Vec<_>>().join(", ")
            }
            None => words(&self.input, &self.input),
        };
        writeln!(
            f,
            "{} {}({input}) -> {}",
            self.what,
            self.name,
            words(&self.output, &self.output)
        )?;
        show(f, &self.steps, 1)?;
        let scopes: Vec<&str> = self.scopes().into_iter().collect();
        if !scopes.is_empty() {
            writeln!(f, "  needs the scopes {}", scopes.join(", "))?;
        }
        for issue in &self.issues {
            writeln!(f, "  issue at {}: {}", issue.node, issue.problem)?;
        }
        writeln!(f, "  limits {}", self.limits)
    }
}

fn show(f: &mut fmt::Formatter<'_>, steps: &[DryStep], depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let mut order: Vec<&DryStep> = steps.iter().collect();
    // The sort is stable, so the steps of a stage keep their order.
    order.sort_by_key(|step| step.stage);
    let mut stage = 0;
    for step in order {
        if step.stage != stage {
            stage = step.stage;
            writeln!(f, "{indent}stage {stage}")?;
        }
        writeln!(
            f,
            "{indent}  {} ({}) -> {}",
            step.name,
            step.kind,
            words(&step.gives, &step.gives)
        )?;
        let mut line = |text: String| writeln!(f, "{indent}    {text}");
        for read in &step.reads {
            let optional = if read.optional { ", if there is one" } else { "" };
            line(format!("reads {}: {}{optional}", read.node, words(&read.schema, &read.schema)))?;
        }
        for read in &step.reads_state {
            let optional = if read.optional { ", if there is one" } else { "" };
            line(format!("reads {} of the state{optional}", read.key))?;
        }
        if !step.saves_state.is_empty() {
            line(format!("saves {} in the state", step.saves_state.join(", ")))?;
        }
        if !step.after.is_empty() {
            line(format!("waits for {}", step.after.join(", ")))?;
        }
        if !step.when.is_empty() {
            let enough = step.enough.map(|enough| format!("{enough} of: ")).unwrap_or_default();
            line(format!("runs when {enough}{}", step.when.join("; ")))?;
        }
        for call in &step.calls {
            line(format!(
                "calls the {} {}{}",
                call.what,
                call.name,
                call.policy.as_ref().map(marks).unwrap_or_default()
            ))?;
        }
        if let Some(question) = &step.asks {
            line(format!("asks a person: {question}"))?;
        }
        if let Some(timeout) = step.timeout_ms {
            line(format!("takes {timeout} ms at most"))?;
        }
        if step.attempts > 1 {
            line(format!("is tried {} times at most", step.attempts))?;
        }
        if !step.repeatable {
            line("is not called again after a crash".to_owned())?;
        }
        if step.ends {
            line("ends the run with its output".to_owned())?;
        }
        for body in &step.bodies {
            if !body.branch.is_empty() {
                writeln!(f, "{indent}    {}:", body.branch)?;
            }
            show(f, &body.steps, depth + 2)?;
        }
    }
    Ok(())
}

fn marks(policy: &ToolPolicy) -> String {
    let mut marks = match policy.effects {
        Effects::None => ", no effects".to_owned(),
        Effects::Read => ", reads".to_owned(),
        Effects::Write => ", has effects".to_owned(),
    };
    if policy.idempotent {
        marks.push_str(", idempotent");
    }
    if policy.approve {
        marks.push_str(", needs approval");
    }
    if !policy.scopes.is_empty() {
        marks.push_str(&format!(", needs the scopes {}", policy.scopes.join(", ")));
    }
    marks
}
