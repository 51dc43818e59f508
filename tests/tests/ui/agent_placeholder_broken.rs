use agentflow::prelude::*;

/// Judge {summary:?} as {"level": 3}
/// or as { summary }
/// or as {
/// or as }
/// or as {user:name} {app:} {}
#[agent]
async fn judge(cx: &Context, summary: String) -> agentflow::Result<String>;

fn main() {}
