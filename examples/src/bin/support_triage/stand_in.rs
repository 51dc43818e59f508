//! A rule-based stand-in for a model. It sorts letters by their words, and answers with the facts
//! of the case.

use agentflow::model::ModelRequest;
use agentflow::serde_json::json;
use agentflow_testing::{ScriptedModel, Turn};

/// Sorts and answers.
pub(crate) fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request: &ModelRequest| {
        let asked = request
            .messages
            .messages()
            .iter()
            .map(|message| message.text())
            .collect::<Vec<_>>()
            .join("\n");
        match asked.split_once("how sure are you? ") {
            Some((_, letter)) => Turn::text(sorted(letter.trim()).to_string()),
            None => {
                let case =
                    asked.split_once("if there is one. ").map_or(&*asked, |(_, case)| case.trim());
                Turn::text(format!("Thank you for your letter. We look into it: {case}"))
            }
        }
    })
}

fn sorted(letter: &str) -> agentflow::serde_json::Value {
    let has = |words: &[&str]| words.iter().any(|word| letter.to_lowercase().contains(word));
    let (intent, confidence) = match letter {
        _ if has(&["charge", "bill", "money", "refund"]) => ("billing", 0.9),
        _ if has(&["broken", "fault", "crash"]) => ("fault", 0.8),
        _ if has(&["?"]) => ("question", 0.9),
        _ => ("question", 0.2),
    };
    json!({"intent": intent, "confidence": confidence, "summary": letter})
}
