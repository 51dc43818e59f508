#![allow(unused)]

use agentflow::tool;

struct Shop;

impl Shop {
    #[tool]
    fn price(&self, item: String) -> u32 {
        0
    }
}

fn main() {}
