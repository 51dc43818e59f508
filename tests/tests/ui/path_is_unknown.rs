#![allow(unused)]

use agentflow::{tool, tools};

#[tool]
fn weather(city: String) -> String {
    city
}

fn main() {
    tools![wether];
}
