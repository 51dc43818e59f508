use agentflow::prelude::*;

/// Judge {text}.
#[agent]
async fn judge<T>(text: T) -> agentflow::Result<String>;

fn main() {}
