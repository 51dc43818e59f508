use agentflow::prelude::*;

#[agent]
async fn judge(cx: &Context, text: String) -> agentflow::Result<String>;

fn main() {}
