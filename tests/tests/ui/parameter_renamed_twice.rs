#![allow(unused)]

use agentflow::tool;

#[tool]
fn ask(a: u8, #[tool(rename = "a")] b: u8) {}

fn main() {
    agentflow::tools![ask];
}
