#![allow(unused)]

use agentflow::tool;

#[tool(blocking)]
async fn ask() {}

fn main() {
    agentflow::tools![ask];
}
