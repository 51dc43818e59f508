//! Scripted stand-ins for the models. Each computes its agent's answers from the request by a rule.

use agentflow::message::Role;
use agentflow::model::ModelRequest;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow_testing::{ScriptedModel, Turn};

use super::board::last_word;

/// Assigns a stand-in to each agent.
pub(crate) fn scripted(runtime: RuntimeBuilder) -> RuntimeBuilder {
    runtime
        .agent_model("planner", ScriptedModel::from_fn(plan))
        .agent_model("specialist", ScriptedModel::from_fn(opinion))
        .agent_model("judge", ScriptedModel::from_fn(verdict))
        .resource(
            last_word(ScriptedModel::from_fn(decision), ScriptedModel::from_fn(of_the_owner))
                .expect("two agents"),
        )
}

/// Returns the user's message, which contains the arguments of the agent.
fn shown(request: &ModelRequest) -> String {
    let first = request.messages.messages().iter().find(|message| message.role() == Role::User);
    first.map_or_else(String::new, |message| message.text().into_owned())
}

fn plan(request: &ModelRequest) -> Turn {
    let proposal = shown(request);
    let question = |by: &str, question: &str| json!({"by": by, "question": question});
    let mut assignments =
        vec![question("research", "What do others do?"), question("coding", "What has to change?")];
    if proposal.contains("today") {
        assignments.push(question("qa", "How is it tested?"));
    }
    Turn::text(json!({"assignments": assignments}).to_string())
}

/// At first, research gives no figure and coding does not name a reason to change its mind. QA
/// never names one.
fn opinion(request: &ModelRequest) -> Turn {
    let shown = shown(request);
    let is = |by: &str| {
        shown.contains(&format!("You are: {by}.")) || shown.contains(&format!("You are: \"{by}\"."))
    };
    let is_refused =
        shown.contains("it names a figure: ") || shown.contains("what would change its mind: ");
    let has_remarked =
        request.messages.messages().iter().any(|message| message.results().next().is_some());
    let answer = |in_favour: bool, text: &str| {
        Turn::text(json!({"in_favour": in_favour, "text": text}).to_string())
    };
    match (is("research"), is("coding")) {
        (true, _) if !is_refused => {
            answer(true, "Others cache it. A counterexample would change my mind.")
        }
        (true, _) => answer(true, "4 of 5 shops cache it. A counterexample would change my mind."),
        (_, true) if !has_remarked && !is_refused => {
            Turn::call("remark", json!({"by": "coding", "text": "the list has 2 writers"}))
        }
        (_, true) if !is_refused => answer(false, "It is 40 lines in 2 files."),
        (_, true) => {
            answer(true, "It is 40 lines in 2 files. A third writer would change my mind.")
        }
        _ => answer(false, "3 tests are missing."),
    }
}

fn verdict(request: &ModelRequest) -> Turn {
    let met = shown(request).contains("would change my mind");
    let why = if met { "it says so" } else { "it says nothing of that" };
    Turn::text(json!({"met": met, "why": why}).to_string())
}

/// Decides if all criteria are met, and hands off to the owner otherwise.
fn decision(request: &ModelRequest) -> Turn {
    match shown(request).contains(r#""not_met":[]"#) {
        true => Turn::text(json!({"accept": true, "why": "all criteria are met"}).to_string()),
        false => Turn::call("transfer_to_agent", json!({"agent": "owner"})),
    }
}

/// Answers as the owner, who sees the conversation of the arbiter.
fn of_the_owner(request: &ModelRequest) -> Turn {
    let is_seen = shown(request).contains("qa: it says what would change its mind");
    let why = if is_seen { "an opinion was not good enough" } else { "nothing was handed on" };
    Turn::text(json!({"accept": false, "why": why}).to_string())
}
