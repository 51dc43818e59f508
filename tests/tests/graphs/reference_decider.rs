//! Deciders for the random graphs: their decisions about each node, and a naive check for decisions
//! that must be refused.

use agentflow::Event;
use agentflow::event::EventKind;
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy};
use agentflow::workflow::{NextNode, NodeDecision};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::reference::{Made, RandomNode, Way, Work, name, skips};

/// A decision about a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Said {
    Continue,
    Skip,
    /// Revises the arguments so that the call returns this value, or fails for `None`.
    Revise(Option<bool>),
    /// The decider fails.
    Fails,
}

impl Said {
    pub(super) fn by_chance(rng: &mut Rng) -> Self {
        match rng.u8(..16) {
            0 => Self::Fails,
            1..5 => Self::Skip,
            5..9 => Self::Revise([Some(true), Some(false), None][rng.usize(..3)]),
            _ => Self::Continue,
        }
    }
}

/// Returns `true` if the decision is refused, which fails the run.
pub(super) fn is_refused(plan: &[RandomNode], made: Made, at: usize) -> bool {
    match plan[at].said {
        Some(Said::Fails) => true,
        Some(Said::Skip) => plan.iter().any(|other| needs(other, at)),
        // A decider revises the values that a typed node reads. A node that reads no value has
        // nothing to revise.
        Some(Said::Revise(_)) => made == Made::Typed && plan[at].needs.is_empty(),
        Some(Said::Continue) | None => false,
    }
}

/// Returns `true` if the node requires the output of the call.
fn needs(planned: &RandomNode, call: usize) -> bool {
    let has_edge = planned.edges.iter().any(|(from, _)| *from == call);
    let may_miss = skips(planned) && has_edge;
    let asks = matches!(&planned.work, Work::Route { arms, .. } if arms.iter().flatten().any(|(asked, _)| *asked == call));
    let judges = planned.edges.iter().any(|(from, way)| *from == call && matches!(way, Way::Is(_)));
    asks || judges || planned.needs.contains(&call) && !may_miss
}

/// Returns the planned decision about the next node.
pub(super) fn says(
    plan: &[RandomNode],
    made: Made,
    next: &NextNode,
) -> Result<NodeDecision, String> {
    let at = (0..plan.len()).find(|at| name(*at) == next.node);
    let planned = &plan[at.ok_or_else(|| format!("nobody planned `{}`", next.node))?];
    match planned.said.ok_or_else(|| format!("`{}` is not to be decided on", next.node))? {
        Said::Continue => Ok(NodeDecision::Continue),
        Said::Skip => Ok(NodeDecision::Skip { reason: "it is dull".to_owned() }),
        Said::Fails => Err("it cannot decide".to_owned()),
        Said::Revise(fate) => {
            let arguments = match (made, planned.needs.first()) {
                (Made::Graph, _) => {
                    let fate = fate.map_or("fails".to_owned(), |fate| fate.to_string());
                    json!({"node": fate, "millis": planned.millis})
                }
                (Made::Typed, Some(need)) => json!({name(*need): {"fate": fate}}),
                (Made::Typed, None) => json!({"nothing": {"fate": fate}}),
            };
            Ok(NodeDecision::Revise { arguments, reason: String::new() })
        }
    }
}

/// Returns the decider of a graph as a tool.
pub(super) fn decider(plan: &[RandomNode]) -> FnTool {
    let plan = plan.to_vec();
    let schema = json!({"type": "object", "properties": {"next": {}}, "required": ["next"]});
    let definition = ToolDefinition::new("decides", "Says what becomes of a node.", schema);
    FnTool::dynamic(definition, move |_, arguments: Value| {
        let next = serde_json::from_value::<NextNode>(arguments["next"].clone());
        let said = next
            .map_err(|error| error.to_string())
            .and_then(|next| says(&plan, Made::Graph, &next));
        std::future::ready(said.map(|said| json!(said)))
    })
    .policy(ToolPolicy::default().effects(Effects::None))
}

/// Checks that no recorded decision is requested again.
pub(super) fn check_decisions(events: &[Event]) -> Result<(), String> {
    let mut decided: Vec<String> = Vec::new();
    for event in events {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::NodeStarted { .. } if decided.contains(&path) => {
                return Err(format!("`{path}` was recorded, and was asked for again"));
            }
            EventKind::NodeCompleted { .. } if path.ends_with(".decision") => decided.push(path),
            _ => {}
        }
    }
    Ok(())
}
