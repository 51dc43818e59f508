//! `Spec`: the plan of a workflow, with nodes by index, their edges and their bodies.
//!
//! A plan does not change after it is built. Each node comes after the nodes that it depends on. So
//! index order is an execution order, and the plan has no cycle.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use agentflow_schema::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decided::Decided;
use super::entry::{Begins, Entry, When};
use super::graph_body::GraphBody;
use super::node_dependency::ResolvedDependency;
use super::node_schema::{NodeSchema, ValueCheck};
pub(crate) use super::outputs::{NodeIndex, Outputs};
use super::policy::{NodePolicy, StopPolicy};
use super::run_limits::RunLimits;
use super::step_error::StepError;
use super::value_codes;
#[cfg(feature = "dynamic")]
use crate::agent::ErasedAgent;
use crate::context::Context;
use crate::definition::Known;
#[cfg(feature = "dynamic")]
use crate::dry_run::DryCall;
use crate::error::Error;
use crate::event::ApprovalRequest;
#[cfg(feature = "documents")]
use crate::event::DocumentVersion;
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::tool::{HiddenEffect, NeededResource, NodeQuestion};
use crate::tool_definition::ToolDefinition;
use crate::value::Encoded;

/// A running step, which returns its encoded output.
pub(crate) type StepFuture = BoxFuture<'static, Result<Encoded, StepError>>;

/// A step: makes its future from the outputs that it reads.
pub(crate) type Step =
    Arc<dyn Fn(Context, &dyn Outputs) -> Result<StepFuture, StepError> + Send + Sync>;

/// A step for one item of a map, or for one round of a repetition, which gets the last output.
pub(crate) type ItemStep =
    Arc<dyn Fn(Context, &Encoded, &dyn Outputs) -> Result<StepFuture, StepError> + Send + Sync>;

/// Returns the context of a value's node, for an expression that uses one.
pub(crate) type ContextOf<'a> = &'a dyn Fn() -> Context;

/// A value that is computed from outputs at once. It is computed once in a run, and the result is
/// recorded.
pub(crate) type Pure =
    Arc<dyn Fn(&dyn Outputs, ContextOf<'_>) -> Result<Encoded, StepError> + Send + Sync>;

/// Makes the question of a gate.
pub(crate) type Question =
    Arc<dyn Fn(&dyn Outputs) -> Result<ApprovalRequest, StepError> + Send + Sync>;

/// Makes the text of a question from outputs.
pub(crate) type QuestionTextFn =
    Arc<dyn Fn(&dyn Outputs) -> Result<String, StepError> + Send + Sync>;

/// Makes the value that a question shows. Returns `None` if a part of it cannot be read while the
/// question is asked.
pub(crate) type QuestionValueFn = Arc<dyn Fn(&dyn Outputs) -> Option<Encoded> + Send + Sync>;

/// Returns true if a repetition ends with this output.
pub(crate) type Until = Arc<dyn Fn(&Encoded) -> Result<bool, StepError> + Send + Sync>;

/// The plan of a workflow.
pub(crate) struct Spec {
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) output: NodeIndex,
    pub(crate) concurrency: usize,
    pub(crate) stop: StopPolicy,
    /// Limits of each run.
    pub(crate) limits: RunLimits,
    /// `true` if its nodes keep the written order of a function.
    pub(crate) ordered: bool,
    /// Nodes that depend on node `n`: `followers_at[n]..followers_at[n + 1]` in `followers`.
    followers: Vec<NodeIndex>,
    followers_at: Vec<u32>,
    /// Pairs of a node and a node that may begin when the first one ends, even if its other edges
    /// are still open. Sorted.
    chances: Vec<(NodeIndex, NodeIndex)>,
    pub(super) hash: OnceLock<Arc<str>>,
    pub(super) own_hash: OnceLock<Arc<str>>,
    pub(super) parts: OnceLock<Arc<Known>>,
    needs: OnceLock<Vec<NeededResource>>,
    /// Cached result for runs that begin without state: an error if a node reads a key that nothing
    /// sets.
    pub(super) unsaved_reads: OnceLock<Result<(), Error>>,
    /// Information from the callees of each node, if the nodes are data. Empty for other workflows.
    #[cfg(feature = "dynamic")]
    pub(super) derived: Vec<CalleeFacts>,
    /// Documents from which the plan was made, including those of called workflows: name and text.
    #[cfg(feature = "documents")]
    pub(crate) written: Vec<(Arc<str>, Arc<str>)>,
    /// Version of the stored document from which the plan was made.
    #[cfg(feature = "documents")]
    pub(crate) document: Option<Arc<DocumentVersion>>,
    #[cfg(feature = "documents")]
    written_hash: OnceLock<Option<Arc<str>>>,
}

/// Information about a node that follows from its callees.
#[cfg(feature = "dynamic")]
pub(super) struct CalleeFacts {
    /// Schema of its output.
    pub(super) schema: Value,
    pub(super) calls: Vec<DryCall>,
}

/// A node of a plan.
pub(crate) struct PlanNode {
    pub(crate) path: StepPath,
    pub(crate) kind: NodeKind,
    /// Source text of the call.
    pub(crate) call: Cow<'static, str>,
    pub(crate) line: u32,
    /// Nodes whose outputs it reads.
    pub(crate) reads: Vec<NodeIndex>,
    /// Nodes that must end before it begins.
    pub(crate) after: Vec<After>,
    /// Edges that lead to it. A node in an arm of a router has one.
    pub(crate) entries: Vec<Entry>,
    /// Number of these edges that must be taken.
    pub(crate) begins: Begins,
    /// `true` if the workflow ends with its output.
    pub(crate) ends: bool,
    /// `true` if an edge is taken when it fails, so that its failure does not fail the workflow.
    pub(crate) has_rescue: bool,
    /// Join of the arms above that return. The node runs only if none of these arms was taken.
    pub(crate) unless: Option<NodeIndex>,
    pub(crate) policy: NodePolicy,
    pub(crate) type_name: Cow<'static, str>,
    pub(crate) schema: NodeSchema,
    /// Function whose call is the whole step. Its policy applies to the node, and its first call is
    /// not recorded again.
    pub(crate) callee: Option<TypeId>,
    /// Tool whose call is the whole step. Its policy applies to the node.
    pub(crate) called: Option<Arc<ToolDefinition>>,
    /// Question of the call, if the node consists of the call to a tool that needs an approval. The
    /// node itself does not ask then.
    pub(crate) question: Option<Arc<NodeQuestion>>,
    /// Text of its approval question, if that has placeholders. Otherwise, the policy has the text.
    pub(crate) question_text: Option<QuestionTextFn>,
    /// Arguments of the call for its approval question, if they use the state.
    pub(crate) question_about: Option<QuestionValueFn>,
    /// Functions that appear in the code of its step.
    pub(crate) callees: Vec<TypeId>,
    /// `true` if it is declared to change something outside of the run.
    pub(crate) writes: bool,
    /// `true` if it may call functions that the plan does not show, and so may write.
    pub(crate) is_opaque: bool,
    /// `true` if it is known to read data that other nodes may change.
    pub(crate) reads_effects: bool,
    /// `true` if it is exempt from the written order of writes.
    pub(crate) unordered: bool,
    /// Gate or check that it is, or that is in its body or in a workflow that it calls. Nodes below
    /// begin only after that has passed.
    pub(crate) barrier: Option<OrderReason>,
    /// Fingerprint of the source text of its code. 0 if unknown.
    pub(crate) code: u64,
    pub(crate) body: Body,
    /// Workflow of its items or rounds, if that is more than one step.
    pub(crate) inner: Option<Arc<Spec>>,
    /// Its behaviour, if it is data.
    pub(crate) does: Option<Arc<GraphBody>>,
    /// `true` if values that are computed for it use the state.
    pub(crate) sees_state: bool,
    /// State keys that it saves, with the JSON Pointers of their values in the output.
    pub(crate) saves: BTreeMap<String, String>,
    /// Bindings of its dependencies.
    pub(crate) dependencies: Vec<ResolvedDependency>,
    /// Node that it decides on. That node begins afterwards.
    pub(crate) decides: Option<String>,
    /// Step that decides on it.
    pub(crate) decided: Option<Decided>,
    /// Its callees, if it is data.
    #[cfg(feature = "dynamic")]
    pub(super) references: Vec<ReferencedDefinition>,
}

/// A callee of a node that is data, as a part of the definition that a run began with.
#[cfg(feature = "dynamic")]
pub(super) enum ReferencedDefinition {
    Tool(Arc<ToolDefinition>),
    Agent(ErasedAgent),
    Workflow(Arc<Spec>),
    /// Name of a toolset whose tools were unknown.
    Unfetched(Arc<str>),
}

/// A node that must end before another node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) node: NodeIndex,
    pub(crate) why: OrderReason,
}

/// Reason why a node waits for another node whose output it does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OrderReason {
    /// The order was requested with [`Node::after`](super::Node::after).
    Asked,
    /// The node above writes, so all nodes below it begin after it.
    Write,
    /// The node writes, and begins only after all nodes above it have succeeded.
    Above,
    /// The node above is or contains a gate. Nodes below it begin only after the answer.
    Gate,
    /// The node above is or contains a check. Nodes below it begin only after it has passed.
    Check,
    /// The node reads the output if it exists.
    Optional,
}

impl OrderReason {
    /// Returns the name of the reason, such as `gate`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Write => "write",
            Self::Above => "above",
            Self::Gate => "gate",
            Self::Check => "check",
            Self::Optional => "optional",
        }
    }

    /// Returns true if nodes below must not begin if the node above has failed.
    pub(crate) fn holds_back(self) -> bool {
        matches!(self, Self::Gate | Self::Check)
    }
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeKind {
    /// An input of the workflow.
    Input,
    /// A step.
    Step,
    /// A value computed from other outputs, without a step.
    Value,
    /// A condition that must hold, computed without a step.
    Check,
    /// A choice of one arm, or of several.
    Router,
    /// The join of a router's arms.
    Join,
    /// A question to a person.
    Gate,
    /// A step for each item of a list.
    Map,
    /// Steps for each item of a list, one item after another.
    Each,
    /// Branches that run at the same time. The first success is the output.
    Race,
    /// Branches that are tried one after another until one succeeds.
    Fallback,
    /// A step that is repeated on its own output.
    Repeat,
}

pub(crate) enum Body {
    Input {
        /// Check that a value has the type of the input.
        fits: ValueCheck,
    },
    Step(Step),
    Pure(Pure),
    Router {
        pick: Pure,
        arms: Vec<Arc<str>>,
        /// `true` if it takes a set of arms and not just one.
        several: bool,
    },
    Join,
    Gate {
        question: Question,
        fits: ValueCheck,
    },
    Map {
        items: NodeIndex,
        step: ItemStep,
        /// `true` if the output is the list of the items' outputs. A `for` loop has the output
        /// `()`.
        collects: bool,
    },
    Race(Vec<Branch>),
    Fallback(Vec<Branch>),
    Repeat {
        first: NodeIndex,
        step: ItemStep,
        until: Option<Until>,
        max: u32,
    },
}

/// A branch of a race or a fallback.
pub(crate) struct Branch {
    pub(crate) name: Arc<str>,
    pub(crate) step: Step,
    /// Workflow of the branch, if that is more than one step.
    pub(crate) inner: Option<Arc<Spec>>,
}

impl Spec {
    pub(super) fn new(
        name: Arc<str>,
        description: Arc<str>,
        nodes: Vec<PlanNode>,
        output: NodeIndex,
        (concurrency, stop, limits): (usize, StopPolicy, RunLimits),
        ordered: bool,
    ) -> Self {
        // A node that begins with some of its edges must be considered whenever one of them is
        // decided.
        let mut chances = Vec::new();
        for (at, node) in nodes.iter().enumerate().filter(|(_, node)| !node.begins.waits_for_all())
        {
            let at = NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX);
            chances.extend(node.entries.iter().map(|entry| (entry.from, at)));
        }
        chances.sort_unstable();
        chances.dedup();
        // Group the followers by the node that they wait for: count them, add up the counts to get
        // the start of each group, then fill the groups.
        let mut counts = vec![0_u32; nodes.len() + 1];
        for node in &nodes {
            node.awaited().for_each(|before| counts[before as usize + 1] += 1);
        }
        for at in 1..counts.len() {
            counts[at] += counts[at - 1];
        }
        let mut next = counts.clone();
        let mut followers = vec![0; counts.last().map_or(0, |last| *last as usize)];
        for (at, node) in nodes.iter().enumerate() {
            for before in node.awaited() {
                let place = &mut next[before as usize];
                followers[*place as usize] = NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX);
                *place += 1;
            }
        }
        Self {
            name,
            description,
            nodes,
            output,
            concurrency: concurrency.max(1),
            stop,
            limits,
            ordered,
            followers,
            followers_at: counts,
            chances,
            hash: OnceLock::new(),
            own_hash: OnceLock::new(),
            parts: OnceLock::new(),
            needs: OnceLock::new(),
            unsaved_reads: OnceLock::new(),
            #[cfg(feature = "dynamic")]
            derived: Vec::new(),
            #[cfg(feature = "documents")]
            written: Vec::new(),
            #[cfg(feature = "documents")]
            document: None,
            #[cfg(feature = "documents")]
            written_hash: OnceLock::new(),
        }
    }

    /// Returns the JSON Schema of a node's output.
    pub(crate) fn schema_of(&self, node: NodeIndex) -> Value {
        #[cfg(feature = "dynamic")]
        if let Some(derived) = self.derived.get(node as usize) {
            return derived.schema.clone();
        }
        self.node(node).schema.to_value()
    }

    /// Returns the JSON Schema of the workflow's output.
    pub(crate) fn output_schema(&self) -> Value {
        self.schema_of(self.output)
    }

    /// Returns the names of the inputs, in order.
    pub(crate) fn input_names(&self) -> Vec<&str> {
        let inputs = self.nodes.iter().filter(|node| node.kind == NodeKind::Input);
        inputs.map(|node| node.path.names()).collect()
    }

    /// Returns true if the workflow changes something outside of the run, or asks a person.
    pub(crate) fn writes_or_asks(&self) -> bool {
        let asks = |node: &PlanNode| {
            let gates = node.kind == NodeKind::Gate || node.policy.approve.is_some();
            gates || node.callees.iter().any(|callee| super::callee::asks(*callee))
        };
        self.nodes.iter().any(|node| node.writes || asks(node))
    }

    /// Returns the declared effect of a run besides its model calls.
    pub(crate) fn effect(&self) -> Option<HiddenEffect> {
        let reads = || self.nodes.iter().any(|node| node.reads_effects);
        match self.writes_or_asks() {
            true => Some(HiddenEffect::Writes),
            false => reads().then_some(HiddenEffect::Reads),
        }
    }

    /// Returns a hash of the documents from which the plan was made, or `None` for a workflow of
    /// the program.
    pub(crate) fn documents(&self) -> Option<Arc<str>> {
        #[cfg(feature = "documents")]
        return self.written_hash.get_or_init(|| texts_hash(&self.written)).clone();
        #[cfg(not(feature = "documents"))]
        None
    }

    /// Returns the resources that its tools need, each with the name of the tool. Knows only the
    /// tools that appear in the code.
    pub(super) fn needs(&self) -> &[NeededResource] {
        self.needs.get_or_init(|| super::callee::needs(self))
    }

    /// Returns the tools that it calls, each with the schema of its answer if known. Knows only the
    /// tools that appear in the code.
    pub(crate) fn tools(&self) -> Vec<(Arc<ToolDefinition>, Option<Value>)> {
        super::callee::tools(self)
    }

    /// Returns the gate or check that the workflow contains, if any. A gate takes precedence.
    pub(crate) fn barrier(&self) -> Option<OrderReason> {
        let all = || self.nodes.iter().filter_map(|node| node.barrier);
        all().find(|why| *why == OrderReason::Gate).or_else(|| all().next())
    }

    /// Checks that values have the types of the inputs.
    pub(crate) fn check_inputs(&self, values: &[Encoded]) -> Result<(), Diagnostic> {
        let inputs = self.nodes.iter().filter_map(|node| match &node.body {
            Body::Input { fits } => Some((&node.path, fits)),
            _ => None,
        });
        inputs.zip(values).try_for_each(|((name, fits), value)| {
            fits.check(value).map_err(|error| {
                let found = Diagnostic::new(value_codes::INPUT_MISFIT).name("input", name);
                found.text("problem", error).absent("found", value)
            })
        })
    }

    /// Returns all nodes that a node depends on, directly or through others, in index order.
    pub(crate) fn all_before(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> + use<> {
        // A node depends only on nodes with a lower index.
        let mut is_before = vec![false; node as usize];
        let mut next: Vec<NodeIndex> = self.node(node).predecessors().collect();
        while let Some(node) = next.pop() {
            if !std::mem::replace(&mut is_before[node as usize], true) {
                next.extend(self.node(node).predecessors());
            }
        }
        (0..).zip(is_before).filter(|(_, is_before)| *is_before).map(|(node, _)| node)
    }

    pub(crate) fn node(&self, node: NodeIndex) -> &PlanNode {
        &self.nodes[node as usize]
    }

    pub(crate) fn followers(&self, node: NodeIndex) -> &[NodeIndex] {
        let (from, to) = (self.followers_at[node as usize], self.followers_at[node as usize + 1]);
        &self.followers[from as usize..to as usize]
    }

    /// Returns the nodes that may begin when a node has ended, even if their other edges are still
    /// open.
    pub(crate) fn chances(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> + '_ {
        let from = self.chances.partition_point(|(before, _)| *before < node);
        self.chances[from..]
            .iter()
            .take_while(move |(before, _)| *before == node)
            .map(|(_, after)| *after)
    }

    pub(crate) fn has_early_followers(&self) -> bool {
        !self.chances.is_empty()
    }
}

impl PlanNode {
    /// Returns true if a person must approve it before it begins.
    pub(crate) fn asks_first(&self) -> bool {
        self.policy.approve.is_some() && self.question.is_none()
    }

    /// Returns the router and the arm that the node is in.
    pub(crate) fn guard(&self) -> Option<(NodeIndex, u32)> {
        // The arm of a router is the only edge of a node in it.
        match (&*self.entries, self.begins) {
            ([Entry { from, when: When::Arm(arm) }], Begins::All) => Some((*from, *arm)),
            _ => None,
        }
    }

    /// Returns all nodes that determine whether this node runs. A node may be returned several
    /// times.
    pub(crate) fn predecessors(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let after = self.after.iter().map(|after| after.node);
        let entries = self.entries.iter().map(|entry| entry.from);
        self.reads.iter().copied().chain(after).chain(entries).chain(self.unless)
    }

    /// Returns the nodes that must end before it is decided whether this node runs.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let after = self.after.iter().map(|after| after.node);
        let entries = if self.begins.waits_for_all() { self.entries.as_slice() } else { &[] };
        let entries = entries.iter().map(|entry| entry.from);
        self.reads.iter().copied().chain(after).chain(entries).chain(self.unless)
    }

    /// Returns the number of awaited nodes, counted as often as they occur.
    pub(crate) fn awaited_count(&self) -> u32 {
        let entries = if self.begins.waits_for_all() { self.entries.len() } else { 0 };
        let all =
            self.reads.len() + self.after.len() + entries + usize::from(self.unless.is_some());
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Returns the nested workflows: one for its items or rounds, or one for each branch, with the
    /// branch name.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (Option<&str>, &Arc<Spec>)> {
        let branches = match &self.body {
            Body::Race(branches) | Body::Fallback(branches) => branches.as_slice(),
            _ => &[],
        };
        let named = branches
            .iter()
            .filter_map(|branch| Some((Some(&*branch.name), branch.inner.as_ref()?)));
        self.inner.iter().map(|inner| (None, inner)).chain(named)
    }
}

impl Body {
    /// Returns true if the output follows from other outputs. Such a node is not recorded if it
    /// does not run.
    pub(crate) fn is_pure(&self) -> bool {
        matches!(self, Self::Pure(_) | Self::Join | Self::Input { .. })
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("name", &self.name)
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

/// Returns a hash of the document sources. Names of files and the order of reading differ between
/// machines, so they do not count.
#[cfg(feature = "documents")]
fn texts_hash(written: &[(Arc<str>, Arc<str>)]) -> Option<Arc<str>> {
    let mut texts: Vec<&str> = written.iter().map(|(_, text)| &**text).collect();
    texts.sort_unstable();
    (!texts.is_empty()).then(|| crate::definition::hash_of(&texts))
}
