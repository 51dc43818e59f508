#![allow(unused)]

use agentflow::serde::Deserialize;
use agentflow::tool;

#[derive(Deserialize)]
#[serde(crate = "agentflow::serde")]
struct Query {
    text: String,
}

#[tool]
fn search(limit: usize, query: Query) -> usize {
    query.text.len() + limit
}

fn main() {
    agentflow::tools![search];
}
