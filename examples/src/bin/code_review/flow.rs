//! The workflow, its agents and its tools. It is independent of the model and the terminal.

use agentflow::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A proposed change.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PullRequest {
    pub(crate) title: String,
    pub(crate) diff: String,
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Risk {
    /// 1 is harmless, 5 is not.
    pub(crate) level: u8,
    pub(crate) why: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Verdict {
    pub(crate) outcome: String,
    pub(crate) notes: Vec<String>,
}

/// Count what a machine can find in the lines that a change adds.
#[tool(effects = "read")]
async fn run_linter(diff: String) -> u32 {
    let doubtful =
        |line: &&str| ["unwrap()", "todo!", "dbg!"].iter().any(|word| line.contains(word));
    let added = diff.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++"));
    u32::try_from(added.filter(doubtful).count()).unwrap_or(u32::MAX)
}

/// Find what went wrong in a part of the program in the last month.
#[tool(effects = "read")]
fn search_incidents(
    /// A word that the part is known by.
    part: String,
) -> Vec<String> {
    let incidents = [
        ("payment", "3 November: payments of 0.00 were rounded up"),
        ("login", "nobody could log in"),
    ];
    incidents
        .iter()
        .filter(|(of, _)| part.contains(of))
        .map(|(_, what)| (*what).to_owned())
        .collect()
}

/// Merge a change. This example has no server, so it only returns the result.
#[tool(idempotent)]
async fn merge(pr: PullRequest) -> String {
    format!("merged: {}", pr.title)
}

/// Tell the author of a change why it is not merged.
#[tool(idempotent)]
async fn comment_on(pr: PullRequest, comment: Option<String>) -> String {
    format!("not merged: {}: {}", pr.title, comment.as_deref().unwrap_or("no reason was given"))
}

/// Sum up a change in one sentence.
///
/// {diff}
#[agent(model = "anthropic/claude-sonnet-4-5")]
async fn summarize(cx: &Context, diff: String) -> Result<String>;

/// Say what a reviewer should look at in a file.
///
/// The file is {file}. A linter found {issues} issues in the whole change.
#[agent(model = "anthropic/claude-sonnet-4-5")]
async fn annotate(cx: &Context, file: String, issues: u32) -> Result<String>;

/// You are a release manager. Judge the risk of a change in one sentence.
///
/// {summary}
#[agent(model = "anthropic/claude-sonnet-4-5", tools = [search_incidents])]
async fn judge_risk(cx: &Context, summary: String) -> Result<Risk>;

/// Reviews a change; a person has the last word.
#[workflow]
pub(crate) async fn review(cx: &Context, pr: PullRequest) -> Result<Verdict> {
    let issues = run_linter(pr.diff).await;
    let summary = summarize(cx, pr.diff).await?; // runs beside `issues`
    let notes = map!(pr.files, |file| annotate(cx, file, issues)).await?; // one node, a step for each file
    let risk = judge_risk(cx, summary).await?;
    #[node(timeout = "7d")]
    let approval = gate!("merge {summary}?", risk).await?; // a person answers, also after a restart
    let outcome = match approval {
        Approval::Granted { .. } => merge(pr).await,
        Approval::Denied { comment } => comment_on(pr, comment).await,
    };
    Ok(Verdict { outcome, notes })
}
