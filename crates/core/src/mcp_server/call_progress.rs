//! What a call emits as its client is shown it: as progress, or as messages of the log. It asks nothing and changes no result.

use std::time::Duration;

use agentflow_schema::text::head;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;

use super::request_kind;
use super::served_log::{self, LogLevel, ShownLog};
use crate::event::EventKind;

/// The most bytes of a message of progress.
const MOST_TEXT: usize = 4096;

/// How long a client over HTTP may take to read what it is shown, before it is shown no more.
const LIMIT: Duration = Duration::from_secs(30);

/// Shows the client what a call emits, when it has asked for that.
pub(super) struct ShownProgress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    log: Option<ShownLog>,
    /// The other connections wait for nothing but their own client.
    has_limit: bool,
    /// What was shown last; it must grow.
    last: f64,
}

impl ShownProgress {
    /// `level` is the one that the client has set for its connection, and `logger` what was called.
    pub(super) fn of(context: &RequestContext<RoleServer>, level: Option<LogLevel>, logger: &str) -> Self {
        let to = context.meta.get_progress_token().map(|token| (context.peer.clone(), token));
        let log = Some(ShownLog::of(context, level, logger)).filter(ShownLog::is_wanted);
        Self { to, log, has_limit: request_kind::is_over_http(context), last: 0.0 }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.to.is_some() || self.log.is_some()
    }

    /// Shows what a step emits; every other event is left out.
    pub(super) async fn show(&mut self, event: &EventKind) {
        let EventKind::StepProgress { value } = event else { return };
        if !self.is_wanted() {
            return;
        }
        let value: Value = value.decode().unwrap_or_default();
        if !self.has_limit {
            return self.show_value(value).await;
        }
        if tokio::time::timeout(LIMIT, self.show_value(value)).await.is_err() {
            // A client that does not read keeps no turn of others.
            (self.to, self.log) = (None, None);
        }
    }

    async fn show_value(&mut self, value: Value) {
        if let Some(log) = &self.log {
            log.show(&value).await;
        }
        let Some((peer, token)) = &self.to else { return };
        if served_log::is_message(&value) && value.get("progress").is_none() {
            return;
        }
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
