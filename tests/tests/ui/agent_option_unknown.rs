use agentflow::prelude::*;

/// Judge {text}.
#[agent(modle = "openai/gpt-5-mini", retries = 3)]
async fn judge(cx: &Context, text: String) -> agentflow::Result<String>;

fn main() {}
