use agentflow::prelude::*;

/// Add.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn main() {
    let _ = Agent::new("openai/gpt-5-mini").tools(add);
}
