use agentflow::prelude::*;

/// Judge {text}.
#[agent]
async fn judge(cx: &Context, text: &str) -> agentflow::Result<String>;

fn main() {}
