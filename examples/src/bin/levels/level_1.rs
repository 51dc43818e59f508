//! Level 1: a function as a tool. The model decides when to call it.

use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow_testing::{ScriptedModel, Turn};

/// Say how warm it is in a town, in degrees Celsius.
#[tool(effects = "read")]
fn temperature(town: String) -> i32 {
    town.len() as i32
}

pub(crate) async fn run() -> Result<String> {
    let model = ScriptedModel::new([
        Turn::call("temperature", json!({"town": "Oslo"})),
        Turn::with(|request| {
            Turn::text(format!("In Oslo it is {} degrees.", last_result(request)))
        }),
    ]);
    let answer =
        Agent::new(model).tools(tools![temperature]).run("How warm is it in Oslo?").await?;
    Ok(answer.to_string())
}

/// Returns the output of the last tool call in a conversation.
fn last_result(request: &agentflow::model::ModelRequest) -> String {
    let last = request.messages.last().and_then(|message| message.results().next());
    last.map(|result| result.output.clone()).unwrap_or_default()
}
