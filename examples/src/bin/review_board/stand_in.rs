//! Stand-ins for the models: each computes its agent's answers from what it is shown by a rule.

use agentflow::message::Role;
use agentflow::model::ModelRequest;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow_testing::{ScriptedModel, Turn};

/// Gives each agent its stand-in.
pub(crate) fn scripted(runtime: RuntimeBuilder) -> RuntimeBuilder {
    runtime
        .agent_model("planner", ScriptedModel::from_fn(plan))
        .agent_model("specialist", ScriptedModel::from_fn(opinion))
        .agent_model("judge", ScriptedModel::from_fn(verdict))
        .agent_model("arbiter", ScriptedModel::from_fn(decision))
}

/// The user's message, which shows what the agent was called with.
fn shown(request: &ModelRequest) -> String {
    let first = request.messages.messages().iter().find(|message| message.role() == Role::User);
    first.map_or_else(String::new, |message| message.text().into_owned())
}

fn plan(request: &ModelRequest) -> Turn {
    let proposal = shown(request);
    let question = |by: &str, question: &str| json!({"by": by, "question": question});
    let mut assignments = vec![question("cost", "What does it cost?"), question("safety", "What may go wrong?")];
    if proposal.contains("night") {
        assignments.push(question("operations", "Who does it, and when?"));
    }
    Turn::text(json!({"assignments": assignments}).to_string())
}

/// At first the cost has no figure, and safety does not say what would change its mind. Operations never does.
fn opinion(request: &ModelRequest) -> Turn {
    let shown = shown(request);
    let is = |by: &str| shown.contains(&format!("You are: {by}.")) || shown.contains(&format!("You are: \"{by}\"."));
    let is_refused = shown.contains("it names a figure: ") || shown.contains("what would change its mind: ");
    let has_remarked = request.messages.messages().iter().any(|message| message.results().next().is_some());
    let answer = |in_favour: bool, text: &str| Turn::text(json!({"in_favour": in_favour, "text": text}).to_string());
    match (is("cost"), is("safety")) {
        (true, _) if !is_refused => answer(true, "It is cheap. A new offer would change my mind."),
        (true, _) => answer(true, "It costs 120 a year. A new offer would change my mind."),
        (_, true) if !has_remarked && !is_refused => {
            Turn::call("remark", json!({"by": "safety", "text": "the cellar floods every 10 years"}))
        }
        (_, true) if !is_refused => answer(false, "2 of 9 sites had an outage."),
        (_, true) => answer(true, "2 of 9 sites had an outage. A third one would change my mind."),
        _ => answer(false, "One person for 3 nights."),
    }
}

fn verdict(request: &ModelRequest) -> Turn {
    let met = shown(request).contains("would change my mind");
    let why = if met { "it says so" } else { "it says nothing of that" };
    Turn::text(json!({"met": met, "why": why}).to_string())
}

fn decision(request: &ModelRequest) -> Turn {
    let shown = shown(request);
    let is_whole = !shown.contains("operations: it says");
    let why = if is_whole { "all criteria are met" } else { "one opinion was not good enough" };
    Turn::text(json!({"accept": is_whole, "why": why}).to_string())
}
