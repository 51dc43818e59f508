//! Scripted stand-ins for the models. Each computes its agent's answers from the request by a rule.

use agentflow::message::Role;
use agentflow::model::ModelRequest;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow_testing::{ScriptedModel, Turn};

/// Assigns a stand-in to each agent.
pub(crate) fn scripted(runtime: RuntimeBuilder) -> RuntimeBuilder {
    runtime
        .agent_model("summarize", ScriptedModel::from_fn(summary))
        .agent_model("annotate", ScriptedModel::from_fn(note))
        .agent_model("judge_risk", ScriptedModel::from_fn(risk))
}

/// Returns the user's message, which contains the arguments of the agent.
fn shown(request: &ModelRequest) -> String {
    request
        .messages
        .messages()
        .iter()
        .find(|message| message.role() == Role::User)
        .map_or_else(String::new, |message| message.text().into_owned())
}

fn summary(request: &ModelRequest) -> Turn {
    let diff = shown(request);
    let count = |sign: &str| {
        let is_header = |line: &str| line.starts_with(&sign.repeat(3));
        diff.lines().filter(|line| line.starts_with(sign) && !is_header(line)).count()
    };
    let part = if diff.contains("payment") { "payments" } else { "other things" };
    Turn::text(format!("a change to {part}, {} lines more and {} less", count("+"), count("-")))
}

fn note(request: &ModelRequest) -> Turn {
    let message = shown(request);
    let file = message
        .strip_prefix("The file is ")
        .and_then(|rest| rest.split(". A linter").next())
        .unwrap_or("the file");
    let look = if file.contains("test") {
        "is the zero among the cases?"
    } else {
        "what becomes of a negative amount?"
    };
    Turn::text(format!("{file}: {look}"))
}

fn risk(request: &ModelRequest) -> Turn {
    let results: Vec<String> = request
        .messages
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|result| result.output.clone())
        .collect();
    match results.first() {
        None if shown(request).contains("payments") => {
            Turn::call("search_incidents", json!({"part": "payment"}))
        }
        None => Turn::text(json!({"level": 1, "why": "nothing of value is touched"}).to_string()),
        Some(found) => Turn::text(
            json!({"level": 4, "why": format!("it went wrong before: {found}")}).to_string(),
        ),
    }
}
