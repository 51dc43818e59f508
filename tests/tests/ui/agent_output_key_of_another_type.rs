use agentflow::prelude::*;

static LENGTH: StateKey<u32> = StateKey::session("length");

/// Say something.
#[agent(model = "openai/gpt-5-mini", output_key = LENGTH)]
async fn say(cx: &Context) -> Result<String>;

fn main() {}
