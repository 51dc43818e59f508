#![allow(unused)]

use agentflow::tool;

#[tool]
fn shout(text: &str) -> String {
    text.to_uppercase()
}

fn main() {
    agentflow::tools![shout];
}
