use agentflow::prelude::*;

/// Judge {text}.
#[agent]
async fn judge(cx: &Context, text: String) -> String;

fn main() {}
