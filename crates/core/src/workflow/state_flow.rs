//! Static analysis of state keys in a plan: the keys that each node declares to read and save, and
//! the keys that exist when it begins. A run that needs a key that is never set is refused before
//! it begins. Keys that a tool sets in its code, or that an earlier run of a session set, are
//! unknown here.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, nearest};

use super::callee::saved_keys;
use super::condition::Condition;
use super::entry::When;
use super::graph_body::GraphBody;
use super::mapping::IsNode;
use super::policy::OnError;
use super::question_text::{needed_keys_of_text, state_keys_of_text};
use super::saved_outputs::FIELDS;
use super::spec::{NodeIndex, NodeKind, PlanNode, Spec};
use crate::dry_run::{DryIssue, DryStateRead};
use crate::error::{Error, Result};
use crate::state::{StateOwner, StateTransform};

/// A set of state keys.
pub(super) type Keys = BTreeSet<Arc<str>>;

/// The changes that a node makes to the state.
struct Change {
    saves: Keys,
    removes: Keys,
    /// `true` if it removes all keys of the session except the keys that it saves.
    removes_others: bool,
}

impl Change {
    fn of_node(node: &PlanNode) -> Self {
        let mut change =
            Self { saves: saved_keys(node), removes: Keys::new(), removes_others: false };
        for transform in node.does.iter().flat_map(|does| does.transforms()) {
            let removed: Vec<Arc<str>> = match transform {
                StateTransform::Drop(keys) => keys.iter().map(|key| key.as_str().into()).collect(),
                StateTransform::Rename(keys) => {
                    keys.keys().map(|key| key.as_str().into()).collect()
                }
                StateTransform::Pick(keys) => {
                    change.removes_others = true;
                    change.saves.retain(|key| keys.contains(&**key));
                    Vec::new()
                }
                _ => Vec::new(),
            };
            let set = transform.set_keys();
            for key in removed.into_iter().filter(|key| !set.contains(&&**key)) {
                change.saves.remove(&key);
                change.removes.insert(key);
            }
            for key in set {
                change.removes.remove(key);
                change.saves.insert(key.into());
            }
        }
        change
    }

    fn removes(&self, key: &str) -> bool {
        self.removes.contains(key) || self.removes_others && !self.saves.contains(key)
    }
}

/// Returns the keys that a node reads, each once. A key is optional if the node also runs without
/// it.
pub(super) fn reads(spec: &Spec, node: &PlanNode) -> Vec<DryStateRead> {
    let names: HashSet<&str> = spec.nodes.iter().map(|node| node.path.names()).collect();
    let is_node: IsNode<'_> = &|name| names.contains(name);
    let needed: BTreeSet<&str> = needed_keys(node, is_node).into_iter().collect();
    let asked =
        node.question_template().map(|text| state_keys_of_text(text, is_node)).unwrap_or_default();
    let own = node.does.iter().flat_map(|does| does.state_keys(is_node)).chain(asked);
    let conditions = node.entries.iter().filter_map(|entry| match &entry.when {
        When::Holds(condition) => Some(&condition.condition),
        _ => None,
    });
    let of_edges = conditions.flat_map(|condition| condition.state_keys(is_node));
    let all: BTreeSet<&str> =
        own.chain(of_edges).map(|(key, _)| key).chain(needed.iter().copied()).collect();
    let read = |key: &str| DryStateRead { key: key.into(), optional: !needed.contains(key) };
    all.into_iter().filter(|key| !key.is_empty()).map(read).collect()
}

/// Returns the keys that a node saves. `*` represents all fields of its output.
pub(super) fn saves(node: &PlanNode) -> Vec<Arc<str>> {
    let fields = node.saves.contains_key(FIELDS).then(|| Arc::from(FIELDS));
    saved_keys(node).into_iter().chain(fields).collect()
}

/// Returns the keys that a node, or an edge to it, requires.
fn needed_keys<'n>(node: &'n PlanNode, is_node: IsNode<'_>) -> Vec<&'n str> {
    let mut needed =
        node.question_template().map(|text| needed_keys_of_text(text, is_node)).unwrap_or_default();
    for does in node.does.iter() {
        needed.extend(does.needed_keys(is_node));
        does.conditions().for_each(|condition| add_needed(condition, is_node, &mut needed));
        // A transform sees the changes of the transforms before it in the same node.
        let mut set: Vec<&str> = Vec::new();
        for transform in does.transforms() {
            let of_texts =
                transform.placeholders().filter(|(_, placeholder)| !placeholder.is_optional());
            needed.extend(of_texts.map(|(key, _)| key).filter(|key| !set.contains(key)));
            set.extend(transform.set_keys());
        }
    }
    for entry in &node.entries {
        if let When::Holds(condition) = &entry.when {
            add_needed(&condition.condition, is_node, &mut needed);
        }
    }
    needed
}

/// Adds the keys that are required to decide a condition.
fn add_needed<'c>(condition: &'c Condition, is_node: IsNode<'_>, needed: &mut Vec<&'c str>) {
    match condition {
        Condition::Is(value) => needed.extend(value.needed_keys(is_node)),
        Condition::Equals(one, other) => {
            needed.extend(one.needed_keys(is_node));
            needed.extend(other.needed_keys(is_node));
        }
        // The expression itself tests if the key exists.
        Condition::Cel(expression) if expression.to_string().contains("has(") => {}
        Condition::Cel(_) => {
            needed.extend(condition.state_keys(is_node).into_iter().map(|(key, _)| key));
        }
        Condition::Exists(_) => {}
        Condition::Not(other) => add_needed(other, is_node, needed),
        // The first one may decide, so the others need not be evaluated.
        Condition::All(all) | Condition::Any(all) => {
            all.first().into_iter().for_each(|first| add_needed(first, is_node, needed));
        }
    }
}

/// A read of a key that no node above declares to save.
pub(super) struct UnsavedRead {
    pub(super) issue: DryIssue,
    /// `true` if code of a node above may set the key.
    may_be_set: bool,
    /// `true` if the node begins in every run, and the run fails with it.
    is_certain: bool,
}

/// Position of a plan in another plan.
struct Within<'a> {
    /// Keys that exist when the plan begins.
    given: &'a Keys,
    /// Path of the nodes that contain the plan.
    path: &'a str,
    /// `true` if code of a node above may have set further keys.
    may_be_set: bool,
    is_certain: bool,
}

/// Finds reads of keys that no node above declares to save, in a plan that begins with the keys
/// `given`.
pub(super) fn unsaved_reads(spec: &Spec, given: &Keys) -> Vec<UnsavedRead> {
    let within = Within { given, path: "", may_be_set: false, is_certain: true };
    unsaved_reads_within(spec, &within)
}

/// Refuses a run that will fail in any case, because a node needs a state key that is never set.
/// Logs a warning for a node that fails if it begins. The run begins with the keys `given`.
///
/// # Errors
/// [`Error::Build`] with the node, the key, and the keys that are saved before it.
pub(super) fn check_unsaved_reads(spec: &Spec, given: &Keys) -> Result<()> {
    // State keys are named by data only.
    if spec.nodes.iter().all(|node| node.does.is_none() && node.entries.is_empty()) {
        return Ok(());
    }
    for read in unsaved_reads(spec, given).into_iter().filter(|read| !read.may_be_set) {
        let DryIssue { node, problem } = read.issue;
        if read.is_certain {
            let problem = format!("the node `{node}` cannot run: {problem}");
            return Err(Error::Build { what: "workflow", name: Arc::clone(&spec.name), problem });
        }
        tracing::warn!(
            workflow = &*spec.name,
            node = &*node,
            "a node of the workflow may fail: {problem}"
        );
    }
    Ok(())
}

fn unsaved_reads_within(spec: &Spec, within: &Within<'_>) -> Vec<UnsavedRead> {
    let changes: Vec<Change> = spec.nodes.iter().map(Change::of_node).collect();
    let saves_any = spec.nodes.iter().any(|node| node.saves.contains_key(FIELDS));
    let mut found = Vec::new();
    for (at, node) in (0..).zip(&spec.nodes) {
        let reads = reads(spec, node);
        let bodies: Vec<&Arc<Spec>> =
            node.bodies().map(|(_, body)| body).chain(called(node)).collect();
        // A node that saves fields with unknown names may save any key.
        if saves_any || reads.is_empty() && bodies.is_empty() {
            continue;
        }
        let there = keys_before(spec, &changes, within.given, at);
        let name = format!("{}{}", within.path, node.path);
        let is_certain = within.is_certain && fails_with(spec, at);
        let is_needed = |read: &&DryStateRead| {
            let owner = StateOwner::split(&read.key).0;
            !read.optional
                && matches!(owner, StateOwner::Session | StateOwner::Temp)
                && !there.contains(&read.key)
        };
        for read in reads.iter().filter(is_needed) {
            let issue =
                DryIssue { node: name.as_str().into(), problem: missing(&read.key, &there) };
            let may_be_set = may_be_set(spec, &changes, within.may_be_set, (at, &read.key));
            found.push(UnsavedRead { issue, may_be_set, is_certain });
        }
        let may_be_set =
            within.may_be_set || spec.all_before(at).any(|before| runs_code(spec.node(before)));
        for body in bodies {
            // The body may have no items or rounds, so its failure is not certain.
            let path = format!("{name}/");
            let within = Within { given: &there, path: &path, may_be_set, is_certain: false };
            found.extend(unsaved_reads_within(body, &within));
        }
    }
    found
}

/// Returns true if a node begins in every run, and the run fails if it does.
fn fails_with(spec: &Spec, at: NodeIndex) -> bool {
    let always_begins = |node: &PlanNode| {
        let is_unconditional = node.entries.iter().all(|entry| matches!(entry.when, When::Done));
        node.guard().is_none() && node.unless.is_none() && node.begins.is_all() && is_unconditional
    };
    let node = spec.node(at);
    let decides_itself =
        node.policy.on_error == OnError::Fail && !node.has_rescue && node.decided.is_none();
    // Another branch may succeed, and a list may have no items.
    let is_one_call = !matches!(
        node.does.as_deref(),
        Some(GraphBody::Race(_) | GraphBody::Fallback(_) | GraphBody::Map { .. })
    );
    // Another node may end the workflow first.
    decides_itself
        && is_one_call
        && spec.nodes.iter().all(|node| !node.ends)
        && spec.all_before(at).chain([at]).all(|node| always_begins(spec.node(node)))
}

/// Returns true if a node runs code, which may set any key.
fn runs_code(node: &PlanNode) -> bool {
    match node.does.as_deref() {
        Some(
            GraphBody::Value(_) | GraphBody::Transform(_) | GraphBody::Route(_) | GraphBody::Ask(_),
        ) => false,
        Some(_) => true,
        None => !matches!(node.kind, NodeKind::Input | NodeKind::Join | NodeKind::Gate),
    }
}

/// Returns true if code of a node above may set a key, and no node in between removes it. `before`
/// is the same flag for the nodes above the plan.
fn may_be_set(spec: &Spec, changes: &[Change], before: bool, (at, key): (NodeIndex, &str)) -> bool {
    let above: Vec<NodeIndex> = spec.all_before(at).collect();
    let removers: Vec<NodeIndex> =
        above.iter().copied().filter(|at| changes[*at as usize].removes(key)).collect();
    let is_removed = |code: NodeIndex| {
        removers.iter().any(|at| spec.all_before(*at).any(|before| before == code))
    };
    let code = above.iter().copied().filter(|at| runs_code(spec.node(*at)));
    before && removers.is_empty() || code.into_iter().any(|code| !is_removed(code))
}

/// Returns the workflows that a node of data calls by name.
fn called(node: &PlanNode) -> impl Iterator<Item = &Arc<Spec>> {
    #[cfg(feature = "dynamic")]
    let called = node.references.iter().filter_map(|reference| match reference {
        super::spec::ReferencedDefinition::Workflow(spec) => Some(spec),
        _ => None,
    });
    #[cfg(not(feature = "dynamic"))]
    let called = {
        let _ = node;
        std::iter::empty()
    };
    called
}

/// Returns the keys that exist when a node begins: those that a node above saves and no node in
/// between removes.
fn keys_before(spec: &Spec, changes: &[Change], given: &Keys, node: NodeIndex) -> Keys {
    let above: Vec<NodeIndex> = spec.all_before(node).collect();
    // Few nodes remove keys, so they are searched once and not for each key.
    let removes_any = |at: &&NodeIndex| {
        let change = &changes[**at as usize];
        change.removes_others || !change.removes.is_empty()
    };
    let removers: Vec<NodeIndex> = above.iter().filter(removes_any).copied().collect();
    let mut there = Keys::new();
    for key in given {
        if !removers.iter().any(|at| changes[*at as usize].removes(key)) {
            there.insert(Arc::clone(key));
        }
    }
    for saver in &above {
        for key in &changes[*saver as usize].saves {
            let is_after =
                |remover: &NodeIndex| spec.all_before(*remover).any(|before| before == *saver);
            if !removers.iter().any(|at| changes[*at as usize].removes(key) && is_after(at)) {
                there.insert(Arc::clone(key));
            }
        }
    }
    there
}

/// Describes a key that no node saves before it is read.
fn missing(key: &str, there: &Keys) -> String {
    let near = nearest(key, there.iter().map(|key| &**key));
    let known: Vec<String> = there.iter().take(10).map(|key| format!("`{key}`")).collect();
    let known = match known.is_empty() {
        true => "no key is saved before it".to_owned(),
        false => format!("saved before it: {}", known.join(", ")),
    };
    format!(
        "it needs the key `{key}` of the state, and no node before it saves that{}; {known}. It fails unless a tool or an \
         earlier run of its session sets the key",
        did_you_mean(near)
    )
}
