//! What a call emits as a message of the log, when its client has asked for messages of its level. It asks nothing and changes
//! no result.
#![expect(deprecated, reason = "the newest revision deprecates the log, and the one before it has nothing else")]

use agentflow_schema::text::head;
use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;

use super::request_kind;

/// The most bytes of a message.
const MOST_DATA: usize = 4096;

/// From which level on a client wants messages.
#[derive(Clone, Copy)]
pub(super) struct LogLevel(LoggingLevel);

impl From<LoggingLevel> for LogLevel {
    fn from(level: LoggingLevel) -> Self {
        Self(level)
    }
}

/// The messages of one call, for its client.
pub(super) struct ShownLog {
    to: Option<(Peer<RoleServer>, LogLevel)>,
    logger: String,
}

impl ShownLog {
    /// `of_connection` is the level that the client has set for its connection; a client without a handshake says it in each
    /// request. `logger` is what was called.
    pub(super) fn of(context: &RequestContext<RoleServer>, of_connection: Option<LogLevel>, logger: &str) -> Self {
        let level = match request_kind::is_without_handshake(context) {
            true => context.meta.log_level().map(LogLevel),
            false => of_connection,
        };
        Self { to: level.map(|level| (context.peer.clone(), level)), logger: logger.to_owned() }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// Shows what a step has emitted, when that is a message and the client wants it.
    pub(super) async fn show(&self, value: &Value) {
        let (Some((peer, from)), Some((level, data))) = (&self.to, message(value)) else { return };
        if level as u8 >= from.0 as u8 {
            let said = LoggingMessageNotificationParam::new(level, data).with_logger(&self.logger);
            // Whoever does not take it has gone.
            let _ = peer.notify_logging_message(said).await;
        }
    }
}

/// Whether what was emitted is a message of the log: an object with one of the protocol's levels.
pub(super) fn is_message(value: &Value) -> bool {
    level(value).is_some()
}

fn level(value: &Value) -> Option<LoggingLevel> {
    serde_json::from_value(value.get("level")?.clone()).ok()
}

/// The level and the data of a message: its `message` when it has nothing else, else all other fields.
fn message(value: &Value) -> Option<(LoggingLevel, Value)> {
    let level = level(value)?;
    let mut data = value.as_object()?.clone();
    data.remove("level");
    let data = match (data.len(), data.get("message")) {
        (1, Some(message)) => message.clone(),
        _ => Value::Object(data),
    };
    let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
    let data = if text.len() > MOST_DATA { Value::String(head(&text, MOST_DATA).to_owned()) } else { data };
    Some((level, data))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_with_a_level_is_a_message() {
        let (level, data) = message(&json!({"level": "warning", "message": "low"})).unwrap();
        assert_eq!((level, data), (LoggingLevel::Warning, json!("low")));
        let (_, data) = message(&json!({"level": "info", "message": "low", "left": 3})).unwrap();
        assert_eq!(data, json!({"message": "low", "left": 3}));
        for none in [json!("info"), json!({"message": "x"}), json!({"level": 3}), json!({"level": "loud"}), json!(null)]
        {
            assert!(message(&none).is_none(), "{none}");
        }
        let (_, data) = message(&json!({"level": "info", "message": "x".repeat(10_000)})).unwrap();
        assert!(data.as_str().unwrap().len() == MOST_DATA, "{data}");
    }

    #[test]
    fn levels_have_the_order_of_the_protocol() {
        let names = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let levels = names.map(|name| level(&json!({"level": name})).unwrap() as u8);
        assert!(levels.is_sorted_by(|one, other| one < other), "{levels:?}");
    }
}
