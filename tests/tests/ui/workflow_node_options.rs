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
    #[node(retri = 3, timeout = "5 parsecs", on_error = skp, retry = 1, retry = 2, repeatable = 1, approve = 5)]
    let found = lint(diff).await?;
    #[node(retry = 3)]
    let length = found.issues;
    #[node(concurrency = 2)]
    let text = report(length.to_string()).await?;
    #[node]
    let more = report(text).await?;
    #[node(id = "a/b")]
    let last = report(more).await?;
    #[node(id = "call#2")]
    let reserved = report(last).await?;
    Ok(reserved)
}

fn main() {}
