use agentflow::prelude::*;

/// Judge {text}.
#[agent]
async fn judge(cx: &Context, text: String);

fn main() {}
