use agentflow::prelude::*;

struct Change {
    title: Title,
}

struct Title;

/// Judge this change:
/// {change.title}
#[agent]
async fn judge(cx: &Context, change: Change) -> agentflow::Result<String>;

fn main() {}
