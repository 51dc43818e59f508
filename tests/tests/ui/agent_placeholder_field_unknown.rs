use agentflow::prelude::*;

struct Change {
    title: String,
}

/// Judge this change:
/// {change.titel}
#[agent]
async fn judge(cx: &Context, change: Change) -> agentflow::Result<String>;

fn main() {}
