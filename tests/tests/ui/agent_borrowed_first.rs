use agentflow::prelude::*;

/// Judge it.
#[agent]
async fn judge(text: &str) -> agentflow::Result<String>;

fn main() {}
