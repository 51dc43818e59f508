#![allow(unused)]

use agentflow::{Context, tool};

#[tool]
fn ask(cx: Context, question: String) -> String {
    question
}

fn main() {
    agentflow::tools![ask];
}
