use agentflow::prelude::*;

/// Judge {text}.
#[agent]
fn judge(cx: &Context, text: String) -> agentflow::Result<String>;

fn main() {}
