#![allow(unused)]

use agentflow::{agent, tool, tools};

#[tool]
fn weather(city: String) -> String {
    city
}

mod shop {
    pub fn price() {}
}

/// Helps.
#[agent(tools = [wether])]
async fn help(question: String) -> agentflow::Result<String>;

fn main() {
    tools![wether];
    tools![shop::prise];
}
