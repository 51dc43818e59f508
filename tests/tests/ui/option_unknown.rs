#![allow(unused)]

use agentflow::tool;

#[tool(timeuot = "5s", colour = "red")]
async fn ask(#[tool(defualt = 5)] times: u32) {}

fn main() {
    agentflow::tools![ask];
}
