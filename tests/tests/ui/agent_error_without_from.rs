use agentflow::prelude::*;

struct Mine;

/// Judge {text}.
#[agent]
async fn judge(cx: &Context, text: String) -> Result<String, Mine>;

fn main() {}
