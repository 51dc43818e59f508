#![allow(unused)]

use agentflow::tool;

#[tool]
#[derive(Debug)]
pub struct Weather {
    city: String,
}

fn main() {
    let _ = Weather { city: String::new() };
}
