//! `Spec`: a workflow as it is executed, with nodes by index, their edges and their bodies.
//!
//! The builder makes it and it never changes. Every node stands after all nodes it depends on, so index order is an
//! execution order and there is no cycle.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decided::Decided;
use super::entry::{Begins, Entry, When};
use super::graph_body::GraphBody;
use super::node_dependency::ResolvedDependency;
use super::node_schema::{Fits, NodeSchema};
pub(crate) use super::outputs::{NodeIndex, Outputs};
use super::policy::{NodePolicy, StopPolicy};
use super::run_limits::RunLimits;
use super::step_error::StepError;
#[cfg(feature = "dynamic")]
use crate::agent::ErasedAgent;
use crate::context::Context;
use crate::definition::Known;
#[cfg(feature = "dynamic")]
use crate::dry_run::DryCall;
use crate::error::Error;
use crate::event::ApprovalRequest;
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::tool::{HiddenEffect, NeededResource, NodeQuestion};
use crate::tool_definition::ToolDefinition;
use crate::value::Encoded;

/// What becomes of a step: its encoded output.
pub(crate) type StepFuture = BoxFuture<'static, Result<Encoded, StepError>>;

/// A step: its future, made of the outputs it reads.
pub(crate) type Step = Arc<dyn Fn(Context, &dyn Outputs) -> Result<StepFuture, StepError> + Send + Sync>;

/// A step for one item: of a map, or of a repetition, which gets its last output.
pub(crate) type ItemStep = Arc<dyn Fn(Context, &Encoded, &dyn Outputs) -> Result<StepFuture, StepError> + Send + Sync>;

/// Gives the context of a value's node, where its expression takes one.
pub(crate) type ContextOf<'a> = &'a dyn Fn() -> Context;

/// A value that follows from outputs at once. It is computed once in a run: what it gave is recorded.
pub(crate) type Pure = Arc<dyn Fn(&dyn Outputs, ContextOf<'_>) -> Result<Encoded, StepError> + Send + Sync>;

/// What a gate asks.
pub(crate) type Question = Arc<dyn Fn(&dyn Outputs) -> Result<ApprovalRequest, StepError> + Send + Sync>;

/// Text of a question, filled with the outputs.
pub(crate) type QuestionText = Arc<dyn Fn(&dyn Outputs) -> Result<String, StepError> + Send + Sync>;

/// Makes the value that a question is about. `None` if a part of it cannot be read while a person is asked.
pub(crate) type QuestionAbout = Arc<dyn Fn(&dyn Outputs) -> Option<Encoded> + Send + Sync>;

/// Whether a repetition is over, from its last output.
pub(crate) type Until = Arc<dyn Fn(&Encoded) -> Result<bool, StepError> + Send + Sync>;

/// A workflow to run.
pub(crate) struct Spec {
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) output: NodeIndex,
    pub(crate) concurrency: usize,
    pub(crate) stop: StopPolicy,
    /// What bounds a run of it.
    pub(crate) limits: RunLimits,
    /// Whether the order of its nodes is the written order of a function.
    pub(crate) ordered: bool,
    /// The nodes that depend on each node; `followers_at[n]..followers_at[n + 1]` in `followers`.
    followers: Vec<NodeIndex>,
    followers_at: Vec<u32>,
    /// The nodes that may begin at the end of a node, whatever becomes of their other edges; ordered.
    chances: Vec<(NodeIndex, NodeIndex)>,
    pub(super) hash: OnceLock<Arc<str>>,
    pub(super) own_hash: OnceLock<Arc<str>>,
    pub(super) parts: OnceLock<Arc<Known>>,
    needs: OnceLock<Vec<NeededResource>>,
    /// The error of each run that begins without state, if a node reads a key that nothing sets.
    pub(super) unsaved_reads: OnceLock<Result<(), Error>>,
    /// What follows for each node from what it calls, of nodes that are data; empty for others.
    #[cfg(feature = "dynamic")]
    pub(super) derived: Vec<Derived>,
    /// The documents that it was made of, those of what it calls included: the name and the text of each.
    #[cfg(feature = "documents")]
    pub(crate) written: Vec<(Arc<str>, Arc<str>)>,
    #[cfg(feature = "documents")]
    written_hash: OnceLock<Option<Arc<str>>>,
}

/// What is known of a node from what it calls.
#[cfg(feature = "dynamic")]
pub(super) struct Derived {
    /// The schema of its output.
    pub(super) schema: Value,
    pub(super) calls: Vec<DryCall>,
}

pub(crate) struct NodeSpec {
    pub(crate) path: StepPath,
    pub(crate) kind: NodeKind,
    /// What the node calls, as written.
    pub(crate) call: Cow<'static, str>,
    pub(crate) line: u32,
    /// The nodes whose outputs it reads.
    pub(crate) reads: Vec<NodeIndex>,
    /// The nodes that have ended before it begins.
    pub(crate) after: Vec<After>,
    /// The edges that lead to it. A node in an arm of a router has one.
    pub(crate) entries: Vec<Entry>,
    /// How many of them must be taken.
    pub(crate) begins: Begins,
    /// The workflow ends with its output.
    pub(crate) ends: bool,
    /// An edge leaves it that is taken when it fails, so that its failure is not that of the workflow.
    pub(crate) has_rescue: bool,
    /// It runs only when none of the arms was taken whose ends this join puts together: arms that return.
    pub(crate) unless: Option<NodeIndex>,
    pub(crate) policy: NodePolicy,
    pub(crate) type_name: Cow<'static, str>,
    pub(crate) schema: NodeSchema,
    /// The function whose call is all that its step is, so that its policy is the node's. Its first call is not
    /// recorded a second time.
    pub(crate) callee: Option<TypeId>,
    /// The tool that the step consists of a call of, whose policy holds for it.
    pub(crate) called: Option<Arc<ToolDefinition>>,
    /// The question of its call, if the node consists of the call of a tool that needs an approval. The node itself then asks
    /// nothing.
    pub(crate) question: Option<Arc<NodeQuestion>>,
    /// The text of the question before it, where that has placeholders; otherwise the policy has the text.
    pub(crate) question_text: Option<QuestionText>,
    /// The arguments of its call, which the question before it shows, where they are made of the state.
    pub(crate) question_about: Option<QuestionAbout>,
    /// The functions that its step calls, as far as they are written in it.
    pub(crate) callees: Vec<TypeId>,
    /// Whether it changes something outside of the run, as far as that is declared.
    pub(crate) writes: bool,
    /// `true` if it may call functions that the plan does not show, and so may write.
    pub(crate) is_opaque: bool,
    /// `true` if it is known to read data that other nodes may change.
    pub(crate) reads_effects: bool,
    /// `true` if it is exempt from the written order of writes.
    pub(crate) unordered: bool,
    /// The gate or the check that it is, or that is in its body or in a workflow that it calls: nothing below it begins
    /// before that has passed.
    pub(crate) barrier: Option<OrderReason>,
    /// The fingerprint of the source text of what it does; 0 when that is not known.
    pub(crate) code: u64,
    pub(crate) body: Body,
    /// What its items or rounds consist of, when that is more than one step.
    pub(crate) inner: Option<Arc<Spec>>,
    /// What it does, where that is data.
    pub(crate) does: Option<Arc<GraphBody>>,
    /// Whether what is made of outputs for it is made of the state, too.
    pub(crate) sees_state: bool,
    /// What of its output is saved to the state: keys, and where their values are in it.
    pub(crate) saves: BTreeMap<String, String>,
    /// The bindings of its dependencies.
    pub(crate) dependencies: Vec<ResolvedDependency>,
    /// The node that it decides on, before that begins.
    pub(crate) decides: Option<String>,
    /// The step that decides on it.
    pub(crate) decided: Option<Decided>,
    /// What it calls by a name, where it is data.
    #[cfg(feature = "dynamic")]
    pub(super) references: Vec<Referenced>,
}

/// What a node that is data calls by a name, as far as it belongs to what a run began with.
#[cfg(feature = "dynamic")]
pub(super) enum Referenced {
    Tool(Arc<ToolDefinition>),
    Agent(ErasedAgent),
    Workflow(Arc<Spec>),
    /// A tool of the toolset with this name, whose tools were not known.
    Unfetched(Arc<str>),
}

/// A node that ends before another begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) node: NodeIndex,
    pub(crate) why: OrderReason,
}

/// Why a node waits for another one whose output it does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OrderReason {
    /// It was asked for with [`Node::after`](super::Node::after).
    Asked,
    /// The node above writes: all below it begins when it is over.
    Write,
    /// The node writes, and begins only when all above it has succeeded.
    Above,
    /// A gate stands above: nothing below it begins before the answer.
    Gate,
    /// A check stands above: nothing below it begins before it has passed.
    Check,
    /// It reads the output if there is one.
    Optional,
}

impl OrderReason {
    /// The word, such as `gate`.
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

    /// Whether nothing below may begin when the node above has failed.
    pub(crate) fn holds_back(self) -> bool {
        matches!(self, Self::Gate | Self::Check)
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeKind {
    /// An input of the workflow.
    Input,
    /// A step.
    Step,
    /// An expression of other outputs, computed in place.
    Value,
    /// A condition that must hold, computed in place.
    Check,
    /// A choice of one arm.
    Router,
    /// The end of a router's arms.
    Join,
    /// A question to a person.
    Gate,
    /// A step for each item of a list.
    Map,
    /// Steps for each item of a list, one item after another.
    Each,
    /// Branches of which the first to finish wins.
    Race,
    /// Branches that are tried one after another until one succeeds.
    Fallback,
    /// A step that is repeated on its own output.
    Repeat,
}

pub(crate) enum Body {
    Input {
        /// Whether a value is of the input's type.
        fits: Fits,
    },
    Step(Step),
    Pure(Pure),
    Router {
        pick: Pure,
        arms: Vec<Arc<str>>,
        /// Whether it takes a set of arms, and not one.
        several: bool,
    },
    Join,
    Gate {
        question: Question,
        fits: Fits,
    },
    Map {
        items: NodeIndex,
        step: ItemStep,
        /// Whether the output is the list of the items' outputs; a `for` has the output `()`.
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
    /// What it consists of, when that is more than one step.
    pub(crate) inner: Option<Arc<Spec>>,
}

impl Spec {
    pub(super) fn new(
        name: Arc<str>,
        description: Arc<str>,
        nodes: Vec<NodeSpec>,
        output: NodeIndex,
        (concurrency, stop, limits): (usize, StopPolicy, RunLimits),
        ordered: bool,
    ) -> Self {
        let mut chances = Vec::new();
        for (at, node) in nodes.iter().enumerate().filter(|(_, node)| !node.begins.waits_for_all()) {
            let at = NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX);
            chances.extend(node.entries.iter().map(|entry| (entry.from, at)));
        }
        chances.sort_unstable();
        chances.dedup();
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
            written_hash: OnceLock::new(),
        }
    }

    /// The JSON Schema of the output of a node.
    pub(crate) fn schema_of(&self, node: NodeIndex) -> Value {
        #[cfg(feature = "dynamic")]
        if let Some(derived) = self.derived.get(node as usize) {
            return derived.schema.clone();
        }
        self.node(node).schema.to_value()
    }

    /// The JSON Schema of its output.
    pub(crate) fn output_schema(&self) -> Value {
        self.schema_of(self.output)
    }

    /// The names of its inputs, in their order.
    pub(crate) fn input_names(&self) -> Vec<&str> {
        let inputs = self.nodes.iter().filter(|node| node.kind == NodeKind::Input);
        inputs.map(|node| node.path.names()).collect()
    }

    /// Whether it changes something outside of the run, or asks a person.
    pub(crate) fn writes_or_asks(&self) -> bool {
        let asks = |node: &NodeSpec| {
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

    /// What identifies the texts of the documents that it was made of; `None` of a workflow of the program.
    pub(crate) fn documents(&self) -> Option<Arc<str>> {
        #[cfg(feature = "documents")]
        return self.written_hash.get_or_init(|| texts_hash(&self.written)).clone();
        #[cfg(not(feature = "documents"))]
        None
    }

    /// The resources that its tools take, each with who takes it, as far as that is written in it.
    pub(super) fn needs(&self) -> &[NeededResource] {
        self.needs.get_or_init(|| super::callee::needs(self))
    }

    /// The tools that it calls, each with the schema of its answer where that is known, as far as they are written in it.
    pub(crate) fn tools(&self) -> Vec<(Arc<ToolDefinition>, Option<Value>)> {
        super::callee::tools(self)
    }

    /// The gate or the check in it, if there is one; a gate rather than a check.
    pub(crate) fn barrier(&self) -> Option<OrderReason> {
        let all = || self.nodes.iter().filter_map(|node| node.barrier);
        all().find(|why| *why == OrderReason::Gate).or_else(|| all().next())
    }

    /// Whether values are of the inputs' types.
    pub(crate) fn check_inputs(&self, values: &[Encoded]) -> Result<(), String> {
        let inputs = self.nodes.iter().filter_map(|node| match &node.body {
            Body::Input { fits } => Some((&node.path, fits)),
            _ => None,
        });
        inputs.zip(values).try_for_each(|((name, fits), value)| {
            fits.check(value).map_err(|error| format!("the input `{name}` does not fit: {error}; `{value}` was given"))
        })
    }

    /// All nodes that a node depends on, each after all that it depends on itself.
    pub(crate) fn all_before(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> + use<> {
        let mut is_before = vec![false; node as usize];
        let mut next: Vec<NodeIndex> = self.node(node).predecessors().collect();
        while let Some(node) = next.pop() {
            if !std::mem::replace(&mut is_before[node as usize], true) {
                next.extend(self.node(node).predecessors());
            }
        }
        (0..).zip(is_before).filter(|(_, is_before)| *is_before).map(|(node, _)| node)
    }

    pub(crate) fn node(&self, node: NodeIndex) -> &NodeSpec {
        &self.nodes[node as usize]
    }

    pub(crate) fn followers(&self, node: NodeIndex) -> &[NodeIndex] {
        let (from, to) = (self.followers_at[node as usize], self.followers_at[node as usize + 1]);
        &self.followers[from as usize..to as usize]
    }

    /// The nodes that may begin now that a node has ended, whatever becomes of their other edges.
    pub(crate) fn chances(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> + '_ {
        let from = self.chances.partition_point(|(before, _)| *before < node);
        self.chances[from..].iter().take_while(move |(before, _)| *before == node).map(|(_, after)| *after)
    }

    pub(crate) fn has_chances(&self) -> bool {
        !self.chances.is_empty()
    }
}

impl NodeSpec {
    /// Returns true if a person must approve it before it begins.
    pub(crate) fn asks_first(&self) -> bool {
        self.policy.approve.is_some() && self.question.is_none()
    }

    /// The arm of a router that the node is in.
    pub(crate) fn guard(&self) -> Option<(NodeIndex, u32)> {
        match (&*self.entries, self.begins) {
            ([Entry { from, when: When::Arm(arm) }], Begins::All) => Some((*from, *arm)),
            _ => None,
        }
    }

    /// All nodes that matter for whether this one runs; one may be there several times.
    pub(crate) fn predecessors(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let after = self.after.iter().map(|after| after.node);
        let entries = self.entries.iter().map(|entry| entry.from);
        self.reads.iter().copied().chain(after).chain(entries).chain(self.unless)
    }

    /// Those that must have ended before this one is decided on.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let after = self.after.iter().map(|after| after.node);
        let entries = if self.begins.waits_for_all() { self.entries.as_slice() } else { &[] };
        let entries = entries.iter().map(|entry| entry.from);
        self.reads.iter().copied().chain(after).chain(entries).chain(self.unless)
    }

    /// How many of those there are, each as often as it is there.
    pub(crate) fn awaited_count(&self) -> u32 {
        let entries = if self.begins.waits_for_all() { self.entries.len() } else { 0 };
        let all = self.reads.len() + self.after.len() + entries + usize::from(self.unless.is_some());
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// What it consists of: its items or rounds, or its branches by their names.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (Option<&str>, &Arc<Spec>)> {
        let branches = match &self.body {
            Body::Race(branches) | Body::Fallback(branches) => branches.as_slice(),
            _ => &[],
        };
        let named = branches.iter().filter_map(|branch| Some((Some(&*branch.name), branch.inner.as_ref()?)));
        self.inner.iter().map(|inner| (None, inner)).chain(named)
    }
}

impl Body {
    /// Whether its output follows from others at once, so that it has no record when it does not run.
    pub(crate) fn is_pure(&self) -> bool {
        matches!(self, Self::Pure(_) | Self::Join | Self::Input { .. })
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// The names of files are those of one machine and do not count, nor does the order in which they were read.
#[cfg(feature = "documents")]
fn texts_hash(written: &[(Arc<str>, Arc<str>)]) -> Option<Arc<str>> {
    let mut texts: Vec<&str> = written.iter().map(|(_, text)| &**text).collect();
    texts.sort_unstable();
    (!texts.is_empty()).then(|| crate::definition::hash_of(&texts))
}
