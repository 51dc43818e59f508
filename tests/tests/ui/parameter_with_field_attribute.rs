#![allow(unused)]

use agentflow::tool;

#[tool]
fn ask(#[serde(rename = "type")] a: u8, #[cfg(unix)] b: u8) {}

fn main() {
    agentflow::tools![ask];
}
