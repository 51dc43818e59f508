use agentflow::prelude::*;

struct Change {
    title: String,
}

/// Judge {change}, and again {change}.
#[agent]
async fn judge(cx: &Context, change: Change, unused: Change) -> agentflow::Result<String>;

fn main() {}
