use agentflow::prelude::*;

/// Judge {text}.
#[agent]
async fn judge(cx: &Context, text: String) -> agentflow::Result<String> {
    Ok(text)
}

fn main() {}
