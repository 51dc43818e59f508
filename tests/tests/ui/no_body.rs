#![allow(unused)]

use agentflow::tool;

#[tool]
async fn ask(question: String) -> String;

fn main() {
    agentflow::tools![ask];
}
