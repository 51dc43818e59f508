//! When a failed call of a tool is tried again: as often as its policy says, whoever calls. It makes no call.

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::event::EventKind;
use crate::failure::{Failure, FailureClass};

/// The pause before a failed call is retried: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Whether another attempt may end otherwise, as for a node that consists of the call.
pub(super) fn is_worth_another(failure: &Failure) -> bool {
    let never = [FailureClass::Validation, FailureClass::Permission, FailureClass::Cancelled];
    failure.may_pass() && !never.contains(&failure.kind.class())
}

/// Waits before the attempt after a failed one. `recorded`: the call has records at the context's path.
pub(super) async fn pause_after(cx: &Context, attempt: u32, failure: Failure, recorded: bool) {
    let pause = PAUSE.0.saturating_mul(1 << (attempt - 1).min(16)).min(PAUSE.1);
    if !recorded {
        let problem = cx.run().host.redacted(&failure.message);
        tracing::debug!(attempt, problem, "a tool call is retried");
    }
    let delay_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    let kind = || EventKind::ToolRetrying { attempt, error: Arc::new(failure), delay_ms };
    match recorded {
        true => cx.run().record(cx.path().clone(), kind()),
        false if !cx.is_in_run() => cx.tell(kind()),
        false => {}
    }
    tokio::time::sleep(pause).await;
}
