#![allow(unused)]

use agentflow::{Context, tool};

#[tool]
fn ask(question: String, cx: &Context) -> String {
    question
}

fn main() {
    agentflow::tools![ask];
}
