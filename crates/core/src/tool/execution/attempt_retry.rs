//! The pause before a failed tool call is retried.

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::event::EventKind;
use crate::failure::Failure;

/// First and longest pause before a retry. The pause doubles with each attempt.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Records the retry and waits before the next attempt. `recorded` is `true` if the call has
/// records at the context's path.
pub(super) async fn pause_after(cx: &Context, attempt: u32, failure: Failure, recorded: bool) {
    let pause = PAUSE.0.saturating_mul(1 << (attempt - 1).min(16)).min(PAUSE.1);
    // The message is logged before `failure` is moved into the event.
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
