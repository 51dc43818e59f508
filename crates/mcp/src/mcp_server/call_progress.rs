//! Sends the progress of a call to its client, as progress notifications and as log messages. It
//! does not affect the result of the call.

use std::time::Duration;

use agentflow_schema::text::head;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;

use super::request_kind;
use super::served_log::{self, LogLevel, LogSender};
use agentflow_core::event::EventKind;

/// Maximum number of bytes of a progress message.
const MOST_TEXT: usize = 4096;

/// Maximum time that a client over HTTP may take to read a notification. After that, it receives no
/// more of them.
const LIMIT: Duration = Duration::from_secs(30);

/// Sends the progress of a call to the client, if the client has requested it.
pub(super) struct ProgressSender {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    log: Option<LogSender>,
    /// `true` for calls over HTTP. A slow client on another transport delays only its own
    /// connection.
    has_limit: bool,
    /// Last reported progress. The protocol requires it to increase.
    last: f64,
}

impl ProgressSender {
    /// Creates the sender. `level` is the log level that the client has set for its connection.
    /// `logger` is the name of the called tool, agent or workflow.
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        level: Option<LogLevel>,
        logger: &str,
    ) -> Self {
        let to = context.meta.get_progress_token().map(|token| (context.peer.clone(), token));
        let log = Some(LogSender::new(context, level, logger)).filter(LogSender::is_wanted);
        Self { to, log, has_limit: request_kind::is_over_http(context), last: 0.0 }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.to.is_some() || self.log.is_some()
    }

    /// Sends the progress of a step. Ignores other events.
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
            // A client that does not read must not keep the execution permit of its call.
            (self.to, self.log) = (None, None);
        }
    }

    async fn show_value(&mut self, value: Value) {
        if let Some(log) = &self.log {
            log.show(&value).await;
        }
        let Some((peer, token)) = &self.to else { return };
        // A value with a log level and without `progress` is only a log message.
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
        // An error means that the client has disconnected.
        let _ = peer.notify_progress(said).await;
    }
}
