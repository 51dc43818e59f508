#![allow(unused)]

use agentflow::schemars::JsonSchema;
use agentflow::tool;

#[derive(JsonSchema)]
#[schemars(crate = "agentflow::schemars")]
struct Query {
    text: String,
}

#[tool]
async fn search(query: Query) -> usize {
    query.text.len()
}

fn main() {
    agentflow::tools![search];
}
