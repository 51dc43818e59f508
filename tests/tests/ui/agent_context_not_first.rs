use agentflow::prelude::*;

/// Judge {text}.
#[agent]
async fn judge(text: String, cx: &Context) -> agentflow::Result<String>;

fn main() {}
