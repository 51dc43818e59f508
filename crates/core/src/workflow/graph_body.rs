//! The behaviour of a node as data: calls to tools, agents and workflows by name, values, routes
//! and questions. Also has the edges that lead to a node.

use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::decider::Decider;
use super::mapping::{IsNode, Mapping};
use super::node_schema::NodeSchema;
use crate::state::StateTransform;

/// An edge that leads to a node of a [`Graph`](super::Graph). `{"from": "fetch"}` is taken when
/// `fetch` has its output.
///
/// ```
/// use agentflow::workflow::{Condition, GraphEdge, Mapping};
///
/// let edge = GraphEdge::from("review").when(Condition::Is(Mapping::from_part("review", "/passed")));
/// assert_eq!(edge.from, "review");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an edge, such as {\"from\": \"page\"}")]
#[non_exhaustive]
pub struct GraphEdge {
    /// Name of the node where the edge starts.
    pub from: String,
    /// Arm of a router. The edge is taken if the node is a router that takes this arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// `true` if the edge is taken when the node fails. The failure then does not fail the run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failed: bool,
    /// Condition of the edge. It is taken if the node has its output and the condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
}

impl GraphEdge {
    /// Creates an edge that is taken when the node has its output.
    pub fn from(node: impl Into<String>) -> Self {
        Self { from: node.into(), arm: None, failed: false, when: None }
    }

    /// Takes the edge only if the router takes this arm.
    #[must_use]
    pub fn arm(mut self, arm: impl Into<String>) -> Self {
        self.arm = Some(arm.into());
        self
    }

    /// Takes the edge only if the node fails.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.failed = true;
        self
    }

    /// Takes the edge only if this condition holds when the node has its output.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.when = Some(condition);
        self
    }
}

/// Behaviour of a node that is data and not code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "what a node does, such as {\"value\": {\"from\": \"page\"}}"
)]
#[non_exhaustive]
pub enum GraphBody {
    /// Calls a tool, an agent or a workflow. The output is the JSON of the answer. A tool's text
    /// for models, its files and its links are not kept.
    Call(Reference),
    /// Computes a value.
    Value(Mapping),
    /// Changes the state, as [`Context::transform`](crate::Context::transform) does. The output is
    /// an object with the values that were set.
    Transform(Vec<StateTransform>),
    /// Chooses arms.
    Route(Routes),
    /// Asks a person.
    Ask(Question),
    /// Asks a decider about the node that [`GraphNode::decides`](super::GraphNode::decides) names.
    /// The node begins afterwards.
    Decide(Decider),
    /// Makes a call for each item of a list. The output is the list of the outputs.
    Map {
        /// Node whose output is the list.
        items: String,
        /// Call for each item. `{"item": ""}` in its mapping is the item.
        call: Reference,
    },
    /// Makes calls at the same time. The first success is the output.
    Race(Vec<Reference>),
    /// Makes calls one after another until one succeeds.
    Fallback(Vec<Reference>),
    /// Repeats a call on its own output.
    Repeat {
        /// Node whose output is the input of the first round.
        first: String,
        /// Call of each round. `{"item": ""}` in its mapping is the last output.
        call: Reference,
        /// Condition over the last output, `{"item": ""}`. The repetition ends when it holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Condition>,
        /// Maximum number of rounds.
        max: u32,
    },
}

/// A call to a tool, an agent or a workflow by its name, with its input.
///
/// ```
/// use agentflow::workflow::{GraphBody, GraphNode, Mapping, Reference};
///
/// let fetch = Reference::tool("fetch", Mapping::object([("url", Mapping::from("address"))]));
/// let node = GraphNode::new("page", GraphBody::Call(fetch));
/// assert_eq!(node.name, "page");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a call, such as {\"kind\": \"tool\", \"name\": \"fetch\", \"with\": {..}}"
)]
#[non_exhaustive]
pub struct Reference {
    /// Kind of the callee.
    pub kind: ReferenceKind,
    /// Name of the callee in the runtime.
    pub name: String,
    /// Input of the call. A tool takes its arguments as an object, and a workflow its inputs. An
    /// agent takes its message as a string, and any other value as JSON.
    pub with: Mapping,
    /// Mapping from the answer, which is `{"item": ""}` here, to the output. It can read only the
    /// answer. Default: the answer is the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives: Option<Mapping>,
}

/// Kind of the callee of a [`Reference`].
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
    /// Returns the name of the kind, such as `tool`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Workflow => "workflow",
        }
    }
}

impl Reference {
    /// Creates a call to a tool with an object of arguments.
    pub fn tool(name: impl Into<String>, with: Mapping) -> Self {
        Self { kind: ReferenceKind::Tool, name: name.into(), with, gives: None }
    }

    /// Creates a run of an agent with a message. An `#[agent]` function takes an object of its
    /// arguments.
    pub fn agent(name: impl Into<String>, with: Mapping) -> Self {
        Self { kind: ReferenceKind::Agent, name: name.into(), with, gives: None }
    }

    /// Creates a run of a workflow with an object of inputs.
    pub fn workflow(name: impl Into<String>, with: Mapping) -> Self {
        Self { kind: ReferenceKind::Workflow, name: name.into(), with, gives: None }
    }

    /// Maps the answer, which is `{"item": ""}` in the mapping, to the output. See
    /// [`gives`](Self::gives).
    #[must_use]
    pub fn giving(mut self, gives: Mapping) -> Self {
        self.gives = Some(gives);
        self
    }
}

/// Arms of a router, and the number of arms that it takes.
///
/// ```
/// use agentflow::workflow::{Condition, GraphBody, GraphNode, Mapping, Route, Routes};
///
/// let is_urgent = Condition::Is(Mapping::from_part("order", "/urgent"));
/// let routes = Routes::first([Route::when("express", is_urgent), Route::otherwise("standard")]);
/// let node = GraphNode::new("shipping", GraphBody::Route(routes));
/// assert_eq!(node.name, "shipping");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a choice, such as {\"arms\": [{\"arm\": \"a\", \"when\": {..}}, {\"arm\": \"b\"}]}"
)]
#[non_exhaustive]
pub struct Routes {
    /// Arms in order. An arm without a condition is taken if no arm before it is taken.
    pub arms: Vec<Route>,
    /// `true` to take all arms whose conditions hold, `false` to take only the first. If no arm is
    /// taken, the node fails.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
}

/// An arm of a router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an arm, such as {\"arm\": \"a\", \"when\": {..}}")]
#[non_exhaustive]
pub struct Route {
    /// Name of the arm.
    pub arm: String,
    /// Condition of the arm. An arm without a condition is taken if no arm before it is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
}

impl Routes {
    /// Takes the first arm whose condition holds.
    pub fn first(arms: impl IntoIterator<Item = Route>) -> Self {
        Self { arms: arms.into_iter().collect(), all: false }
    }

    /// Takes all arms whose conditions hold. The node fails if none holds and every arm has a
    /// condition.
    pub fn all(arms: impl IntoIterator<Item = Route>) -> Self {
        Self { arms: arms.into_iter().collect(), all: true }
    }
}

impl Route {
    /// Creates an arm that is taken if a condition holds.
    pub fn when(arm: impl Into<String>, condition: Condition) -> Self {
        Self { arm: arm.into(), when: Some(condition) }
    }

    /// Creates an arm that is taken if no arm before it is taken.
    pub fn otherwise(arm: impl Into<String>) -> Self {
        Self { arm: arm.into(), when: None }
    }
}

/// A question to a person.
///
/// ```
/// use agentflow::workflow::{GraphBody, GraphNode, Mapping, Question};
///
/// let question = Question::new("Publish this text?").about(Mapping::from("draft"));
/// let node = GraphNode::new("approval", GraphBody::Ask(question));
/// assert_eq!(node.name, "approval");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a question, such as {\"text\": \"May it?\"}")]
#[non_exhaustive]
pub struct Question {
    /// Text of the question. It is a [template](crate::template) over nodes, inputs and the state.
    pub text: String,
    /// Value to show with the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Mapping>,
    /// JSON Schema of the answer. Default: an [`Approval`](crate::Approval).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<NodeSchema>,
}

impl Question {
    /// Creates a question that is answered with an [`Approval`](crate::Approval).
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), about: None, answer: None }
    }

    /// Shows a value with the question.
    #[must_use]
    pub fn about(mut self, value: Mapping) -> Self {
        self.about = Some(value);
        self
    }

    /// Expects an answer that fits this schema.
    #[must_use]
    pub fn answer(mut self, schema: NodeSchema) -> Self {
        self.answer = Some(schema);
        self
    }
}

impl GraphBody {
    /// Returns the nodes and inputs that it reads. The flag is `true` if the value may be missing.
    /// `is_node` returns true for the name of a node.
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

    /// Returns the state keys that it reads, as [`Mapping::state_keys`] does.
    pub(crate) fn state_keys<'b>(&'b self, is_node: IsNode<'_>) -> Vec<(&'b str, bool)> {
        let of_mappings = self.mappings().flat_map(|mapping| mapping.state_keys(is_node));
        of_mappings
            .chain(self.conditions().flat_map(|condition| condition.state_keys(is_node)))
            .collect()
    }

    /// Returns the state keys that its values require.
    pub(crate) fn needed_keys<'b>(&'b self, is_node: IsNode<'_>) -> Vec<&'b str> {
        self.mappings().flat_map(|mapping| mapping.needed_keys(is_node)).collect()
    }

    /// Returns the changes that it makes to the state.
    pub(crate) fn transforms(&self) -> &[StateTransform] {
        match self {
            Self::Transform(transforms) => transforms,
            _ => &[],
        }
    }

    /// Returns the mappings of its values.
    fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        let own = match self {
            Self::Value(value) => Some(value),
            Self::Ask(question) => question.about.as_ref(),
            _ => None,
        };
        self.calls().iter().map(|call| &call.with).chain(own)
    }

    /// Returns the conditions of its arms.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let arms = match self {
            Self::Route(routes) => routes.arms.as_slice(),
            _ => &[],
        };
        arms.iter().filter_map(|arm| arm.when.as_ref())
    }

    /// Returns its callees by kind and name, including a decider.
    pub(crate) fn callees(&self) -> impl Iterator<Item = (ReferenceKind, &str)> {
        let decider = match self {
            Self::Decide(decider) => Some((decider.kind, decider.name.as_str())),
            _ => None,
        };
        self.calls().iter().map(|call| (call.kind, call.name.as_str())).chain(decider)
    }

    /// Returns the calls that it makes.
    pub(crate) fn calls(&self) -> &[Reference] {
        match self {
            Self::Call(call) | Self::Map { call, .. } | Self::Repeat { call, .. } => {
                std::slice::from_ref(call)
            }
            Self::Race(calls) | Self::Fallback(calls) => calls,
            Self::Value(_)
            | Self::Transform(_)
            | Self::Route(_)
            | Self::Ask(_)
            | Self::Decide(_) => &[],
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
