#![allow(dead_code)]

use agentflow::Result;
use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

struct Desk;

#[rustfmt::skip]
impl Desk { #[workflow] async fn review(diff: String) -> Result<String> { report(diff).await } }

#[rustfmt::skip]
impl Desk {
    #[tool]
    async fn
    price(item: String) -> usize { item.len() }
}

/// A function of the same name outside of an `impl`.
mod prices {
    #[agentflow::tool]
    pub async fn price(item: String) -> usize {
        item.len()
    }
}

macro_rules! desk {
    ($name:ident) => {
        impl $name {
            /// Judge the risk.
            #[agent(model = "openai/gpt-5-mini")]
            async fn judge(text: String) -> Result<String>;
        }
    };
}

desk!(Desk);

fn main() {}
