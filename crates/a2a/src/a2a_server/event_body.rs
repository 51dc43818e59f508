//! Encodes the updates of a task as a response body with server-sent events. Comments keep an idle
//! connection alive.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::task_updates::TaskUpdates;
use agentflow_front::StreamSlot;

/// Time without an event after which a comment is sent.
const QUIET: Duration = Duration::from_secs(15);

struct Sent {
    updates: TaskUpdates,
    id: Option<Value>,
    until: Instant,
    is_over: bool,
    _slot: StreamSlot,
}

/// Creates the body. With `id`, each event is a JSON-RPC response. The body ends with the updates,
/// or when `longest` has passed.
pub(super) fn event_body(
    updates: TaskUpdates,
    id: Option<Value>,
    longest: Duration,
    slot: StreamSlot,
) -> Body {
    let sent = Sent { updates, id, until: Instant::now() + longest, is_over: false, _slot: slot };
    Body::from_stream(futures_util::stream::unfold(sent, |mut sent| async move {
        let piece = sent.piece().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), sent))
    }))
}

impl Sent {
    async fn piece(&mut self) -> Option<String> {
        let left = self.until.saturating_duration_since(Instant::now());
        if self.is_over || left.is_zero() {
            return None;
        }
        let event = match tokio::time::timeout(left.min(QUIET), self.updates.next()).await {
            Err(_) => return Some(": nothing new\n\n".to_owned()),
            Ok(None) => return None,
            Ok(Some(Ok(update))) => match &self.id {
                Some(id) => json!({"jsonrpc": "2.0", "id": id, "result": update}),
                None => json!(update),
            },
            Ok(Some(Err(fault))) => {
                self.is_over = true;
                match &self.id {
                    Some(id) => fault.to_rpc(id),
                    None => fault.to_rest(),
                }
            }
        };
        Some(format!("data: {event}\n\n"))
    }
}
