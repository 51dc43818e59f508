#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

#[derive(agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Lint {
    issues: u32,
}

async fn lint(diff: String) -> Result<Lint> {
    Ok(Lint { issues: diff.len() as u32 })
}

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let found = lint(diff).await?;
    #[node(id = "found")]
    let text = report(found.issues.to_string()).await?;
    Ok(text)
}

fn main() {}
