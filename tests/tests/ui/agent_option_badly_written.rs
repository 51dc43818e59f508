use agentflow::prelude::*;

/// Judge {text}.
#[agent(model = 5, tools = "search", temperature = "warm", max_steps = 0, max_tokens = -1, name = "two words")]
async fn judge(cx: &Context, text: String) -> agentflow::Result<String>;

fn main() {}
