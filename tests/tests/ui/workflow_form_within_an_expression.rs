#![allow(dead_code)]

use agentflow::prelude::*;

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
    let text = report(gate!("merge?", diff).await?).await?;
    Ok(text)
}

fn main() {}
