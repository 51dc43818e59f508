#![allow(unused)]

use agentflow::tool;

#[tool]
fn distance((x, y): (f64, f64), _: f64) -> f64 {
    x + y
}

fn main() {
    agentflow::tools![distance];
}
