#![allow(unused)]

use agentflow::schemars::JsonSchema;
use agentflow::serde::Deserialize;
use agentflow::tool;

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Page(u32);

#[tool]
fn ask(#[tool(default = Page(1))] page: Page) {}

fn main() {
    agentflow::tools![ask];
}
