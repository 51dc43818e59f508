//! Static analysis of state keys in a plan: the keys that each node declares to read and save, and the keys that exist when
//! it begins. It reads no state. Keys that a tool sets in its code, or that an earlier run of a session set, are unknown here.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::callee::saved_keys;
use super::condition::Condition;
use super::entry::When;
use super::mapping::IsNode;
use super::question_text::{needed_keys_of_text, state_keys_of_text};
use super::saved_outputs::FIELDS;
use super::spec::{NodeIndex, NodeSpec, Spec};
use crate::dry_run::{DryIssue, DryStateRead};
use crate::state::{StateOwner, StateTransform};
use crate::text::{did_you_mean, nearest};

/// A set of keys.
type Keys = BTreeSet<Arc<str>>;

/// The changes that a node makes to the state.
struct Change {
    saves: Keys,
    removes: Keys,
    /// It removes all keys of the session but those that it saves.
    removes_others: bool,
}

impl Change {
    fn of_node(node: &NodeSpec) -> Self {
        let mut change = Self { saves: saved_keys(node), removes: Keys::new(), removes_others: false };
        for transform in node.does.iter().flat_map(|does| does.transforms()) {
            let removed: Vec<Arc<str>> = match transform {
                StateTransform::Drop(keys) => keys.iter().map(|key| key.as_str().into()).collect(),
                StateTransform::Rename(keys) => keys.keys().map(|key| key.as_str().into()).collect(),
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

/// Returns the keys that a node reads, each once. A key is optional if the node also runs without it.
pub(super) fn reads(spec: &Spec, node: &NodeSpec) -> Vec<DryStateRead> {
    let names: HashSet<&str> = spec.nodes.iter().map(|node| node.path.names()).collect();
    let is_node: IsNode<'_> = &|name| names.contains(name);
    let needed: BTreeSet<&str> = needed_keys(node, is_node).into_iter().collect();
    let asked = node.asked_text().map(|text| state_keys_of_text(text, is_node)).unwrap_or_default();
    let own = node.does.iter().flat_map(|does| does.state_keys(is_node)).chain(asked);
    let conditions = node.entries.iter().filter_map(|entry| match &entry.when {
        When::Holds(condition) => Some(&condition.condition),
        _ => None,
    });
    let of_edges = conditions.flat_map(|condition| condition.state_keys(is_node));
    let all: BTreeSet<&str> = own.chain(of_edges).map(|(key, _)| key).chain(needed.iter().copied()).collect();
    let read = |key: &str| DryStateRead { key: key.into(), optional: !needed.contains(key) };
    all.into_iter().filter(|key| !key.is_empty()).map(read).collect()
}

/// The keys that a node saves; `*` for all fields of its output.
pub(super) fn saves(node: &NodeSpec) -> Vec<Arc<str>> {
    let fields = node.saves.contains_key(FIELDS).then(|| Arc::from(FIELDS));
    saved_keys(node).into_iter().chain(fields).collect()
}

/// The keys without which a node, or an edge to it, fails.
fn needed_keys<'n>(node: &'n NodeSpec, is_node: IsNode<'_>) -> Vec<&'n str> {
    let mut needed = node.asked_text().map(|text| needed_keys_of_text(text, is_node)).unwrap_or_default();
    for does in node.does.iter() {
        needed.extend(does.needed_keys(is_node));
        does.conditions().for_each(|condition| add_needed(condition, is_node, &mut needed));
        // A transform sees the changes of the transforms before it in the same node.
        let mut set: Vec<&str> = Vec::new();
        for transform in does.transforms() {
            let of_texts = transform.placeholders().filter(|(_, placeholder)| !placeholder.is_optional());
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

/// Adds the keys without which a condition cannot be decided.
fn add_needed<'c>(condition: &'c Condition, is_node: IsNode<'_>, needed: &mut Vec<&'c str>) {
    match condition {
        Condition::Is(value) => needed.extend(value.needed_keys(is_node)),
        Condition::Equals(one, other) => {
            needed.extend(one.needed_keys(is_node));
            needed.extend(other.needed_keys(is_node));
        }
        // The expression itself tests if the key exists.
        Condition::Cel(expression) if expression.to_string().contains("has(") => {}
        Condition::Cel(_) => needed.extend(condition.state_keys(is_node).into_iter().map(|(key, _)| key)),
        Condition::Exists(_) => {}
        Condition::Not(other) => add_needed(other, is_node, needed),
        // The first one may decide, so the others need not be evaluated.
        Condition::All(all) | Condition::Any(all) => {
            all.first().into_iter().for_each(|first| add_needed(first, is_node, needed));
        }
    }
}

/// Finds reads of keys that no node above declares. `given` are the keys that exist when the plan begins, and `within` the
/// path of the nodes that contain it.
pub(super) fn issues(spec: &Spec, given: &Keys, within: &str) -> Vec<DryIssue> {
    let changes: Vec<Change> = spec.nodes.iter().map(Change::of_node).collect();
    let saves_any = spec.nodes.iter().any(|node| node.saves.contains_key(FIELDS));
    let mut issues = Vec::new();
    for (at, node) in (0..).zip(&spec.nodes) {
        let reads = reads(spec, node);
        let bodies: Vec<&Arc<Spec>> = node.bodies().map(|(_, body)| body).chain(called(node)).collect();
        if saves_any || reads.is_empty() && bodies.is_empty() {
            continue;
        }
        let there = keys_before(spec, &changes, given, at);
        let name = format!("{within}{}", node.path);
        let is_needed = |read: &&DryStateRead| {
            let owner = StateOwner::split(&read.key).0;
            !read.optional && matches!(owner, StateOwner::Session | StateOwner::Temp) && !there.contains(&read.key)
        };
        for read in reads.iter().filter(is_needed) {
            issues.push(DryIssue { node: name.as_str().into(), problem: missing(&read.key, &there) });
        }
        for body in bodies {
            issues.extend(self::issues(body, &there, &format!("{name}/")));
        }
    }
    issues
}

/// The workflows that a node of data calls by their names.
fn called(node: &NodeSpec) -> impl Iterator<Item = &Arc<Spec>> {
    #[cfg(feature = "dynamic")]
    let called = node.references.iter().filter_map(|reference| match reference {
        super::spec::Referenced::Workflow(spec) => Some(spec),
        _ => None,
    });
    #[cfg(not(feature = "dynamic"))]
    let called = {
        let _ = node;
        std::iter::empty()
    };
    called
}

/// Returns the keys that exist when a node begins: those that a node above saves and no node in between removes.
fn keys_before(spec: &Spec, changes: &[Change], given: &Keys, node: NodeIndex) -> Keys {
    let above: Vec<NodeIndex> = spec.all_before(node).collect();
    // Few nodes remove keys, so they are found once and not for each key.
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
            let is_after = |remover: &NodeIndex| spec.all_before(*remover).any(|before| before == *saver);
            if !removers.iter().any(|at| changes[*at as usize].removes(key) && is_after(at)) {
                there.insert(Arc::clone(key));
            }
        }
    }
    there
}

/// The sentence about a key that no node saves before it is read.
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
