//! Checks the names of nodes, arms and branches, so that each path in a journal belongs to one node.
//!
//! A node's path is its name after those of the routers and arms that hold it. Steps inside a node are recorded below
//! that path, so no other node may be there. Only a router runs nothing itself: the nodes of its arms are below it.

use std::collections::HashMap;

use super::spec::{NodeKind, NodeSpec};
use crate::path::StepPath;

/// What a run writes into paths by itself, each followed by a number.
const RESERVED: [&str; 6] = ["model#", "tool#", "call#", "attempt#", "undo#", "ask#"];

const RULE: &str = "be empty, contain `[`, `]`, `%`, quotes or `\\`, or begin with `model#`, `tool#`, `call#`, \
                    `attempt#`, `undo#` or `ask#`, which are parts of a run's paths";

fn is_wrong(part: &str) -> bool {
    part.is_empty()
        || part.contains(['[', ']', '%', '"', '\\'])
        || RESERVED.iter().any(|reserved| part.starts_with(reserved))
}

/// What is wrong with a node's path, taken alone.
pub(super) fn problem_of_node(path: &str) -> Option<String> {
    path.split('/')
        .any(is_wrong)
        .then(|| format!("`{path}` cannot be the name of a node: no part between slashes may {RULE}"))
}

/// What is wrong with the type of a node's output: a value that can be changed through a shared reference is another
/// one after a restart, or for each of its readers.
pub(super) fn problem_of_type(node: &str, type_name: &str) -> Option<String> {
    const SHARED: [&str; 9] =
        ["Cell", "RefCell", "UnsafeCell", "OnceCell", "LazyCell", "Mutex", "RwLock", "OnceLock", "LazyLock"];
    let is_path = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
    let mut types = type_name.split(|letter| !is_path(letter));
    let shared = types.find_map(|path| {
        let (first, _) = path.split_once("::")?;
        let (_, last) = path.rsplit_once("::")?;
        let of_std = matches!(first, "core" | "std" | "alloc");
        (of_std && (SHARED.contains(&last) || last.starts_with("Atomic"))).then_some(last)
    })?;
    Some(format!(
        "the node `{node}` gives a `{shared}`, which can be changed after it was recorded; give the value in it, and \
         make the `{shared}` in the step that needs one"
    ))
}

/// What is wrong with the name of a branch of a node.
pub(super) fn problem_of_branch(node: &str, branch: &str) -> Option<String> {
    if branch.contains('/') {
        return Some(format!("`{branch}` cannot be the name of a branch of `{node}`: it must not contain `/`"));
    }
    is_wrong(branch).then(|| format!("`{branch}` cannot be the name of a branch of `{node}`: it must not {RULE}"))
}

/// Every node whose path is below another's that may run something there itself.
pub(super) fn problems_of_places(nodes: &[NodeSpec]) -> Vec<String> {
    let places: HashMap<&StepPath, &NodeSpec> = nodes.iter().map(|node| (&node.path, node)).collect();
    let mut problems = Vec::new();
    for node in nodes {
        let mut above: Vec<_> = node.path.parents().filter_map(|above| places.get(&above).copied()).collect();
        above.reverse();
        for above in above.into_iter().filter(|above| !holds(nodes, above, node)) {
            problems.push(format!(
                "the node `{}` is named like a step within the node `{}`, so after a restart one would take the other's \
                 output; rename one of them, without `/`",
                node.path, above.path
            ));
        }
    }
    problems
}

/// Whether a node is below another by right: in an arm of a router, or as the end of its arms.
fn holds(nodes: &[NodeSpec], above: &NodeSpec, node: &NodeSpec) -> bool {
    let router = match above.kind {
        NodeKind::Router => above.path.clone(),
        // The end of a router runs nothing either, and an arm may be called like it.
        NodeKind::Join => match router_of(&above.path) {
            Some(router) => router,
            None => return false,
        },
        _ => return false,
    };
    if node.kind == NodeKind::Join && router_of(&node.path).as_ref() == Some(&router) {
        return true;
    }
    let mut guard = node.guard();
    while let Some((of, _)) = guard {
        let of = &nodes[of as usize];
        if of.path == router {
            return true;
        }
        guard = of.guard();
    }
    false
}

/// The router that an end of arms belongs to.
fn router_of(end: &StepPath) -> Option<StepPath> {
    end.parent().filter(|_| matches!(end.last_name(), Some(END | RETURN)))
}

/// What the end of a router's arms is called, below the router.
pub(super) const END: &str = "end";

/// What the join of all arms that return so far is called, below the router whose arm is the last of them. Like
/// [`YIELD`] it is a keyword of Rust, so no variable is called so.
pub(super) const RETURN: &str = "return";

/// What the end of an arm is called, below the arm, when its output is that of a node outside of the arm.
pub(super) const YIELD: &str = "yield";
