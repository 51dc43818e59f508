//! Separates thinking from the answer, if the model writes it between `<think>` and `</think>` at
//! the start of its text.
//!
//! Servers of open models leave these tags in the text unless they are configured to parse them.
//! The thinking becomes reasoning without a provider. It is displayed but never sent back, because
//! these models expect conversations without it.

use std::sync::Arc;

use agentflow_core::message::{Message, Part, Reasoning};
use agentflow_core::model::{ModelEvent, ModelResponse, StopReason};

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Converts pieces of text to pieces of reasoning and of text.
#[derive(Debug, Default)]
pub(super) struct ThinkTags {
    stage: Stage,
    /// The end of the text so far. It may be the start of a tag, or white space next to a tag.
    held: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Only white space has arrived.
    #[default]
    Start,
    Thinking,
    /// Only white space has arrived since the thinking.
    Behind,
    Answer,
}

impl ThinkTags {
    /// Processes the next piece of the text. Calls `each` with the pieces that are certainly
    /// reasoning or text.
    pub(super) fn take(&mut self, more: String, mut each: impl FnMut(ModelEvent)) {
        if self.stage == Stage::Answer {
            return each(ModelEvent::Text(more));
        }
        self.held.push_str(&more);
        if self.stage == Stage::Start {
            let text = self.held.trim_start();
            if let Some(thinking) = text.strip_prefix(OPEN) {
                (self.stage, self.held) = (Stage::Thinking, thinking.to_owned());
            // The text so far cannot become a tag, so it is the answer.
            } else if !OPEN.starts_with(text) {
                self.stage = Stage::Answer;
                return each(ModelEvent::Text(std::mem::take(&mut self.held)));
            }
        }
        if self.stage == Stage::Thinking {
            let (thinking, rest) = match self.held.split_once(CLOSE) {
                Some((thinking, rest)) => {
                    self.stage = Stage::Behind;
                    (thinking, rest)
                }
                // The last bytes are held back, because they may be the start of the closing tag.
                None => self.held.split_at(begin_of_tag(&self.held)),
            };
            if !thinking.is_empty() {
                each(ModelEvent::Reasoning(thinking.to_owned()));
            }
            self.held = rest.to_owned();
        }
        if self.stage == Stage::Behind && !self.held.trim_start().is_empty() {
            self.stage = Stage::Answer;
            each(ModelEvent::Text(std::mem::take(&mut self.held).trim_start().to_owned()));
        }
    }

    /// Ends the text. Calls `each` with the held piece.
    pub(super) fn finish(&mut self, mut each: impl FnMut(ModelEvent)) {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.stage, Stage::Answer) {
            Stage::Start if !held.is_empty() => each(ModelEvent::Text(held)),
            Stage::Thinking if !held.is_empty() => each(ModelEvent::Reasoning(held)),
            _ => {}
        }
    }
}

/// Returns the position at which the last bytes of a string may start a closing tag, or else the
/// length of the text.
fn begin_of_tag(text: &str) -> usize {
    let begins = |at: &usize| text.is_char_boundary(*at) && CLOSE.starts_with(&text[*at..]);
    (text.len().saturating_sub(CLOSE.len())..text.len()).find(begins).unwrap_or(text.len())
}

/// Moves the thinking at the start of the text to a separate part. Text without a closing tag
/// counts as thinking only if it cannot be the answer: the response was cut off, or tool calls
/// follow.
pub(super) fn separated(mut response: ModelResponse) -> ModelResponse {
    let parts = response.message.parts();
    let Some(at) = parts.iter().position(|part| !matches!(part, Part::Reasoning(_))) else {
        return response;
    };
    let Part::Text { text } = &parts[at] else { return response };
    let Some(behind) = text.trim_start().strip_prefix(OPEN) else { return response };
    let is_open =
        response.stop_reason == StopReason::Length || response.tool_calls().next().is_some();
    let (thinking, answer) = match behind.split_once(CLOSE) {
        Some((thinking, answer)) => (thinking, answer.trim_start()),
        None if is_open => (behind, ""),
        None => return response,
    };
    let mut separated = parts[..at].to_vec();
    if !thinking.is_empty() {
        separated.push(Part::Reasoning(Reasoning::new(thinking, "")));
    }
    if !answer.is_empty() {
        separated.push(Part::Text { text: answer.to_owned() });
    }
    separated.extend_from_slice(&parts[at + 1..]);
    response.message = Arc::new(Message::new(response.message.role(), separated));
    response
}
