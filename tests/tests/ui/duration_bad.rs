#![allow(unused)]

use agentflow::tool;

#[tool(timeout = "5 parsecs")]
async fn one() {}

#[tool(timeout = "0s")]
async fn two() {}

#[tool(timeout = 5)]
async fn three() {}

fn main() {
    agentflow::tools![one, two, three];
}
