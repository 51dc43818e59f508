use agentflow::prelude::*;

/// You are a release manager.
/// Judge {sumary} of {cx}.
/// Nothing is wrong on this line: {summary}.
/// Here it is: {level}.
#[agent]
async fn judge(cx: &Context, summary: String) -> agentflow::Result<String>;

fn main() {}
