//! What a node does and how it is reached, as data: references to tools, agents and workflows by their names, values,
//! routes, questions. It runs nothing.

use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::decider::Decider;
use super::mapping::{IsNode, Mapping};
use super::node_schema::NodeSchema;
use crate::state::StateTransform;

/// An edge that leads to a node of a [`Graph`](super::Graph): `{"from": "fetch"}` is taken when `fetch` has its output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an edge, such as {\"from\": \"page\"}")]
#[non_exhaustive]
pub struct GraphEdge {
    /// The node that it comes from.
    pub from: String,
    /// It is taken when the node is a router that takes this arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// It is taken when the node has failed; the run does not fail of that node then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failed: bool,
    /// It is taken when the node has its output and this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
}

impl GraphEdge {
    /// An edge that is taken when the node has its output.
    pub fn from(node: impl Into<String>) -> Self {
        Self { from: node.into(), arm: None, failed: false, when: None }
    }

    /// Taken when the router takes this arm.
    #[must_use]
    pub fn arm(mut self, arm: impl Into<String>) -> Self {
        self.arm = Some(arm.into());
        self
    }

    /// Taken when the node has failed.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.failed = true;
        self
    }

    /// Taken when this holds, too.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.when = Some(condition);
        self
    }
}

/// What a node does, where that is data and not code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "what a node does, such as {\"value\": {\"from\": \"page\"}}"
)]
#[non_exhaustive]
pub enum GraphBody {
    /// It calls a tool, an agent or a workflow. Its output is the JSON of the answer; a tool's text for models, its files and
    /// its links are not kept.
    Call(Reference),
    /// It is a value.
    Value(Mapping),
    /// It changes the state, as [`Context::transform`](crate::Context::transform) does. Its output is an object of what it set.
    Transform(Vec<StateTransform>),
    /// It chooses arms.
    Route(Routes),
    /// It asks a person.
    Ask(Question),
    /// It asks a decider about the node that [`GraphNode::decides`](super::GraphNode::decides) names, which begins after it.
    Decide(Decider),
    /// It makes a call for each item of a list; the output is the list of the outputs.
    Map {
        /// The node whose output is the list.
        items: String,
        /// The call; `{"item": ""}` in its mapping is the item.
        call: Reference,
    },
    /// It makes calls at the same time, and the first success is its output.
    Race(Vec<Reference>),
    /// It makes calls one after another until one succeeds.
    Fallback(Vec<Reference>),
    /// It repeats a call on its own output.
    Repeat {
        /// The node whose output the first round is given.
        first: String,
        /// The call; `{"item": ""}` in its mapping is the last output.
        call: Reference,
        /// Over the last output, `{"item": ""}`: the repetition is over when it holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Condition>,
        /// The most rounds.
        max: u32,
    },
}

/// A tool, an agent or a workflow by its name, with what it is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a call, such as {\"kind\": \"tool\", \"name\": \"fetch\", \"with\": {..}}")]
#[non_exhaustive]
pub struct Reference {
    /// What it is.
    pub kind: ReferenceKind,
    /// Its name among those that the runtime knows.
    pub name: String,
    /// What it is given: the arguments of a tool and the inputs of a workflow as an object, the message to an agent as a
    /// text, or as any other value, which it is shown as JSON.
    pub with: Mapping,
    /// What is made of its answer, which is `{"item": ""}` here; without it, the answer as it is. It reads nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives: Option<Mapping>,
}

/// What a [`Reference`] is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReferenceKind {
    /// A tool.
    Tool,
    /// An agent.
    Agent,
    /// A workflow.
    Workflow,
}

impl ReferenceKind {
    /// The word, such as `tool`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Workflow => "workflow",
        }
    }
}

impl Reference {
    /// A call of a tool with an object of arguments.
    pub fn tool(name: impl Into<String>, with: Mapping) -> Self {
        Self { kind: ReferenceKind::Tool, name: name.into(), with, gives: None }
    }

    /// A run of an agent with a message; of an `#[agent]` function, with an object of its arguments.
    pub fn agent(name: impl Into<String>, with: Mapping) -> Self {
        Self { kind: ReferenceKind::Agent, name: name.into(), with, gives: None }
    }

    /// A run of a workflow with an object of inputs.
    pub fn workflow(name: impl Into<String>, with: Mapping) -> Self {
        Self { kind: ReferenceKind::Workflow, name: name.into(), with, gives: None }
    }

    /// Makes something of the answer, which is `{"item": ""}` in it: see [`gives`](Self::gives).
    #[must_use]
    pub fn giving(mut self, gives: Mapping) -> Self {
        self.gives = Some(gives);
        self
    }
}

/// The arms of a router, and how many it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a choice, such as {\"arms\": [{\"arm\": \"a\", \"when\": {..}}, {\"arm\": \"b\"}]}"
)]
#[non_exhaustive]
pub struct Routes {
    /// The arms in their order. One without a condition is taken when none before it is.
    pub arms: Vec<Route>,
    /// Whether it takes all arms whose conditions hold, and not only the first. It takes at least one: where none holds, the
    /// node fails.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
}

/// An arm of a router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an arm, such as {\"arm\": \"a\", \"when\": {..}}")]
#[non_exhaustive]
pub struct Route {
    /// Its name.
    pub arm: String,
    /// When it is taken; without a condition, when none before it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
}

impl Routes {
    /// Takes the first arm whose condition holds.
    pub fn first(arms: impl IntoIterator<Item = Route>) -> Self {
        Self { arms: arms.into_iter().collect(), all: false }
    }

    /// Takes all arms whose conditions hold. When none does, and no arm is without a condition, the node fails.
    pub fn all(arms: impl IntoIterator<Item = Route>) -> Self {
        Self { arms: arms.into_iter().collect(), all: true }
    }
}

impl Route {
    /// An arm that is taken when a condition holds.
    pub fn when(arm: impl Into<String>, condition: Condition) -> Self {
        Self { arm: arm.into(), when: Some(condition) }
    }

    /// An arm that is taken when none before it is.
    pub fn otherwise(arm: impl Into<String>) -> Self {
        Self { arm: arm.into(), when: None }
    }
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a question, such as {\"text\": \"May it?\"}")]
#[non_exhaustive]
pub struct Question {
    /// The question, a [template](crate::template) over nodes, inputs and the state.
    pub text: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Mapping>,
    /// The JSON Schema of the answer; without it, an [`Approval`](crate::Approval) is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<NodeSchema>,
}

impl Question {
    /// A question that is answered with an [`Approval`](crate::Approval).
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), about: None, answer: None }
    }

    /// Shows a value beside the question.
    #[must_use]
    pub fn about(mut self, value: Mapping) -> Self {
        self.about = Some(value);
        self
    }

    /// Asks for a value of this schema.
    #[must_use]
    pub fn answer(mut self, schema: NodeSchema) -> Self {
        self.answer = Some(schema);
        self
    }
}

impl GraphBody {
    /// The nodes and inputs that it reads, with whether one may be missing. `is_node` says which names are those of nodes.
    pub(crate) fn reads<'b>(&'b self, is_node: IsNode<'_>) -> Vec<(&'b str, bool)> {
        let of = |mapping: &'b Mapping| mapping.reads(is_node);
        let mut reads: Vec<(&str, bool)> = match self {
            Self::Map { items: first, .. } | Self::Repeat { first, .. } => vec![(first, false)],
            _ => Vec::new(),
        };
        reads.extend(self.mappings().flat_map(of));
        reads.extend(self.conditions().flat_map(|condition| condition.reads(is_node)));
        reads
    }

    /// The keys of the state that it reads, as [`Mapping::state_keys`].
    pub(crate) fn state_keys<'b>(&'b self, is_node: IsNode<'_>) -> Vec<(&'b str, bool)> {
        let of_mappings = self.mappings().flat_map(|mapping| mapping.state_keys(is_node));
        of_mappings.chain(self.conditions().flat_map(|condition| condition.state_keys(is_node))).collect()
    }

    /// The keys of the state without which its values cannot be made.
    pub(crate) fn needed_keys<'b>(&'b self, is_node: IsNode<'_>) -> Vec<&'b str> {
        self.mappings().flat_map(|mapping| mapping.needed_keys(is_node)).collect()
    }

    /// The changes of the state that it makes.
    pub(crate) fn transforms(&self) -> &[StateTransform] {
        match self {
            Self::Transform(transforms) => transforms,
            _ => &[],
        }
    }

    /// The values that it makes.
    fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        let own = match self {
            Self::Value(value) => Some(value),
            Self::Ask(question) => question.about.as_ref(),
            _ => None,
        };
        self.calls().iter().map(|call| &call.with).chain(own)
    }

    /// The conditions of its arms.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let arms = match self {
            Self::Route(routes) => routes.arms.as_slice(),
            _ => &[],
        };
        arms.iter().filter_map(|arm| arm.when.as_ref())
    }

    /// What it calls, by kind and name; a decider among them.
    pub(crate) fn callees(&self) -> impl Iterator<Item = (ReferenceKind, &str)> {
        let decider = match self {
            Self::Decide(decider) => Some((decider.kind, decider.name.as_str())),
            _ => None,
        };
        self.calls().iter().map(|call| (call.kind, call.name.as_str())).chain(decider)
    }

    /// The calls that it makes.
    pub(crate) fn calls(&self) -> &[Reference] {
        match self {
            Self::Call(call) | Self::Map { call, .. } | Self::Repeat { call, .. } => std::slice::from_ref(call),
            Self::Race(calls) | Self::Fallback(calls) => calls,
            Self::Value(_) | Self::Transform(_) | Self::Route(_) | Self::Ask(_) | Self::Decide(_) => &[],
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
