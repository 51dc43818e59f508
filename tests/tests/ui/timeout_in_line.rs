#![allow(unused)]

use agentflow::tool;

#[tool(timeout = "5s")]
fn ask() {}

fn main() {
    agentflow::tools![ask];
}
