use agentflow::prelude::*;

struct City {
    name: String,
}

fn main() {
    let _ = Agent::new("openai/gpt-5-mini").output::<City>();
}
