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
async fn review(diff: String) -> Result<()> {
    let a = gate!().await?;
    let b = race!().await?;
    let c = map!(diff).await?;
    let d = map!(diff, report).await?;
    let e = repeat!(diff, |text| report(text)).await?;
    let f = timeout!("30 parsecs", report(diff)).await?;
    let g = fallback!(report(diff).await?).await?;
    let h = gate!("merge?", diff, anser = bool).await?;
    let i = gate!("merge?", diff);
    let j = race!(report(diff)).await;
    Ok(())
}

fn main() {}
