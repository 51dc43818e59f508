use agentflow::prelude::*;

/// Judge {summray}.
#[agent(modle = "openai/gpt-5-mini")]
fn judge<T>(cx: &mut Context, summary: &str) -> agentflow::Result<T> {
    panic!("a body that an agent cannot have: {summary}")
}

fn main() {
    // The rest of the program is judged as if the agent were there.
    let _ = judge::definition();
}
