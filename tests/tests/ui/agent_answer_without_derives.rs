use agentflow::prelude::*;

struct Risk {
    level: u8,
}

/// Judge {text}.
#[agent]
async fn judge(cx: &Context, text: String) -> agentflow::Result<Risk>;

fn main() {}
