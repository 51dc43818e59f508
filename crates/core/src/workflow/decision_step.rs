//! The step that asks a decider about another step. What the decider says is checked here, and `decided.rs` says what it means
//! for the step. It runs no step, and leads nowhere where the plan has no edge.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::bodies::encode;
use super::builder::Builder;
use super::decided::{Decided, NeededBy};
use super::decider::{NextNode, NodeDecision};
#[cfg(feature = "dynamic")]
use super::graph_body::ReferenceKind;
use super::node::Node;
use super::node_handle::RawHandle;
use super::node_schema::NodeSchema;
use super::spec::{Body, NodeIndex, NodeKind, Outputs, Step, StepFuture};
use super::step_error::{StepError, StepFailure};
use crate::context::Context;
use crate::error::FailureKind;
use crate::value::Encoded;
#[cfg(feature = "dynamic")]
use crate::value::NodeValue;

/// How often a decider is asked about one step: after each answer that is refused it is given the reason.
const ATTEMPTS: u32 = 3;

/// What the step is called that asks about another one, after the name of that one.
pub(super) const DECISION: &str = ".decision";

/// A function that is asked.
#[derive(Clone)]
pub(super) struct Ask(Arc<dyn Fn(Context, NextNode) -> StepFuture + Send + Sync>);

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ask(..)")
    }
}

impl Builder {
    /// Asks a decider before each step that is added from now on, also in the bodies of loops: it continues, skips the step,
    /// or revises the values that the step reads. What it says is recorded as the output of a step of its own,
    /// `NAME.decision`, before it has any effect, so a run that is resumed does not ask again. Whatever the step's policy
    /// asks for, a person's word for example, is asked for with the revised values.
    ///
    /// An answer that does not fit is refused: a step that a later one needs cannot be skipped, and revised values are of
    /// the types that the step reads. The decider is asked again with the reason, three times at most; then the run fails. Values,
    /// checks, routers, joins and gates are never decided on.
    ///
    /// Called before any other node is added. An `#[agent]` function can be the decider: `b.decider(|_, next| guide(next))`.
    /// `#[workflow]` has the option `decider = guide`.
    pub fn decider<E, B, F>(&mut self, ask: B)
    where
        E: StepFailure,
        B: Fn(Context, NextNode) -> F + Send + Sync + 'static,
        F: Future<Output = Result<NodeDecision, E>> + Send + 'static,
    {
        if self.nodes.iter().any(|node| node.kind != NodeKind::Input) {
            self.problems.push("`decider` is called after a node was added; call it first".to_owned());
        }
        self.decider = Some(Ask(Arc::new(move |cx, next| {
            let answer = ask(cx, next);
            Box::pin(async move { encode(&answer.await.map_err(StepError::of)?) })
        })));
    }

    /// Adds the step that asks about a node which is added next, where there is a decider, and says what it means for it.
    pub(super) fn decision_before(&mut self, node: &mut Node, kind: NodeKind, reads: &[RawHandle]) -> Option<Decided> {
        let asks = matches!(
            kind,
            NodeKind::Step | NodeKind::Map | NodeKind::Each | NodeKind::Race | NodeKind::Fallback | NodeKind::Repeat
        );
        // What is asked before a workflow begins is a person's to answer, and a check is the plan's.
        let ask = self.decider.take_if(|_| asks && !node.checks)?;
        let named = |of: &RawHandle| {
            let spec = self.nodes.get(of.node as usize).filter(|_| of.builder == self.id)?;
            Some((spec.path.to_string(), of.node, spec.schema.clone()))
        };
        let mut read: Vec<(String, NodeIndex, NodeSchema)> = Vec::new();
        for one in reads.iter().filter_map(named) {
            if !read.iter().any(|(_, node, _)| *node == one.1) {
                read.push(one);
            }
        }
        let before = node.after.iter().chain(node.edges.iter().map(|edge| &edge.from)).filter_map(named);
        let seen = before.map(|(name, node, _)| (name, node)).collect();
        let needed = NeededBy::default();
        let about = About {
            workflow: self.name.to_string(),
            node: format!("{}{}", self.prefix, node.name),
            calls: if node.text.is_empty() { node.call } else { node.text }.to_owned(),
            seen,
            needed: Arc::clone(&needed),
            accepts: Accepts::Reads(read.iter().map(|(name, _, schema)| (name.clone(), schema.clone())).collect()),
        };
        let reads_of: Vec<(String, NodeIndex)> = read.into_iter().map(|(name, node, _)| (name, node)).collect();
        let step = {
            let (about, ask, reads) = (Arc::new(about), ask.clone(), reads_of.clone());
            let step: Step = Arc::new(move |cx, outputs| {
                let next = about.next(arguments_of(&reads, outputs), outputs);
                let ask = ask.clone();
                Ok(decision(Arc::clone(&about), next, ATTEMPTS, move |next| (ask.0)(cx.clone(), next)))
            });
            step
        };
        let asking = Node {
            name: format!("{}{DECISION}", node.name),
            call: "decider",
            line: node.line,
            after: node.after.clone(),
            edges: node.edges.clone(),
            begins: node.begins,
            unordered: node.unordered,
            // What it says holds for this very code.
            code: node.code,
            ..Node::default()
        };
        let described = (std::any::type_name::<NodeDecision>().into(), NodeSchema::of::<NodeDecision>());
        let by = self.add(asking, NodeKind::Step, reads.to_vec(), Body::Step(step), described);
        if let Some(made) = self.nodes.last_mut() {
            made.decides = Some(format!("{}{}", self.prefix, node.name));
        }
        self.decider = Some(ask);
        node.after.push(by);
        Some(Decided { by: by.node, reads: Some(reads_of), needed })
    }
}

/// What is known of a step before a run, for the decider that is asked about it.
pub(super) struct About {
    pub(super) workflow: String,
    pub(super) node: String,
    pub(super) calls: String,
    /// The nodes before it whose outputs it does not read.
    pub(super) seen: Vec<(String, NodeIndex)>,
    pub(super) needed: NeededBy,
    pub(super) accepts: Accepts,
}

/// What arguments may be.
pub(super) enum Accepts {
    /// The values that it reads.
    Reads(Vec<(String, NodeSchema)>),
    /// What a call is given.
    #[cfg(feature = "dynamic")]
    Given(Value),
}

/// The values that a step reads, as an object.
pub(super) fn arguments_of(reads: &[(String, NodeIndex)], outputs: &dyn Outputs) -> Value {
    Value::Object(object_of(reads, outputs))
}

fn object_of(reads: &[(String, NodeIndex)], outputs: &dyn Outputs) -> Map<String, Value> {
    let read = |(name, node): &(String, NodeIndex)| {
        Some((name.clone(), serde_json::from_str(outputs.output(*node)?.as_str()).ok()?))
    };
    reads.iter().filter_map(read).collect()
}

impl About {
    /// What a decider is shown the first time.
    pub(super) fn next(&self, arguments: Value, outputs: &dyn Outputs) -> NextNode {
        let mut seen = object_of(&self.seen, outputs);
        if let (Accepts::Reads(_), Value::Object(read)) = (&self.accepts, &arguments) {
            seen.extend(read.clone());
        }
        NextNode {
            workflow: self.workflow.clone(),
            node: self.node.clone(),
            calls: self.calls.clone(),
            outputs: seen.into_iter().collect(),
            arguments,
            arguments_schema: self.accepts.schema(),
            needed: self.needed.get().cloned().flatten(),
            refused: None,
        }
    }

    /// The decision as it is recorded.
    ///
    /// # Errors
    /// Why it is refused, for the decider.
    fn accepted(&self, answer: &Encoded) -> Result<Encoded, String> {
        let decision = read(answer)?;
        match &decision {
            NodeDecision::Continue => {}
            NodeDecision::Skip { .. } => {
                if let Some(why) = self.needed.get().and_then(Option::as_ref) {
                    return Err(format!("`{}` cannot be skipped: {why}; continue, or revise its arguments", self.node));
                }
            }
            NodeDecision::Revise { arguments, .. } => self
                .accepts
                .check(arguments)
                .map_err(|problem| format!("the revised arguments of `{}` do not fit: {problem}", self.node))?,
        }
        encode(&decision).map_err(|error| error.failure.message)
    }
}

/// A decision, or the text of one: of an agent that answers with text, what stands between its outermost braces.
fn read(answer: &Encoded) -> Result<NodeDecision, String> {
    const FORM: &str = "answer with {\"decision\": \"continue\"}, {\"decision\": \"skip\", \"reason\": \"..\"} or \
                        {\"decision\": \"revise\", \"arguments\": {..}, \"reason\": \"..\"}";
    let text = serde_json::from_str::<String>(answer.as_str());
    let json = match &text {
        Ok(text) => text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to)).unwrap_or(text),
        Err(_) => answer.as_str(),
    };
    serde_json::from_str(json).map_err(|error| format!("this is not a decision: {error}; {FORM}"))
}

impl Accepts {
    fn schema(&self) -> Value {
        match self {
            Self::Reads(reads) => {
                let properties: Map<_, _> =
                    reads.iter().map(|(name, schema)| (name.clone(), schema.to_value())).collect();
                serde_json::json!({"type": "object", "properties": properties, "additionalProperties": false})
            }
            #[cfg(feature = "dynamic")]
            Self::Given(schema) => schema.clone(),
        }
    }

    /// # Errors
    /// Where the arguments do not fit: the path, what is expected, what was seen.
    fn check(&self, arguments: &Value) -> Result<(), String> {
        match self {
            Self::Reads(reads) => {
                let Value::Object(given) = arguments else {
                    return Err(format!("they are an object of the values that it reads; seen: {arguments}"));
                };
                given.iter().try_for_each(|(name, value)| {
                    let Some((_, schema)) = reads.iter().find(|(read, _)| read == name) else {
                        let near = agentflow_schema::text::nearest(name, reads.iter().map(|(read, _)| read.as_str()));
                        return Err(format!("it reads no `{name}`{}", agentflow_schema::text::did_you_mean(near)));
                    };
                    fits(name, schema, value)
                })
            }
            #[cfg(feature = "dynamic")]
            Self::Given(schema) => agentflow_schema::schema_check::SchemaCheck::new(schema)?.check(arguments),
        }
    }
}

/// Whether a value is of the type of what is read: by the schema, for its sentence, and by the type itself.
fn fits(name: &str, schema: &NodeSchema, value: &Value) -> Result<(), String> {
    #[cfg(feature = "dynamic")]
    agentflow_schema::schema_check::SchemaCheck::new(&schema.to_value())?
        .check(value)
        .map_err(|problem| format!("`{name}`: {problem}"))?;
    let value = Encoded::new(value).map_err(|error| format!("`{name}`: {error}"))?;
    schema.check_type(&value).map_err(|error| format!("`{name}`: {error}; seen: {value}"))
}

/// Asks until an answer is accepted, at most so often.
pub(super) fn decision(
    about: Arc<About>,
    mut next: NextNode,
    attempts: u32,
    mut ask: impl FnMut(NextNode) -> StepFuture + Send + 'static,
) -> StepFuture {
    Box::pin(async move {
        let mut refused = String::new();
        for _ in 0..attempts {
            match about.accepted(&ask(next.clone()).await?) {
                Ok(decision) => return Ok(decision),
                Err(problem) => refused = problem,
            }
            next.refused = Some(refused.clone());
        }
        let times = if attempts == 1 { "" } else { ", and so were the ones before it" };
        let message = format!("the decider's answer about `{}` was refused{times}: {refused}", about.node);
        Err(StepError::new(FailureKind::Value, message))
    })
}

/// A decision that runs the step as it is, without asking.
#[cfg(feature = "dynamic")]
pub(super) fn unasked() -> StepFuture {
    Box::pin(std::future::ready(encode(&NodeDecision::Continue)))
}

/// How often a callee of a graph is asked.
#[cfg(feature = "dynamic")]
pub(super) fn attempts_of(kind: ReferenceKind) -> u32 {
    // The calls of a tool in a node are one call of the node.
    if kind == ReferenceKind::Tool { 1 } else { ATTEMPTS }
}

/// The JSON Schema of a decision.
#[cfg(feature = "dynamic")]
pub(super) fn decision_schema() -> Value {
    <NodeDecision as NodeValue>::schema()
}
