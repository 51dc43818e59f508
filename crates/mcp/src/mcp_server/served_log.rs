//! Sends values that a call emits as log messages, if the client has requested messages of their
//! level. It does not affect the result of the call.
#![expect(
    deprecated,
    reason = "the newest revision deprecates the log, and the one before it has nothing else"
)]

use agentflow_schema::text::head;
use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;

use super::request_kind;

/// Maximum number of bytes of a message.
const MOST_DATA: usize = 4096;

/// Minimum level of the messages that a client wants.
#[derive(Clone, Copy)]
pub(super) struct LogLevel(LoggingLevel);

impl From<LoggingLevel> for LogLevel {
    fn from(level: LoggingLevel) -> Self {
        Self(level)
    }
}

/// Sends the log messages of one call to the client.
pub(super) struct LogSender {
    to: Option<(Peer<RoleServer>, LogLevel)>,
    logger: String,
}

impl LogSender {
    /// Creates the sender. `of_connection` is the level that the client has set for its connection.
    /// A client without a handshake sends the level with each request instead. `logger` is the name
    /// of the called tool, agent or workflow.
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        of_connection: Option<LogLevel>,
        logger: &str,
    ) -> Self {
        let level = match request_kind::is_without_handshake(context) {
            true => context.meta.log_level().map(LogLevel),
            false => of_connection,
        };
        Self { to: level.map(|level| (context.peer.clone(), level)), logger: logger.to_owned() }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// Sends an emitted value if it is a log message of a wanted level.
    pub(super) async fn show(&self, value: &Value) {
        let (Some((peer, from)), Some((level, data))) = (&self.to, message(value)) else { return };
        if level as u8 >= from.0 as u8 {
            let said = LoggingMessageNotificationParam::new(level, data).with_logger(&self.logger);
            // An error means that the client has disconnected.
            let _ = peer.notify_logging_message(said).await;
        }
    }
}

/// Returns `true` if the value is a log message: an object with a valid `level`.
pub(super) fn is_message(value: &Value) -> bool {
    level(value).is_some()
}

fn level(value: &Value) -> Option<LoggingLevel> {
    serde_json::from_value(value.get("level")?.clone()).ok()
}

/// Returns the level and the data of a message. The data is its field `message`, or an object if
/// the message has other fields.
fn message(value: &Value) -> Option<(LoggingLevel, Value)> {
    let level = level(value)?;
    let mut data = value.as_object()?.clone();
    data.remove("level");
    let data = match (data.len(), data.get("message")) {
        (1, Some(message)) => message.clone(),
        _ => Value::Object(data),
    };
    let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
    let data = if text.len() > MOST_DATA {
        Value::String(head(&text, MOST_DATA).to_owned())
    } else {
        data
    };
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
        for none in [
            json!("info"),
            json!({"message": "x"}),
            json!({"level": 3}),
            json!({"level": "loud"}),
            json!(null),
        ] {
            assert!(message(&none).is_none(), "{none}");
        }
        let (_, data) = message(&json!({"level": "info", "message": "x".repeat(10_000)})).unwrap();
        assert!(data.as_str().unwrap().len() == MOST_DATA, "{data}");
    }

    #[test]
    fn levels_have_the_order_of_the_protocol() {
        let names =
            ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let levels = names.map(|name| level(&json!({"level": name})).unwrap() as u8);
        assert!(levels.is_sorted_by(|one, other| one < other), "{levels:?}");
    }
}
