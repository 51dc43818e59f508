#![allow(unused)]

use agentflow::tool;

#[tool]
fn show<T: ToString, const N: usize>(value: i64) -> String {
    value.to_string()
}

fn main() {
    agentflow::tools![show];
}
