#![allow(dead_code, clippy::trait_duplication_in_bounds)]

use agentflow::Result;
use agentflow::prelude::*;

struct Desk;

impl Desk {
    #[tool]
    fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    /// Judge the risk.
    #[agent]
    pub async fn judge(text: String) -> Result<String>;

    #[workflow]
    async fn review(text: String) -> Result<String> {
        Ok(text)
    }
}

trait Shop {
    #[tool]
    fn price(item: String) -> u32 {
        item.len() as u32
    }
}

mod indented {
    #[agentflow::tool]
    pub fn fine(a: i64) -> i64 {
        a
    }
}

fn main() {
    Desk::add(1, 2);
    let _ = tools![indented::fine];
}
