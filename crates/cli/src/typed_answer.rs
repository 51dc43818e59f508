//! Converts a typed answer to the JSON that a question expects. Validation is left to the run.

use serde_json::Value;

use agentflow_core::__private::extension::split_question_id;
use agentflow_core::error::Result;
use agentflow_core::event::{Event, EventKind, RunId};
use agentflow_core::runtime::Runtime;
use agentflow_core::value::Encoded;

/// Type of answer that a question expects.
pub(super) enum Asked {
    /// An approval: yes or no.
    Approval,
    /// A choice between several strings.
    Choice(Vec<String>),
    Text,
    /// Any other JSON value.
    Other,
}

impl Asked {
    /// Determines the type from the schema of the answer.
    pub(super) fn of(schema: &Encoded) -> Self {
        let schema: Value = schema.decode().unwrap_or_default();
        let choices = || {
            schema["enum"].as_array()?.iter().map(|one| Some(one.as_str()?.to_owned())).collect()
        };
        match choices() {
            Some(choices) => Self::Choice(choices),
            None if schema["title"] == "Approval" => Self::Approval,
            None if schema["type"] == "string" => Self::Text,
            None => Self::Other,
        }
    }

    /// Returns the prompt for the answer.
    pub(super) fn prompt(&self) -> &'static str {
        match self {
            Self::Approval => "yes or no? ",
            Self::Choice(_) => "which? ",
            Self::Text => "answer: ",
            Self::Other => "answer, as JSON: ",
        }
    }

    /// Converts a typed line: a choice by its text or number, a string unchanged, other types as
    /// JSON.
    ///
    /// # Errors
    /// If the line is not valid JSON.
    pub(super) fn read(&self, line: &str) -> Result<Encoded, serde_json::Error> {
        match self {
            Self::Choice(choices) => {
                let number = line
                    .trim()
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| choices.get(number.checked_sub(1)?));
                // A choice may itself be a number; its text takes precedence over the position.
                let is_one = choices.iter().any(|choice| choice == line.trim());
                Encoded::new(&number.filter(|_| !is_one).map_or(line.trim(), String::as_str))
            }
            Self::Text => Encoded::new(&line),
            Self::Approval | Self::Other => Encoded::from_json(line.to_owned()),
        }
    }
}

/// Finds the newest question at a path or with an id. Returns its answer type and id. If the
/// journal has no such question, returns the type approval and the name itself; answering it then
/// fails with an error of the run.
pub(super) async fn asked_at(
    runtime: &Runtime,
    run: &RunId,
    name: &str,
) -> Result<(Asked, String)> {
    let journal = runtime.run(run).journal().await?;
    let (path, id) = split_question_id(name);
    let question = |event: &Event| match &event.kind {
        EventKind::ApprovalRequested(question)
            if event.path.to_string() == path && id.is_none_or(|id| *id == *question.id) =>
        {
            Some((Asked::of(&question.answer), question.id_at(&path)))
        }
        _ => None,
    };
    Ok(journal
        .iter()
        .rev()
        .find_map(question)
        .unwrap_or_else(|| (Asked::Approval, name.to_owned())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_the_answer_that_is_asked_for() {
        let read = |schema: Value, line: &str| {
            let asked = Asked::of(&Encoded::new(&schema).unwrap());
            asked.read(line).map(|answer| answer.to_string()).map_err(|_| "no JSON")
        };
        let choices = json!({"type": "string", "enum": ["window", "aisle"]});
        assert_eq!(read(choices.clone(), " aisle").unwrap(), r#""aisle""#);
        assert_eq!(read(choices.clone(), "1").unwrap(), r#""window""#);
        assert_eq!(read(choices, "3").unwrap(), r#""3""#);
        assert_eq!(read(json!({"type": "string"}), "42").unwrap(), r#""42""#);
        assert_eq!(read(json!({"type": "integer"}), "42").unwrap(), "42");
        assert_eq!(read(json!({"type": "integer"}), "many"), Err("no JSON"));
    }
}
