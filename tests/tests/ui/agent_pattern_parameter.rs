use agentflow::prelude::*;

/// Judge it.
#[agent]
async fn judge((text, level): (String, u8), _: u8, mut more: String) -> agentflow::Result<String>;

fn main() {}
