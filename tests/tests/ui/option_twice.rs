#![allow(unused)]

use agentflow::tool;

#[tool(retry = 1, idempotent, retry = 2)]
fn ask(
    #[tool(default = 5)]
    #[tool(default = 6)]
    times: u32,
) {
}

fn main() {
    agentflow::tools![ask];
}
