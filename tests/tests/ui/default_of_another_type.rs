#![allow(unused)]

use agentflow::tool;

#[tool]
fn ask(#[tool(default = "ten")] limit: u32) {}

fn main() {
    agentflow::tools![ask];
}
