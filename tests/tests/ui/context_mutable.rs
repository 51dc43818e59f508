#![allow(unused)]

use agentflow::{Context, tool};

#[tool]
fn ask(cx: &mut Context) {}

fn main() {
    agentflow::tools![ask];
}
