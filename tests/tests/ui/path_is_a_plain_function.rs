#![allow(unused)]

use agentflow::{agent, tools};

mod shop {
    pub fn price(item: String) -> u32 {
        0
    }
}

fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Help.
#[agent(tools = [add, shop::price])]
async fn help(question: String) -> agentflow::Result<String>;

fn main() {
    fn local() {}
    tools![add, shop::price, local];
    tools![shop::price::<u32>];
    tools![add()];
}
