//! `agentwf health`: reports the health of each boot phase of the host. Starts nothing.

use serde_json::{Value, json};

use super::print::{Stop, line, note, print_json};
use agentflow_core::runtime::{BootError, BootPhase, Runtime};

pub(super) async fn health(host: &Runtime, json: bool) -> Result<(), Stop> {
    // Errors of documents are reported by the document phase of the health check.
    drop(host.documents().reload().await);
    let health = host.health().await;
    if json {
        let about = |phase: BootPhase| {
            let problem = health.problem_of(phase).map(BootError::found);
            (phase.to_string(), json!({"well": problem.is_none(), "problem": problem}))
        };
        print_json(
            &BootPhase::ALL.iter().copied().map(about).collect::<serde_json::Map<String, Value>>(),
        )?;
    } else {
        line(format_args!("{health}"))?;
    }
    match health.is_well() {
        true => Ok(()),
        false if json => Err(Stop::Said),
        false => {
            note(format_args!("what this program needs is not all there"));
            Err(Stop::Said)
        }
    }
}
