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
    let text = match diff.len() {
        0 if lint(diff).await?.issues > 1 => report(diff).await?,
        _ => diff,
    };
    let text = if let Some(first) = text.chars().next()
        && lint(first.to_string()).await?.issues > 1
    {
        report(text).await?
    } else {
        text
    };
    let longest = text.split(' ').max_by_key(|word| word.len());
    match longest {
        Some(word) if let Ok(number) = word.parse::<u32>() => report(number.to_string()).await,
        _ => Ok(text),
    }
}

fn main() {}
