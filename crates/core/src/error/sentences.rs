//! Parts of error messages: lists of names, and solutions that several errors share.

use agentflow_schema::text::known_names;

use crate::definition::Difference;

/// Formats at most ten differences.
pub(super) fn listed(differences: &[Difference]) -> String {
    let shown: Vec<String> = differences.iter().take(10).map(ToString::to_string).collect();
    match differences.len() {
        count @ 11.. => format!("{}; and {} more", shown.join("; "), count - 10),
        _ => shown.join("; "),
    }
}

/// Describes the effect of a changed workflow on a run.
pub(super) fn run_again(nodes: &[String]) -> String {
    match nodes {
        [] => {
            "a policy of its nodes, or what they wait for, is another, and nothing would run again"
                .to_owned()
        }
        nodes => format!("{} would run again", names(nodes)),
    }
}

/// Lists the nodes with effects that a new run of a workflow would repeat.
pub(super) fn repeats(wrote: &[String]) -> String {
    if wrote.is_empty() { String::new() } else { format!(" and repeats {}", names(wrote)) }
}

/// Solution for a changed definition.
pub(super) const ACCEPT_ALL: &str = "to continue all the same, accept it with `Changes::AcceptAll`, or by `agentwf runs resume --changes \
    accept-all`";

/// Describes a missing workflow, or an item of a different kind with this name.
pub(super) fn no_workflow(
    name: &str,
    near: Option<&String>,
    known: &[String],
    other: Option<&str>,
) -> String {
    match other {
        Some("agent") => format!(
            "`{name}` is an agent and not a workflow; start it by `Agent::start`, an `#[agent]` function as in \
             `{name}::agent(..).start(())`"
        ),
        Some(other) => {
            format!(
                "`{name}` is a {other} and not a workflow; call it by `Runtime::invoke`, or in a node of a workflow"
            )
        }
        None => {
            format!("this program has no workflow `{name}`{}", known_names("workflow", near, known))
        }
    }
}

/// Describes a missing version of a workflow.
pub(super) fn unknown_version(workflow: &str, version: u64, current: Option<u64>) -> String {
    match current {
        Some(current) => format!(
            "the document `{workflow}` has no version {version}; its current version is {current}"
        ),
        None => format!(
            "the workflow `{workflow}` has no version {version}, since it is not a stored document; start it without a \
             version"
        ),
    }
}

/// Formats at most ten names.
pub(super) fn names(nodes: &[String]) -> String {
    let shown: Vec<String> = nodes.iter().take(10).map(|node| format!("`{node}`")).collect();
    match nodes.len() {
        0 => "nothing".to_owned(),
        count @ 11.. => format!("{} and {} more", shown.join(", "), count - 10),
        _ => shown.join(", "),
    }
}
