//! Workflows put together with operators: values that say what runs after, beside and in place of what. This room makes
//! graphs; it runs nothing and finds no names.
#![doc = include_str!("../docs/pipeline.md")]

mod choice;
#[cfg(feature = "documents")]
mod described;
mod drafting;
mod graph_in_work;
mod input_names;
mod operators;
mod pipeline_part;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use self::choice::Choice;
#[cfg(feature = "documents")]
pub(crate) use self::drafting::check_name;
use self::drafting::{Drafting, WrittenGraph};
pub use self::operators::{Until, until};
pub(crate) use self::pipeline_part::Given;
use self::pipeline_part::{Kind, Part};
use crate::agent::{Agent, ErasedAgent};
use crate::state::StateTransform;
use crate::tool::ToolRef;
use crate::value::NodeValue;
use crate::workflow::{Decider, Graph, NodePolicy, NodeSchema, ReferenceKind, RunLimits};

/// A part of a workflow: it is given a value and has a value as its output. Operators put parts together; what they give is a
/// part again. It is pure data: using one twice makes two nodes, and nothing runs before a runtime starts its workflow.
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

/// What is wrong with a [`Pipeline`], a line each: templates and conditions that cannot be read, parts that cannot be as they are
/// asked to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PipelineError(String);

impl Pipeline {
    fn of(kind: Kind) -> Self {
        Self(Arc::new(Part::new(kind)))
    }

    fn changed(mut self, change: impl FnOnce(&mut Part)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// A call of a tool by its name, such as `count_words` or `mcp.files.read`. It is given an object, its arguments.
    pub fn tool(name: impl Into<Arc<str>>) -> Self {
        Self::of(Kind::Call(ReferenceKind::Tool, name.into()))
    }

    /// A run of an agent by its name. It is given its message: a text, or any other value, which it is shown as JSON.
    #[doc(alias = "OpaqueADKNode")]
    pub fn agent(name: impl Into<Arc<str>>) -> Self {
        Self::of(Kind::Call(ReferenceKind::Agent, name.into()))
    }

    /// A run of a workflow by its name. It is given an object, its inputs.
    pub fn workflow(name: impl Into<Arc<str>>) -> Self {
        Self::of(Kind::Call(ReferenceKind::Workflow, name.into()))
    }

    /// A value. Texts in it are [templates](crate::template): `{input}` is what the part is given, `{input.title}` a part of
    /// it, and `{state.tone}` a value of the state.
    pub fn value(value: impl Into<Value>) -> Self {
        Self::of(Kind::Value(value.into()))
    }

    /// A question that a person must agree to before what follows begins. It is a [template](crate::template) over `input` and
    /// `state`, as in `"Transfer {input.amount}?"`. The person sees the value that is given, which is also the output. A denial
    /// fails the run, unless there is an [`otherwise`](Self::otherwise).
    #[doc(alias = "GateNode")]
    #[doc(alias = "interrupt")]
    pub fn gate(question: impl Into<Arc<str>>) -> Self {
        Self::of(Kind::Gate(question.into(), None))
    }

    /// Sets the part that runs when the question of this [`gate`](Self::gate) is denied, with the value that the gate is given:
    /// `Pipeline::gate("May it be sent?").otherwise(Pipeline::value("kept"))`. Its output replaces that of the gate, and the run
    /// continues. Without it a denial fails the run. Only a gate has one; for other parts [`graphs`](Self::graphs) returns an
    /// error.
    #[must_use]
    pub fn otherwise(self, part: impl Into<Self>) -> Self {
        let denied = part.into();
        self.changed(|gate| match &mut gate.kind {
            Kind::Gate(_, otherwise) => *otherwise = Some(denied),
            _ => gate.otherwise = true,
        })
    }

    /// Changes of the state, one after another. The output is the value that is given.
    #[doc(alias = "TransformNode")]
    pub fn transform(transforms: impl IntoIterator<Item = StateTransform>) -> Self {
        Self::of(Kind::Transform(transforms.into_iter().collect()))
    }

    /// Runs parts at the same time, each with the value that is given; the first success is the output, and the others are
    /// cancelled.
    #[doc(alias = "RaceNode")]
    pub fn race<F: Into<Self>>(parts: impl IntoIterator<Item = F>) -> Self {
        Self::of(Kind::Race(parts.into_iter().map(Into::into).collect()))
    }

    /// Runs a part for each item of the list that is given; the output is the list of the outputs, in the order of the items.
    /// At most 16 run at once, unless the [policy](Self::policy) says otherwise.
    #[doc(alias = "MapOverNode")]
    pub fn map_over(part: impl Into<Self>) -> Self {
        Self::of(Kind::Map(part.into()))
    }

    /// A part that runs when a condition holds, a line of [CEL](crate::expression) over `input`, the value that is given, and
    /// `state`: `Pipeline::when("input.size < 10", quick).otherwise(slow)`. The output is that of the part that ran.
    #[doc(alias = "route")]
    #[doc(alias = "RouteNode")]
    pub fn when(condition: impl Into<Arc<str>>, part: impl Into<Self>) -> Choice {
        Choice::new(condition.into(), part.into())
    }

    /// This part, and then another one, which is given its output: the operator `>>`.
    #[must_use]
    pub fn then(self, next: impl Into<Self>) -> Self {
        self >> next
    }

    /// This part and another one at the same time, both with the value that is given: the operator `|`. The output is an
    /// object of their outputs by their names.
    #[must_use]
    pub fn beside(self, other: impl Into<Self>) -> Self {
        self | other
    }

    /// This part, and when it fails another one in its place: the operator `/`.
    #[must_use]
    #[doc(alias = "FallbackNode")]
    pub fn fallback(self, other: impl Into<Self>) -> Self {
        self / other
    }

    /// This part so many times, each time with its last output: the operator `*` with a number.
    #[must_use]
    #[doc(alias = "loop_")]
    #[doc(alias = "LoopAgent")]
    pub fn times(self, rounds: u32) -> Self {
        self * rounds
    }

    /// A part that sees the output of this one and changes nothing: a state that it would change is an error in it, and its
    /// failure is not one of the run. What follows is given this part's output.
    #[must_use]
    #[doc(alias = "TapNode")]
    pub fn tap(self, part: impl Into<Self>) -> Self {
        self >> Self::of(Kind::Tap(part.into()))
    }

    /// The name of this part: of its node, and of its field where parts run at the same time. Default: that of what is called.
    #[must_use]
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        self.changed(|part| part.name = Some(name.into()))
    }

    /// What a call is given in place of the value itself: JSON with [templates](Self::value), such as
    /// `json!({"text": "{input.title}"})`.
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

    /// The type of the output. What a called tool, agent or workflow gives must be of it, as far as that is known when the
    /// workflow is first used; what follows is checked against it.
    #[must_use]
    #[doc(alias = "produces_type")]
    pub fn output<T: NodeValue>(self) -> Self {
        self.changed(|part| part.output = NodeSchema::of::<T>())
    }

    /// The type of the value that this part is given when it is a workflow by itself.
    #[must_use]
    #[doc(alias = "consumes_type")]
    pub fn input<T: NodeValue>(self) -> Self {
        self.changed(|part| part.input = NodeSchema::of::<T>())
    }

    /// How long each attempt may take; of a gate, how long the answer is waited for. What runs then is cancelled, and the part
    /// fails.
    #[must_use]
    #[doc(alias = "TimeoutNode")]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.changed(|part| part.policy = Some(part.policy.take().unwrap_or_default().timeout(timeout)))
    }

    /// How often it is tried again after a failure.
    #[must_use]
    pub fn retry(self, retries: u32) -> Self {
        self.changed(|part| part.policy = Some(part.policy.take().unwrap_or_default().retry(retries)))
    }

    /// All that is done when it fails, takes long, or needs a person's word.
    #[doc(alias = "Preset")]
    #[must_use]
    pub fn policy(self, policy: NodePolicy) -> Self {
        self.changed(|part| part.policy = Some(policy))
    }

    /// Asks a decider before each call in it, also in parts that are repeated or run for each item: the call is made, is
    /// skipped, or is given something else, as [`NodeDecision`](crate::workflow::NodeDecision) says. A call whose output what
    /// follows reads cannot be skipped; one that observes ([`tap`](Self::tap)) can. A part of a larger pipeline is a workflow of
    /// its own then, and in it its own decider is asked. Default: nobody is asked.
    #[must_use]
    pub fn decider(self, decider: Decider) -> Self {
        self.changed(|part| part.decider = Some(decider))
    }

    /// Bounds each run of its workflow. A part of a larger pipeline has no run of its own, so there the limits of that one count
    /// and these do not; [`timeout`](Self::timeout) bounds a part. Default: the limits of the runtime alone.
    #[doc(alias = "with_config")]
    #[must_use]
    pub fn limits(self, limits: RunLimits) -> Self {
        self.changed(|part| part.limits = limits)
    }

    /// The graphs of a workflow of this name: those first that others call, the workflow last. Its input is `input`.
    /// [`RuntimeBuilder::pipeline`](crate::runtime::RuntimeBuilder::pipeline) makes it known to a runtime.
    ///
    /// # Errors
    /// All that is wrong whatever the names in it refer to.
    #[doc(alias = "compile")]
    pub fn graphs(&self, name: &str) -> Result<Vec<Graph>, PipelineError> {
        Ok(self.written_graphs(name)?.into_iter().map(|(graph, _)| graph).collect())
    }

    /// The same, with the parts of a document that their nodes are.
    pub(crate) fn written_graphs(&self, name: &str) -> Result<Vec<WrittenGraph>, PipelineError> {
        let mut drafting = Drafting::new(name);
        drafting.workflow(self);
        let (graphs, problems) = drafting.into_parts();
        if problems.is_empty() { Ok(graphs) } else { Err(PipelineError(problems.join("\n"))) }
    }

    /// The agents and tools that it was made of, beside those that it names.
    pub(crate) fn given(&self) -> Vec<Given> {
        let mut all = Vec::new();
        self.0.given(&mut all);
        all
    }
}

/// The agent is known by its name to the runtime that is given the pipeline.
impl<O: 'static> From<Agent<O>> for Pipeline {
    fn from(agent: Agent<O>) -> Self {
        Self::of(Kind::Given(Given::Agent(ErasedAgent::new(agent))))
    }
}

/// The agent is known by its name to the runtime that is given the pipeline.
impl<O: 'static> From<&Agent<O>> for Pipeline {
    fn from(agent: &Agent<O>) -> Self {
        agent.clone().into()
    }
}

/// The tool is known by its name to the runtime that is given the pipeline.
impl From<ToolRef> for Pipeline {
    fn from(tool: ToolRef) -> Self {
        Self::of(Kind::Given(Given::Tool(tool)))
    }
}

impl From<&Pipeline> for Pipeline {
    fn from(pipeline: &Pipeline) -> Self {
        pipeline.clone()
    }
}

/// Shows how it is put together, with operators.
impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
