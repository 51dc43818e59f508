//! Level 2: an agent as a function, with arguments and a typed answer. Its doc comment is its
//! instruction.

use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow_testing::{ScriptedModel, Turn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Advice {
    /// What to wear.
    wear: String,
    umbrella: bool,
}

/// Say what to wear in {town} when it has {degrees} degrees.
#[agent(model = "openai/gpt-5-mini")]
async fn advise(cx: &Context, town: String, degrees: i32) -> Result<Advice>;

pub(crate) async fn run() -> Result<String> {
    let model =
        ScriptedModel::new([Turn::text(json!({"wear": "a coat", "umbrella": true}).to_string())]);
    let runtime = Runtime::builder().model(model).build();
    let advice = advise(&runtime.context(), "Oslo".to_owned(), 4).await?;
    let umbrella = if advice.umbrella { "with" } else { "without" };
    Ok(format!("{} {umbrella} an umbrella", advice.wear))
}
