//! Pipelines: workflows that are composed with operators, such as `draft >> review | check`.
//!
//! A [`Pipeline`] is a part of a workflow: a call, a value, a question or a combination of parts.
//! The operators `>>`, `|`, `/` and `*` (`operators`) combine parts; a [`Choice`] selects one by
//! conditions. The result is pure data (`pipeline_part`). `drafting` converts it to [`Graph`]s,
//! which a runtime executes like any other graph. Names of tools, agents and workflows are resolved
//! by the runtime.
#![doc = include_str!("../docs/pipeline.md")]

mod choice;
#[cfg(feature = "documents")]
mod described;
mod drafting;
mod graph_in_work;
mod input_names;
mod operators;
pub(crate) mod pipeline_codes;
mod pipeline_part;

use agentflow_schema::diagnostic::{Diagnostic, sentences};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use self::choice::Choice;
#[cfg(feature = "documents")]
pub(crate) use self::drafting::check_name;
use self::drafting::{GraphGenerator, WrittenGraph};
pub use self::operators::{Until, until};
pub(crate) use self::pipeline_part::Given;
use self::pipeline_part::{Kind, Part};
use crate::agent::{Agent, ErasedAgent};
use crate::state::StateTransform;
use crate::tool::ToolRef;
use crate::value::NodeValue;
use crate::workflow::{Decider, Graph, NodePolicy, NodeSchema, ReferenceKind, RunLimits};

/// A part of a workflow with an input value and an output value. Operators combine parts to new
/// parts. A pipeline is pure data: using a part twice creates two nodes, and nothing is executed
/// before a runtime starts the workflow.
///
/// ```
/// use agentflow::pipeline::{Pipeline, until};
///
/// let research = Pipeline::agent("law") | Pipeline::agent("market");
/// let draft = (Pipeline::agent("writer") >> Pipeline::agent("critic")) * until("item.score >= 8").max(3);
/// let report = research >> draft >> Pipeline::gate("May it be sent?") >> (Pipeline::tool("send") / Pipeline::tool("send_by_fax"));
///
/// let graphs = report.graphs("report").unwrap();
/// assert_eq!(graphs.last().unwrap().name, "report");
/// ```
#[derive(Clone)]
#[doc(alias = "operators")]
#[doc(alias = "SequentialAgent")]
#[doc(alias = "ParallelAgent")]
pub struct Pipeline(Arc<Part>);

/// Problems of a [`Pipeline`], one per line: invalid templates and conditions, and options that a
/// part does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentences(.problems))]
pub struct PipelineError {
    problems: Vec<Diagnostic>,
}

impl PipelineError {
    /// The problems, in the order of the parts.
    pub fn problems(&self) -> &[Diagnostic] {
        &self.problems
    }
}

impl Pipeline {
    fn from_kind(kind: Kind) -> Self {
        Self(Arc::new(Part::new(kind)))
    }

    fn changed(mut self, change: impl FnOnce(&mut Part)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Creates a call to a tool by name, such as `count_words` or `mcp.files.read`. The input is an
    /// object with the arguments.
    pub fn tool(name: impl Into<Arc<str>>) -> Self {
        Self::from_kind(Kind::Call(ReferenceKind::Tool, name.into()))
    }

    /// Creates a call to an agent by name. The input is the message: a string, or any other value,
    /// which the model reads as JSON.
    #[doc(alias = "OpaqueADKNode")]
    pub fn agent(name: impl Into<Arc<str>>) -> Self {
        Self::from_kind(Kind::Call(ReferenceKind::Agent, name.into()))
    }

    /// Creates a call to a workflow by name. The input is an object with the inputs of the
    /// workflow.
    pub fn workflow(name: impl Into<Arc<str>>) -> Self {
        Self::from_kind(Kind::Call(ReferenceKind::Workflow, name.into()))
    }

    /// Creates a constant value. Its strings are [templates](crate::template): `{input}` is the
    /// input of the part, `{input.title}` a field of it, and `{state.tone}` a value of the state.
    pub fn value(value: impl Into<Value>) -> Self {
        Self::from_kind(Kind::Value(value.into()))
    }

    /// Creates a question that a person must approve before the next part starts. The question is a
    /// [template](crate::template) over `input` and `state`, as in `"Transfer {input.amount}?"`.
    /// The person sees the input value, which is also the output. A denial fails the run, unless
    /// the gate has an [`otherwise`](Self::otherwise).
    #[doc(alias = "GateNode")]
    #[doc(alias = "interrupt")]
    pub fn gate(question: impl Into<Arc<str>>) -> Self {
        Self::from_kind(Kind::Gate(question.into(), None))
    }

    /// Sets the part that runs if the question of this [`gate`](Self::gate) is denied, with the
    /// input of the gate: `Pipeline::gate("May it be sent?").otherwise(Pipeline::value("kept"))`.
    /// Its output replaces the output of the gate, and the run continues. Without it, a denial
    /// fails the run. Only gates support this; for other parts [`graphs`](Self::graphs) returns an
    /// error.
    #[must_use]
    pub fn otherwise(self, part: impl Into<Self>) -> Self {
        let denied = part.into();
        self.changed(|gate| match &mut gate.kind {
            Kind::Gate(_, otherwise) => *otherwise = Some(denied),
            _ => gate.otherwise = true,
        })
    }

    /// Creates a sequence of changes of the state. The output is the input value.
    #[doc(alias = "TransformNode")]
    pub fn transform(transforms: impl IntoIterator<Item = StateTransform>) -> Self {
        Self::from_kind(Kind::Transform(transforms.into_iter().collect()))
    }

    /// Runs parts concurrently with the same input. The output is the first success; the other
    /// parts are cancelled.
    #[doc(alias = "RaceNode")]
    pub fn race<F: Into<Self>>(parts: impl IntoIterator<Item = F>) -> Self {
        Self::from_kind(Kind::Race(parts.into_iter().map(Into::into).collect()))
    }

    /// Runs a part for each item of the input list. The output is the list of the outputs, in the
    /// order of the items. At most 16 items run concurrently, unless the [policy](Self::policy)
    /// sets another number.
    #[doc(alias = "MapOverNode")]
    pub fn map_over(part: impl Into<Self>) -> Self {
        Self::from_kind(Kind::Map(part.into()))
    }

    /// Creates a part that runs if a condition holds. The condition is a line of
    /// [CEL](crate::expression) over `input`, the input value, and `state`:
    /// `Pipeline::when("input.size < 10", quick).otherwise(slow)`. The output is the output of the
    /// selected part.
    #[doc(alias = "route")]
    #[doc(alias = "RouteNode")]
    pub fn when(condition: impl Into<Arc<str>>, part: impl Into<Self>) -> Choice {
        Choice::new(condition.into(), part.into())
    }

    /// Runs another part after this part, with the output of this part as its input: the operator
    /// `>>`.
    #[must_use]
    pub fn then(self, next: impl Into<Self>) -> Self {
        self >> next
    }

    /// Runs this part and another part concurrently with the same input: the operator `|`. The
    /// output is an object with the outputs by the names of the parts.
    #[must_use]
    pub fn beside(self, other: impl Into<Self>) -> Self {
        self | other
    }

    /// Runs another part with the same input if this part fails: the operator `/`.
    #[must_use]
    #[doc(alias = "FallbackNode")]
    pub fn fallback(self, other: impl Into<Self>) -> Self {
        self / other
    }

    /// Runs this part `rounds` times, each time with its previous output: the operator `*` with a
    /// number.
    #[must_use]
    #[doc(alias = "loop_")]
    #[doc(alias = "LoopAgent")]
    pub fn times(self, rounds: u32) -> Self {
        self * rounds
    }

    /// Runs another part with the output of this part, without any effect on the run: its output is
    /// ignored, its failure does not fail the run, and changing the state is an error in it. The
    /// next part receives the output of this part.
    #[must_use]
    #[doc(alias = "TapNode")]
    pub fn tap(self, part: impl Into<Self>) -> Self {
        self >> Self::from_kind(Kind::Tap(part.into()))
    }

    /// Sets the name of this part: the name of its node, and of its field in the output of parallel
    /// parts. Default: the name of the called tool, agent or workflow.
    #[must_use]
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        self.changed(|part| part.name = Some(name.into()))
    }

    /// Sets the argument of a call, which replaces the input value: JSON with
    /// [templates](Self::value), such as `json!({"text": "{input.title}"})`.
    #[must_use]
    pub fn with(self, value: impl Into<Value>) -> Self {
        self.changed(|part| part.with = Some(value.into()))
    }

    /// Saves the output under a key of the [state](crate::state).
    #[must_use]
    #[doc(alias = "writes_keys")]
    pub fn save(self, key: impl Into<String>) -> Self {
        self.changed(|part| drop(part.saves.insert(key.into(), String::new())))
    }

    /// Sets the type of the output. The next part is checked against it. The output of the called
    /// tool, agent or workflow must have this type; if its type is known, that is checked when the
    /// workflow is first used.
    #[must_use]
    #[doc(alias = "produces_type")]
    pub fn output<T: NodeValue>(self) -> Self {
        self.changed(|part| part.output = NodeSchema::for_type::<T>())
    }

    /// Sets the type of the input, for a part that is a separate workflow.
    #[must_use]
    #[doc(alias = "consumes_type")]
    pub fn input<T: NodeValue>(self) -> Self {
        self.changed(|part| part.input = NodeSchema::for_type::<T>())
    }

    /// Sets the time limit of each attempt; for a gate, the time limit for the answer. When it is
    /// exceeded, the part is cancelled and fails.
    #[must_use]
    #[doc(alias = "TimeoutNode")]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.changed(|part| {
            part.policy = Some(part.policy.take().unwrap_or_default().timeout(timeout));
        })
    }

    /// Sets the maximum number of retries after a failure.
    #[must_use]
    pub fn retry(self, retries: u32) -> Self {
        self.changed(|part| {
            part.policy = Some(part.policy.take().unwrap_or_default().retry(retries));
        })
    }

    /// Sets the whole policy: retries, time limits, approval and the reaction to failures.
    #[doc(alias = "Preset")]
    #[must_use]
    pub fn policy(self, policy: NodePolicy) -> Self {
        self.changed(|part| part.policy = Some(policy))
    }

    /// Sets a decider that is called before each call in this part, also in repeated parts and
    /// items. It decides whether the call is made, skipped, or made with another argument, see
    /// [`NodeDecision`](crate::workflow::NodeDecision). A call cannot be skipped if the next part
    /// reads its output; a [`tap`](Self::tap) can. As a part of a larger pipeline, the part becomes
    /// a separate workflow, in which only its own decider is called. Default: no decider.
    #[must_use]
    pub fn decider(self, decider: Decider) -> Self {
        self.changed(|part| part.decider = Some(decider))
    }

    /// Sets the limits of each run of the workflow. They have no effect for a part of a larger
    /// pipeline, which runs in the run of that pipeline; use [`timeout`](Self::timeout) to limit a
    /// part. Default: only the limits of the runtime.
    #[doc(alias = "with_config")]
    #[must_use]
    pub fn limits(self, limits: RunLimits) -> Self {
        self.changed(|part| part.limits = limits)
    }

    /// Returns the graphs of a workflow with this name: called workflows before their callers, and
    /// the workflow itself last. Its input is named `input`.
    /// [`RuntimeBuilder::pipeline`](crate::runtime::RuntimeBuilder::pipeline) registers it in a
    /// runtime.
    ///
    /// # Errors
    /// All problems that can be found without resolving the names of tools, agents and workflows.
    #[doc(alias = "compile")]
    pub fn graphs(&self, name: &str) -> Result<Vec<Graph>, PipelineError> {
        Ok(self.written_graphs(name)?.into_iter().map(|(graph, _)| graph).collect())
    }

    /// Returns the graphs, with the numbers of the parts in the document that their nodes come
    /// from.
    pub(crate) fn written_graphs(&self, name: &str) -> Result<Vec<WrittenGraph>, PipelineError> {
        let mut drafting = GraphGenerator::new(name);
        drafting.workflow(self);
        let (graphs, problems) = drafting.into_parts();
        if problems.is_empty() { Ok(graphs) } else { Err(PipelineError { problems }) }
    }

    /// Returns the agents and tools that were passed as values instead of names.
    pub(crate) fn given(&self) -> Vec<Given> {
        let mut all = Vec::new();
        self.0.given(&mut all);
        all
    }
}

/// The runtime that receives the pipeline registers the agent by its name.
impl<O: 'static> From<Agent<O>> for Pipeline {
    fn from(agent: Agent<O>) -> Self {
        Self::from_kind(Kind::Given(Given::Agent(ErasedAgent::new(agent))))
    }
}

/// The runtime that receives the pipeline registers the agent by its name.
impl<O: 'static> From<&Agent<O>> for Pipeline {
    fn from(agent: &Agent<O>) -> Self {
        agent.clone().into()
    }
}

/// The runtime that receives the pipeline registers the tool by its name.
impl From<ToolRef> for Pipeline {
    fn from(tool: ToolRef) -> Self {
        Self::from_kind(Kind::Given(Given::Tool(tool)))
    }
}

impl From<&Pipeline> for Pipeline {
    fn from(pipeline: &Pipeline) -> Self {
        pipeline.clone()
    }
}

/// Shows the composition with operators.
impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
