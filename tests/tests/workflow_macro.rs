//! `#[workflow]`: straight-line Rust as a graph, and every form in it.

use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::{NodeKind, Result, workflow};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct PullRequest {
    diff: String,
    files: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Lint {
    issues: u32,
}

async fn run_linter(pr: PullRequest) -> Result<Lint> {
    Ok(Lint { issues: u32::try_from(pr.files.len()).unwrap() })
}

async fn summarize(_cx: &Context, diff: &str) -> Result<String> {
    Ok(diff.to_uppercase())
}

async fn annotate(file: String, issues: u32) -> Result<String> {
    Ok(format!("{file}!{issues}"))
}

/// Looks at a change.
#[workflow]
async fn small(cx: &Context, pr: PullRequest) -> Result<String> {
    let lint = run_linter(pr.clone()).await?;
    let summary = summarize(cx, &pr.diff).await?;
    let title = format!("{summary}: {}", lint.issues);
    let note = annotate(title, lint.issues).await?;
    Ok(format!("{note} {}", pr.files.len()))
}

fn pr() -> PullRequest {
    PullRequest { diff: "diff".into(), files: vec!["a".into(), "b".into()] }
}

#[tokio::test]
async fn a_call_runs_it_here() {
    assert_eq!(small(&Context::detached(), pr()).await.unwrap(), "DIFF: 2!2 2");
    let graph = small::workflow().graph();
    let names: Vec<_> = graph.nodes.iter().map(|node| (node.name.as_str(), node.kind)).collect();
    assert_eq!(
        names,
        [
            ("pr", NodeKind::Input),
            ("lint", NodeKind::Step),
            ("summary", NodeKind::Step),
            ("note", NodeKind::Step),
            ("output", NodeKind::Value)
        ]
    );
    assert_eq!(graph.node("note").unwrap().reads, ["lint", "summary"]);
}
