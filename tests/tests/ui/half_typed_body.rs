#![allow(unused)]

use agentflow::tool;

#[tool]
fn ask(question: String) -> String {
    let length = question.
}

fn main() {
    agentflow::tools![ask];
}
