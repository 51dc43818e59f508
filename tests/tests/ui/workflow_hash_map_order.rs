//! Two steps iterate over a hash map, each in a different order.

use std::collections::{BTreeMap, HashMap, HashSet};

use agentflow::prelude::*;

#[derive(Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Shop {
    prices: HashMap<String, u32>,
    names: BTreeMap<String, String>,
}

async fn load() -> Result<Shop> {
    Ok(Shop { prices: HashMap::new(), names: BTreeMap::new() })
}

async fn price_of(sku: String) -> Result<u32> {
    Ok(sku.len() as u32)
}

#[workflow]
async fn totals(items: Vec<(String, u32)>) -> Result<BTreeMap<String, u32>> {
    let counts: HashMap<String, u32> = items.into_iter().collect();
    let names: Vec<String> = counts.keys().cloned().collect();
    let numbers: Vec<u32> = counts.values().copied().collect();
    Ok(names.into_iter().zip(numbers).collect())
}

#[workflow]
async fn priced(kinds: HashSet<String>) -> Result<Vec<(String, u32)>> {
    let prices = map!(kinds.clone(), |sku| price_of(sku)).await?;
    Ok(kinds.into_iter().zip(prices).collect())
}

#[workflow]
async fn in_a_field() -> Result<usize> {
    let shop = load().await?;
    let skus: Vec<String> = shop.prices.keys().cloned().collect();
    let total: u32 = shop.prices.values().sum();
    Ok(skus.len() + total as usize)
}

/// A map with a fixed order, a hash map that a single step iterates over, and one used for lookups.
#[workflow]
async fn good(counts: HashMap<String, u32>) -> Result<usize> {
    let shop = load().await?;
    let names: Vec<String> = shop.names.keys().cloned().collect();
    let texts: Vec<String> = shop.names.values().cloned().collect();
    let tea = counts.get("tea").copied().unwrap_or_default();
    let total: u32 = counts.values().sum();
    Ok(names.len() + texts.len() + tea as usize + total as usize)
}

fn main() {}
