//! The progress of a call as the client is shown it. It asks nothing and changes no result.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;

use crate::event::EventKind;
use crate::text::head;

/// The most bytes of a message of progress.
const MOST_TEXT: usize = 4096;

/// Shows the client what a call emits, when it has asked for that.
pub(super) struct ShownProgress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    /// What was shown last; it must grow.
    last: f64,
}

impl ShownProgress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { to: token.map(|token| (context.peer.clone(), token)), last: 0.0 }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// Shows what a step emits; every other event is left out.
    pub(super) async fn show(&mut self, event: &EventKind) {
        let (Some((peer, token)), EventKind::StepProgress { value }) = (&self.to, event) else { return };
        let value: Value = value.decode().unwrap_or_default();
        let progress = value["progress"].as_f64().filter(|progress| *progress > self.last);
        self.last = progress.unwrap_or(self.last + 1.0);
        let mut said = ProgressNotificationParam::new(token.clone(), self.last);
        if let Some(total) = value["total"].as_f64() {
            said = said.with_total(total);
        }
        let message = match (&value, &value["message"]) {
            (Value::String(text), _) | (_, Value::String(text)) => Some(text.clone()),
            (Value::Object(fields), _) if fields.contains_key("progress") => None,
            _ => Some(value.to_string()),
        };
        if let Some(message) = message {
            said = said.with_message(head(&message, MOST_TEXT));
        }
        // Whoever does not take it has gone.
        let _ = peer.notify_progress(said).await;
    }
}
