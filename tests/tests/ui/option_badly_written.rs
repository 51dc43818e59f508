#![allow(unused)]

use agentflow::tool;

#[tool(name, retry = "3", idempotent = true, scopes(), effects = "reed", max_output = "64kb", crate = "agentflow")]
fn ask(#[tool] a: u8, #[tool(rename = 5)] b: u8) {}

fn main() {
    agentflow::tools![ask];
}
