use agentflow::prelude::*;

/// Counts.
#[tool]
fn count(to: u32) -> impl agentflow::serde::Serialize {
    to + 1
}

fn main() {}
