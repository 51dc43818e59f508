#![allow(unused)]

use agentflow::tool;

#[derive(Debug)]
enum MyError {}

#[tool]
fn ask() -> Result<String, MyError> {
    Ok(String::new())
}

fn main() {
    agentflow::tools![ask];
}
