//! `Prompt`: the instruction and message of a call of an `#[agent]`, built from its arguments.
//! Values of the application are inserted when the runtime is known.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::message::{Conversation, Message};

/// User message of an agent without data. Providers reject a conversation without a user message.
const BEGIN: &str = "Begin.";

/// User message if all data in it is blank. Providers reject an empty message.
const BLANK: &str = "\"\"";

/// Instruction and message of a call, before values of the application are inserted.
#[derive(Default)]
pub(super) struct Prompt {
    instruction: Vec<Piece>,
    /// The paragraphs that show arguments. `None` while the instruction is being built.
    message: Option<Vec<Piece>>,
    /// The arguments that no placeholder shows, as fields of an unclosed JSON object.
    arguments: String,
    problem: Option<String>,
}

enum Piece {
    Text(String),
    App { key: &'static str, optional: bool },
}

/// The rendered instruction and message.
pub(super) struct RenderedPrompt {
    pub(super) instruction: Option<String>,
    pub(super) message: String,
}

impl Prompt {
    /// Starts the user's message. Further parts are added to it.
    pub(super) fn begin_message(&mut self) {
        self.message = Some(Vec::new());
    }

    pub(super) fn text(&mut self, text: &str) {
        let pieces = self.message.as_mut().unwrap_or(&mut self.instruction);
        match pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => pieces.push(Piece::Text(text.to_owned())),
        }
    }

    /// Adds a value: a string as it is, any other value as JSON.
    pub(super) fn value(&mut self, path: &str, json: &Result<String, String>) {
        if let Some(json) = self.json(path, json) {
            let shown = shown(json);
            self.text(&shown);
        }
    }

    pub(super) fn app(&mut self, key: &'static str, optional: bool) {
        self.message.as_mut().unwrap_or(&mut self.instruction).push(Piece::App { key, optional });
    }

    /// Adds an argument that no placeholder shows.
    pub(super) fn argument(&mut self, name: &str, json: &Result<String, String>) {
        if let Some(json) = self.json(name, json) {
            self.arguments.push_str(if self.arguments.is_empty() { "{" } else { "," });
            self.arguments.push_str(&format!("{name:?}:{json}"));
        }
    }

    fn json<'j>(&mut self, path: &str, json: &'j Result<String, String>) -> Option<&'j str> {
        match json {
            Ok(json) => Some(json),
            Err(problem) => {
                self.problem.get_or_insert_with(|| {
                    format!("its argument `{path}` has no JSON form: {problem}")
                });
                None
            }
        }
    }

    /// `true` if the prompt contributes to the user's message.
    pub(super) fn asks(&self) -> bool {
        self.message.is_some() || !self.arguments.is_empty()
    }

    /// Returns the rendered instruction and message, or an error message if a value is missing or
    /// has no JSON form.
    pub(super) fn rendered(&self, app: &BTreeMap<String, Value>) -> Result<RenderedPrompt, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let instruction = Some(filled(&self.instruction, app)?).filter(|text| !text.is_empty());
        let arguments = match self.arguments.is_empty() {
            true => None,
            false => Some(format!("{}}}", self.arguments)),
        };
        let message = self.message.as_ref().map(|pieces| filled(pieces, app)).transpose()?;
        let message = match (message, arguments) {
            (None, None) => BEGIN.to_owned(),
            (None, Some(arguments)) => arguments,
            (Some(message), Some(arguments)) => format!("{message}\n\n{arguments}"),
            (Some(message), None) if message.trim().is_empty() => BLANK.to_owned(),
            (Some(message), None) => message,
        };
        Ok(RenderedPrompt { instruction, message })
    }
}

/// Returns the message of an agent without a prompt and without input.
pub(super) fn begin() -> Conversation {
    Message::user(BEGIN).into()
}

fn filled(pieces: &[Piece], app: &BTreeMap<String, Value>) -> Result<String, String> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::App { key, optional } => match app.get(*key) {
                Some(Value::String(value)) => text.push_str(value),
                Some(value) => text.push_str(&value.to_string()),
                None if *optional => {}
                None => {
                    return Err(format!(
                        "it shows `{{app:{key}}}`, and its runtime has no such value; give it one with \
                         `Runtime::builder().app(\"{key}\", ..)`, or write `{{app:{key}?}}` to show nothing then"
                    ));
                }
            },
        }
    }
    Ok(text)
}

/// Returns a string without its quotes, any other value unchanged.
fn shown(json: &str) -> String {
    match json.starts_with('"').then(|| serde_json::from_str::<String>(json)) {
        Some(Ok(string)) => string,
        _ => json.to_owned(),
    }
}
