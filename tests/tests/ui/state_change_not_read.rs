use agentflow::prelude::*;
use agentflow::state::StateTransform;

async fn greet(cx: &Context) -> Result<()> {
    cx.transform(StateTransform::map("greeting", "Dear {name}")).await
}

fn main() {}
