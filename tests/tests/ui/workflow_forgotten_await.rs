#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

#[derive(agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Lint {
    issues: u32,
}

async fn lint(diff: &str) -> Result<Lint> {
    Ok(Lint { issues: diff.len() as u32 })
}

async fn title(diff: &str) -> String {
    diff.to_owned()
}

async fn report(text: &str, found: &Lint) -> Result<String> {
    Ok(format!("{text}: {}", found.issues))
}

#[workflow]
async fn review(diff: String) -> Result<String> {
    let found = lint(&diff);
    let title = title(&diff);
    let text = report(&title, &found).await?;
    let more = report(&found.issues.to_string(), &found).await?;
    Ok(text + &more)
}

fn main() {}
