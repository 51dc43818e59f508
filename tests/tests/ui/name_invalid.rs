#![allow(unused)]

use agentflow::tool;

#[tool(name = "find order")]
fn find_order(größe: u32, #[tool(rename = "")] b: u32) {}

#[tool]
fn größe() {}

fn main() {
    agentflow::tools![find_order, größe];
}
