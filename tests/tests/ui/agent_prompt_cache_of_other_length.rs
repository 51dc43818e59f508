use agentflow::prelude::*;

/// Judge {text}.
#[agent(prompt_cache = "30m")]
async fn judge(text: String) -> agentflow::Result<String>;

fn main() {}
