#![allow(unused)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agentflow::tool;

type Orders = Arc<Mutex<HashMap<String, u64>>>;

#[tool]
fn note(orders: Orders, name: String) -> usize {
    orders.lock().unwrap().len()
}

#[tool]
async fn count(name: String, seen: std::sync::atomic::AtomicU64) -> u64 {
    seen.into_inner()
}

fn main() {
    agentflow::tools![note, count];
}
