#![allow(dead_code)]
#![deny(unused_variables)]

use agentflow::Result;
use agentflow::prelude::*;

#[derive(agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Order {
    id: u32,
    name: String,
    items: Vec<u32>,
}

#[derive(agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
enum Status {
    New,
    Paid { cents: u32, by: String },
}

async fn load(id: u32) -> Result<Order> {
    Ok(Order { id, name: String::new(), items: Vec::new() })
}

async fn status(id: u32) -> Result<(Status, u32)> {
    Ok((Status::New, id))
}

async fn show(cents: u32) -> Result<u32> {
    Ok(cents)
}

#[workflow]
async fn review(id: u32) -> Result<u32> {
    let Order { id, name, .. } = load(id).await?;
    let (status, since) = status(id).await?;
    let shown = match status {
        Status::New => 0,
        Status::Paid { cents, by } => show(cents).await?,
    };
    for (place, item) in [(1, shown), (2, shown)] {
        show(item).await?;
    }
    let all = map!(vec![(1, 2)], |(left, right)| show(left)).await?;
    let shown = show(id).await?;
    Ok(id)
}

/// Everything is read, if only by a check, a format string, a guard, another view or `#[after(..)]`.
#[workflow]
async fn read(id: u32) -> Result<u32> {
    let Order { id, name, items } = load(id).await?;
    assert!(id > 0, "{name}");
    let (status, since) = status(id).await?;
    #[after(since)]
    let shown = show(1).await?;
    let shown = match status {
        Status::Paid { cents, by } if by.is_empty() => show(cents).await?,
        Status::Paid { cents, by } => show(cents + u32::from(by.len() > 3)).await?,
        Status::New => show(shown).await?,
    };
    let Some(first) = items.first() else { return Ok(shown) };
    let all = map!(&items, |item| {
        let Order { id, name, .. } = load(*item).await?;
        show(id + u32::from(name.is_empty())).await?
    })
    .await?;
    #[allow(unused_variables)]
    let (left, right) = (all.len(), *first);
    Ok(left.try_into().unwrap_or(0))
}

fn main() {}
