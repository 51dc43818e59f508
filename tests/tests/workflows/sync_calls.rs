//! Calls of tools that are not `async`: within a step, in a `let` of a workflow, and in a function
//! that computes a value.

use agentflow::prelude::*;
use agentflow::{Error, Result};
use agentflow_testing::{EffectLog, test_runtime};

/// Twice a number.
#[tool(effects = "none")]
fn twice(n: u32) -> u32 {
    2 * n
}

/// Shreds papers. Declares no effects, so it counts as writing.
#[tool]
fn shred(papers: u32) -> u32 {
    papers
}

fn shred_some(papers: u32) -> u32 {
    shred(papers / 2)
}

fn four_times(n: u32) -> u32 {
    twice(twice(n))
}

#[workflow(name = "shredded")]
async fn shredded(papers: u32) -> Result<u32> {
    let some = shred_some(papers);
    Ok(some)
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn filed(papers: u32) -> Result<u32, Failed> {
    Ok(papers)
}

#[workflow(name = "too-many")]
async fn too_many(papers: u32) -> Result<u32, Failed> {
    if papers > 3 {
        let done = shred(papers);
        let text = format!("{done} were too many");
        return Err(text.into());
    } else {
        let _ = filed(papers).await?;
    }
    Ok(papers)
}

#[tokio::test]
async fn an_arm_that_ends_in_an_error_calls_tools_before() {
    assert_eq!(too_many(2).await.unwrap(), 2);
    assert_eq!(too_many(8).await.unwrap_err().to_string(), "8 were too many");
    let graph = too_many::workflow().graph();
    let end = graph.nodes.iter().find(|node| node.name.ends_with("/then/yield")).unwrap();
    assert!(end.writes, "{end:?}");
}

#[workflow(name = "four-times")]
async fn computed(n: u32) -> Result<u32> {
    let four = four_times(n);
    Ok(four)
}

#[tokio::test]
async fn a_value_has_no_effects_that_nobody_sees() {
    let runtime = test_runtime().build();
    let handle = runtime.start(shredded::workflow(), 8).await.unwrap();
    let error: Error = handle.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `some` failed: `shred` writes, and a function calls it of which a value is computed; call `shred` itself \
         in the `let`, or make that function `async` and await it. A tool that changes nothing says so with `effects = \
         \"none\"` or `effects = \"read\"`"
    );
    let handle = runtime.start(computed::workflow(), 2).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 8);
}

/// How long a text is.
#[tool(effects = "read")]
fn size(text: String) -> usize {
    text.len()
}

/// Wipes everything.
#[tool(approve)]
fn wipe() -> u32 {
    1
}

/// Scratches a surface; it does not say that it may be repeated.
#[tool]
fn scratch(log: Inject<EffectLog>) -> usize {
    log.counts().len()
}

async fn now<T>(value: T) -> Result<T> {
    Ok(value)
}

#[workflow(name = "sync-calls")]
async fn sync_calls(_cents: u64) -> Result<usize> {
    let sizes = now(size("four".to_owned()) + size("five5".to_owned())).await?;
    Ok(sizes)
}

#[workflow(name = "sync-approved")]
async fn sync_approved(_cents: u64) -> Result<u32> {
    let wiped = now(wipe()).await?;
    Ok(wiped)
}

#[workflow(name = "sync-write")]
async fn sync_write(cx: &Context, _cents: u64) -> Result<usize> {
    let scratched = now(scratch(cx.inject()?)).await?;
    Ok(scratched)
}

#[workflow(name = "sync-arm")]
async fn sync_arm(cx: &Context, cents: u64) -> Result<usize> {
    let scratched = match now(cents).await? {
        0 => 0,
        _ => scratch(cx.inject()?),
    };
    Ok(scratched)
}

async fn scratched_later(cx: Context) -> Result<usize> {
    Ok(scratch(cx.inject()?))
}

#[workflow(name = "sync-hidden")]
async fn sync_hidden(cx: &Context, _cents: u64) -> Result<usize> {
    let scratched = scratched_later(cx.clone()).await?;
    Ok(scratched)
}

#[tokio::test]
async fn a_sync_tool_is_recorded_unless_it_would_have_to_wait() {
    let (lines, ended) = crate::calls::run_of(&sync_calls::workflow(), |runtime| runtime).await;
    assert_eq!(ended.unwrap(), 9);
    let calls = [
        r#"sizes/tool#1.size started {"text":"four"}"#,
        "sizes/tool#1.size completed 4",
        r#"sizes/tool#2.size started {"text":"five5"}"#,
        "sizes/tool#2.size completed 5",
    ];
    assert_eq!(lines[2..6], calls);

    let (lines, ended) = crate::calls::run_of(&sync_approved::workflow(), |runtime| runtime).await;
    let error = ended.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `wiped` failed: `wipe` needs a person's approval, and it is not `async`, so it cannot wait within an \
         expression; make it `async`"
    );
    assert!(!lines.iter().any(|line| line.contains("tool#")), "{lines:#?}");

    // The plan shows these calls, so the start of the step is recorded for them.
    for workflow in [sync_write::workflow(), sync_arm::workflow()] {
        let (_, ended) =
            crate::calls::run_of(&workflow, |runtime| runtime.resource(EffectLog::new())).await;
        assert_eq!(ended.unwrap(), 0);
        let node =
            workflow.graph().nodes.into_iter().find(|node| node.name == "scratched").unwrap();
        assert_eq!(node.policy.repeatable, Some(false));
    }
    let (_, ended) = crate::calls::run_of(&sync_hidden::workflow(), |runtime| {
        runtime.resource(EffectLog::new())
    })
    .await;
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("`scratch` writes and may not be repeated, so its start must be kept"),
        "{error}"
    );
    // A run in memory has no journal that could be resumed.
    let runtime = test_runtime().resource(EffectLog::new()).build();
    assert_eq!(sync_hidden(&runtime.context(), 1).await.unwrap(), 0);
}

#[test]
fn outside_of_a_step_a_call_is_a_plain_call() {
    assert_eq!(wipe(), 1);
}
