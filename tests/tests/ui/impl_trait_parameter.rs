#![allow(unused)]

use agentflow::tool;

#[tool]
fn show(value: impl ToString) -> String {
    value.to_string()
}

fn main() {
    agentflow::tools![show];
}
