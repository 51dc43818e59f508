#![allow(unused)]

use agentflow::tool;

#[tool]
unsafe extern "C" fn ask(a: i64) -> i64 {
    a
}

fn main() {
    agentflow::tools![ask];
}
