//! The step that asks a decider about another step, and checks the answer. `decided.rs` applies the
//! answer to the step.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::bodies::encode;
use super::builder::Builder;
use super::decided::{Decided, NeededBy};
use super::decider::{NextNode, NodeDecision};
use super::decision_codes;
#[cfg(feature = "dynamic")]
use super::graph_body::ReferenceKind;
use super::graph_codes;
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

/// Maximum number of questions to a decider about one step. After a refused answer it gets the
/// reason.
const ATTEMPTS: u32 = 3;

/// Suffix of the name of a step that asks about another step.
pub(super) const DECISION: &str = ".decision";

/// A decider function.
#[derive(Clone)]
pub(super) struct Ask(Arc<dyn Fn(Context, NextNode) -> StepFuture + Send + Sync>);

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ask(..)")
    }
}

impl Builder {
    /// Asks a decider before each step that is added after this call, also in the bodies of loops.
    /// The decider lets the step run, skips it, or revises the values that it reads. Its decision
    /// is recorded as the output of an extra step, `NAME.decision`, before it takes effect, so a
    /// resumed run does not ask again. The policy of the step applies to the revised values. For
    /// example, an approval shows them.
    ///
    /// Invalid answers are refused: a step whose output is needed later cannot be skipped, and
    /// revised values must have the types that the step reads. The decider is then asked again with
    /// the reason, at most three times in all. After that, the run fails. Values, checks, routers,
    /// joins and gates are not decided on.
    ///
    /// Call it before adding other nodes. An `#[agent]` function can be the decider:
    /// `b.decider(|_, next| guide(next))`. `#[workflow]` has the option `decider = guide`.
    pub fn decider<E, B, F>(&mut self, ask: B)
    where
        E: StepFailure,
        B: Fn(Context, NextNode) -> F + Send + Sync + 'static,
        F: Future<Output = Result<NodeDecision, E>> + Send + 'static,
    {
        if self.nodes.iter().any(|node| node.kind != NodeKind::Input) {
            self.problems.push(Diagnostic::new(graph_codes::LATE_DECIDER));
        }
        self.decider = Some(Ask(Arc::new(move |cx, next| {
            let answer = ask(cx, next);
            Box::pin(async move { encode(&answer.await.map_err(StepError::from_error)?) })
        })));
    }

    /// Adds the step that asks about `node`, if there is a decider, and returns the decision's
    /// effect on the node.
    pub(super) fn decision_before(
        &mut self,
        node: &mut Node,
        kind: NodeKind,
        reads: &[RawHandle],
    ) -> Option<Decided> {
        let asks = matches!(
            kind,
            NodeKind::Step
                | NodeKind::Map
                | NodeKind::Each
                | NodeKind::Race
                | NodeKind::Fallback
                | NodeKind::Repeat
        );
        // The approval of the workflow and its checks are not decided on.
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
        let before =
            node.after.iter().chain(node.edges.iter().map(|edge| &edge.from)).filter_map(named);
        let seen = before.map(|(name, node, _)| (name, node)).collect();
        let needed = NeededBy::default();
        let about = About {
            workflow: self.name.to_string(),
            node: format!("{}{}", self.prefix, node.name),
            calls: if node.text.is_empty() { node.call } else { node.text }.to_owned(),
            seen,
            needed: Arc::clone(&needed),
            accepts: AcceptedArguments::Reads(
                read.iter().map(|(name, _, schema)| (name.clone(), schema.clone())).collect(),
            ),
        };
        let reads_of: Vec<(String, NodeIndex)> =
            read.into_iter().map(|(name, node, _)| (name, node)).collect();
        let step = {
            let (about, ask, reads) = (Arc::new(about), ask.clone(), reads_of.clone());
            let step: Step = Arc::new(move |cx, outputs| {
                let next = about.next(arguments_of(&reads, outputs), outputs);
                let ask = ask.clone();
                Ok(decision(Arc::clone(&about), next, ATTEMPTS, move |next| {
                    (ask.0)(cx.clone(), next)
                }))
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
            // The decision depends on the code of the step, so a changed step invalidates it.
            code: node.code,
            ..Node::default()
        };
        let described =
            (std::any::type_name::<NodeDecision>().into(), NodeSchema::for_type::<NodeDecision>());
        let by = self.add(asking, NodeKind::Step, reads.to_vec(), Body::Step(step), described);
        if let Some(made) = self.nodes.last_mut() {
            made.decides = Some(format!("{}{}", self.prefix, node.name));
        }
        self.decider = Some(ask);
        node.after.push(by);
        Some(Decided { by: by.node, reads: Some(reads_of), needed })
    }
}

/// Static information about a step for its decider.
pub(super) struct About {
    pub(super) workflow: String,
    pub(super) node: String,
    pub(super) calls: String,
    /// Nodes before the step whose outputs the step does not read.
    pub(super) seen: Vec<(String, NodeIndex)>,
    pub(super) needed: NeededBy,
    pub(super) accepts: AcceptedArguments,
}

/// Accepted revised arguments.
pub(super) enum AcceptedArguments {
    /// An object of the values that the step reads.
    Reads(Vec<(String, NodeSchema)>),
    /// The arguments of the step's call, with their schema.
    #[cfg(feature = "dynamic")]
    Given(Value),
}

/// Returns the values that a step reads as an object.
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
    /// Creates the first question about the step.
    pub(super) fn next(&self, arguments: Value, outputs: &dyn Outputs) -> NextNode {
        let mut seen = object_of(&self.seen, outputs);
        if let (AcceptedArguments::Reads(_), Value::Object(read)) = (&self.accepts, &arguments) {
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

    /// Parses and checks an answer. Returns the decision in its recorded form.
    ///
    /// # Errors
    /// Returns the reason for the refusal, as a message to the decider.
    fn accepted(&self, answer: &Encoded) -> Result<Encoded, Diagnostic> {
        let decision = read(answer)?;
        match &decision {
            NodeDecision::Continue => {}
            NodeDecision::Skip { .. } => {
                if let Some(why) = self.needed.get().and_then(Option::as_ref) {
                    let found = Diagnostic::new(decision_codes::NEEDED_NODE);
                    return Err(found.name("node", &self.node).text("reason", why));
                }
            }
            NodeDecision::Revise { arguments, .. } => {
                self.accepts.check(arguments).map_err(|problem| {
                    let found = Diagnostic::new(decision_codes::ARGUMENTS_MISFIT);
                    found.name("node", &self.node).nested("problem", &problem)
                })?;
            }
        }
        encode(&decision).map_err(|error| {
            Diagnostic::new(decision_codes::NOT_A_DECISION).text("problem", error.failure.message)
        })
    }
}

/// Parses a decision, or text that contains one: agents may answer with text, whose outermost
/// braces are parsed.
fn read(answer: &Encoded) -> Result<NodeDecision, Diagnostic> {
    const FORM: &str = "answer with {\"decision\": \"continue\"}, {\"decision\": \"skip\", \"reason\": \"..\"} or \
                        {\"decision\": \"revise\", \"arguments\": {..}, \"reason\": \"..\"}";
    let text = serde_json::from_str::<String>(answer.as_str());
    let json = match &text {
        Ok(text) => text
            .find('{')
            .zip(text.rfind('}'))
            .and_then(|(from, to)| text.get(from..=to))
            .unwrap_or(text),
        Err(_) => answer.as_str(),
    };
    serde_json::from_str(json).map_err(|error| {
        let found = Diagnostic::new(decision_codes::NOT_A_DECISION).text("problem", error);
        found.suggest(Suggestion::advice(FORM))
    })
}

impl AcceptedArguments {
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

    /// Checks revised arguments.
    ///
    /// # Errors
    /// Returns the path of the mismatch, the expected and the actual value.
    fn check(&self, arguments: &Value) -> Result<(), Diagnostic> {
        match self {
            Self::Reads(reads) => {
                let Value::Object(given) = arguments else {
                    let found = Diagnostic::new(decision_codes::ARGUMENTS_NOT_AN_OBJECT);
                    return Err(found.text("found", arguments));
                };
                given.iter().try_for_each(|(name, value)| {
                    let Some((_, schema)) = reads.iter().find(|(read, _)| read == name) else {
                        let near = agentflow_schema::text::nearest(
                            name,
                            reads.iter().map(|(read, _)| read.as_str()),
                        );
                        let found = Diagnostic::new(decision_codes::UNKNOWN_ARGUMENT);
                        return Err(found
                            .name("argument", name)
                            .suggest(Suggestion::similar(near)));
                    };
                    fits(name, schema, value)
                })
            }
            #[cfg(feature = "dynamic")]
            Self::Given(schema) => {
                let check = agentflow_schema::schema_check::SchemaCheck::new(schema)?;
                check.check(arguments).map_err(|mismatches| {
                    let found = Diagnostic::new(decision_codes::UNFITTING_ARGUMENTS);
                    found.text("mismatches", mismatches)
                })
            }
        }
    }
}

/// Checks a value against the schema, for a readable message, and against the Rust type.
fn fits(name: &str, schema: &NodeSchema, value: &Value) -> Result<(), Diagnostic> {
    let misfit = |problem: &dyn fmt::Display| {
        let found = Diagnostic::new(decision_codes::ARGUMENT_MISFIT).name("argument", name);
        found.text("problem", problem)
    };
    #[cfg(feature = "dynamic")]
    agentflow_schema::schema_check::SchemaCheck::new(&schema.to_value())?
        .check(value)
        .map_err(|mismatches| misfit(&mismatches))?;
    let value = Encoded::new(value).map_err(|error| misfit(&error))?;
    schema.check_type(&value).map_err(|error| misfit(&format_args!("{error}; seen: {value}")))
}

/// Asks the decider until it accepts an answer, at most `attempts` times.
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
                Err(problem) => refused = problem.message(),
            }
            next.refused = Some(refused.clone());
        }
        let times = if attempts == 1 { "" } else { ", and so were the ones before it" };
        let message =
            format!("the decider's answer about `{}` was refused{times}: {refused}", about.node);
        Err(StepError::new(FailureKind::Value, message))
    })
}

/// Returns the decision to run the step unchanged, without asking.
#[cfg(feature = "dynamic")]
pub(super) fn unasked() -> StepFuture {
    Box::pin(std::future::ready(encode(&NodeDecision::Continue)))
}

/// Returns the maximum number of questions to a decider of this kind.
#[cfg(feature = "dynamic")]
pub(super) fn attempts_of(kind: ReferenceKind) -> u32 {
    // Repeated calls to a tool in one node count as one call, so a tool cannot be asked again.
    if kind == ReferenceKind::Tool { 1 } else { ATTEMPTS }
}

/// Returns the JSON Schema of a decision.
#[cfg(feature = "dynamic")]
pub(super) fn decision_schema() -> Value {
    <NodeDecision as NodeValue>::schema()
}
