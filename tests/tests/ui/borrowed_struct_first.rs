#![allow(dead_code)]

use agentflow::Result;
use agentflow::prelude::*;

#[derive(agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Order {
    item: String,
}

async fn pack(order: &Order) -> Result<String> {
    Ok(order.item.clone())
}

#[tool]
fn ship(order: &Order) -> String {
    order.item.clone()
}

/// Judge the order.
#[agent]
async fn judge(order: &Order) -> Result<String>;

#[workflow]
async fn deliver(order: &Order) -> Result<String> {
    let item = order.item.clone();
    let packed = pack(order).await?;
    Ok(packed + &item)
}

fn main() {}
