//! Renders requests as readable lines, one for each part of each message.
//!
//! [`Turn::expect_conversation`](crate::Turn::expect_conversation) compares these lines, so their
//! format is part of the public API.

use agentflow::__private::OneLine;
use agentflow::Message;
use agentflow::message::{Part, Role};
use agentflow::model::ModelRequest;

/// Maximum number of messages of a conversation that a failure shows.
const SHOWN: usize = 12;

/// Returns one line for each part of each message.
pub(crate) fn conversation_lines<'m>(
    messages: impl IntoIterator<Item = &'m Message>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for message in messages {
        let who = role(message.role());
        for part in message.parts() {
            let line = match part {
                Part::Text { text } => format!("{who}: {text}"),
                Part::Reasoning(reasoning) => format!("{who} thinks: {}", reasoning.text),
                Part::ToolCall(call) => format!("{who} calls {} {}", call.name, call.arguments),
                Part::ToolResult(result) if result.status.is_success() => {
                    format!("{who} {}: {}", result.name, result.output)
                }
                Part::ToolResult(result) => {
                    format!("{who} {} failed ({}): {}", result.name, result.status, result.output)
                }
                Part::Media(media) => {
                    format!(
                        "{who} shows {} {}",
                        media.mime_type,
                        media.name.as_deref().unwrap_or("without a name")
                    )
                }
                _ => format!("{who} says something this release of agentflow-testing cannot show"),
            };
            lines.push(one_line(&line));
        }
    }
    lines
}

/// Returns the last messages of a request, indented, for a failure message.
pub(crate) fn request_text(request: &ModelRequest) -> String {
    let messages = request.messages.messages();
    let lines = conversation_lines(
        messages[messages.len().saturating_sub(SHOWN)..].iter().map(|message| &**message),
    );
    let left_out = messages.len().saturating_sub(SHOWN);
    let mut text = String::from("the request was:");
    if left_out > 0 {
        text.push_str(&format!("\n    ({left_out} earlier messages)"));
    }
    if lines.is_empty() {
        text.push_str("\n    (no messages)");
    }
    for line in lines {
        text.push_str("\n    ");
        text.push_str(&line);
    }
    text
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        _ => "somebody",
    }
}

/// Escapes line breaks as `\n`, so that each part stays on one line, and escapes other characters
/// that control a terminal.
pub(crate) fn one_line(text: &str) -> String {
    OneLine(text).to_string()
}
