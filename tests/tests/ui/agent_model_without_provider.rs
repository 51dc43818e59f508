use agentflow::prelude::*;

/// Judge {text}.
#[agent(model = "qwen3-8b")]
async fn judge(cx: &Context, text: String) -> agentflow::Result<String>;

/// Judge {text}.
#[agent(model = "openai/")]
async fn judge_again(cx: &Context, text: String) -> agentflow::Result<String>;

fn main() {}
