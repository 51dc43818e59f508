//! Level 0: a question to a model.

use agentflow::prelude::*;
use agentflow_testing::{ScriptedModel, Turn};

pub(crate) async fn run() -> Result<String> {
    let model = ScriptedModel::new([Turn::text("Oslo.")]);
    let answer = Agent::new(model).run("What is the capital of Norway?").await?;
    Ok(answer.to_string())
}
