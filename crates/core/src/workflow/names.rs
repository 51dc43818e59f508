//! Checks the names of nodes, arms and branches, so that each path in a journal belongs to one
//! node.
//!
//! The path of a node is its name after the names of the routers and arms that contain it. The
//! steps of a node are recorded below its path, so no other node may have a path there. A router is
//! the exception: it runs nothing itself, and the nodes of its arms have paths below it.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::HashMap;

use super::graph_codes;
use super::spec::{NodeKind, PlanNode};
use crate::path::StepPath;

/// Names that a run adds to paths, each followed by a number.
const RESERVED: [&str; 6] = ["model#", "tool#", "call#", "attempt#", "undo#", "ask#"];

const RULE: &str = "be empty, contain `[`, `]`, `%`, quotes, `\\` or control characters, or begin with `model#`, `tool#`, `call#`, \
                    `attempt#`, `undo#` or `ask#`, which are parts of a run's paths";

fn is_wrong(part: &str) -> bool {
    part.is_empty()
        || part.contains(['[', ']', '%', '"', '\\'])
        || part.contains(char::is_control)
        || RESERVED.iter().any(|reserved| part.starts_with(reserved))
}

/// Checks the path of a node on its own.
pub(super) fn check_node_path(path: &str) -> Option<Diagnostic> {
    path.split('/').any(is_wrong).then(|| {
        Diagnostic::new(graph_codes::INVALID_NODE_NAME).name("node", path).text("rule", RULE)
    })
}

/// Checks the type of a node's output. A value that can be changed through a shared reference could
/// differ after a restart, and between readers.
pub(super) fn check_output_type(node: &str, type_name: &str) -> Option<Diagnostic> {
    const SHARED: [&str; 9] = [
        "Cell",
        "RefCell",
        "UnsafeCell",
        "OnceCell",
        "LazyCell",
        "Mutex",
        "RwLock",
        "OnceLock",
        "LazyLock",
    ];
    let is_path = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
    // Types are known by name only. The first and the last part of a path identify a standard type.
    let mut types = type_name.split(|letter| !is_path(letter));
    let shared = types.find_map(|path| {
        let (first, _) = path.split_once("::")?;
        let (_, last) = path.rsplit_once("::")?;
        let of_std = matches!(first, "core" | "std" | "alloc");
        (of_std && (SHARED.contains(&last) || last.starts_with("Atomic"))).then_some(last)
    })?;
    Some(Diagnostic::new(graph_codes::SHARED_OUTPUT).name("node", node).name("type_name", shared))
}

/// Checks the name of a branch.
pub(super) fn check_branch_name(node: &str, branch: &str) -> Option<Diagnostic> {
    if branch.contains('/') {
        return Some(
            Diagnostic::new(graph_codes::BRANCH_NAME_WITH_SLASH)
                .name("branch", branch)
                .name("node", node),
        );
    }
    is_wrong(branch).then(|| {
        Diagnostic::new(graph_codes::INVALID_BRANCH_NAME)
            .name("branch", branch)
            .name("node", node)
            .text("rule", RULE)
    })
}

/// Reports each node whose path is below the path of a node that may record steps there.
pub(super) fn check_path_overlaps(nodes: &[PlanNode]) -> Vec<Diagnostic> {
    let places: HashMap<&StepPath, &PlanNode> =
        nodes.iter().map(|node| (&node.path, node)).collect();
    let mut problems = Vec::new();
    for node in nodes {
        let mut above: Vec<_> =
            node.path.parents().filter_map(|above| places.get(&above).copied()).collect();
        above.reverse();
        for above in above.into_iter().filter(|above| !holds(nodes, above, node)) {
            problems.push(
                Diagnostic::new(graph_codes::OVERLAPPING_PATHS)
                    .name("node", &node.path)
                    .name("above", &above.path),
            );
        }
    }
    problems
}

/// Returns true if a node may have a path below another node: in an arm of a router, or as the join
/// of its arms.
fn holds(nodes: &[PlanNode], above: &PlanNode, node: &PlanNode) -> bool {
    let router = match above.kind {
        NodeKind::Router => above.path.clone(),
        // The join of a router runs nothing either, and an arm may have the name of the join.
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

/// Returns the router that a join belongs to.
fn router_of(end: &StepPath) -> Option<StepPath> {
    end.parent().filter(|_| matches!(end.last_name(), Some(END | RETURN)))
}

/// Name of the join of a router's arms, below the router.
pub(super) const END: &str = "end";

/// Name of the join of all arms so far that return, below the router of the last such arm. Like
/// [`YIELD`] it is a keyword of Rust, so no variable has this name.
pub(super) const RETURN: &str = "return";

/// Name of the end of an arm whose output comes from a node outside of the arm. It is below the
/// arm.
pub(super) const YIELD: &str = "yield";
