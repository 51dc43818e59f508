//! Toolsets: when their tools are fetched, how a change affects a run, and failed fetches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use agentflow::async_trait;
use agentflow::error::FailureKind;
use agentflow::message::ToolStatus;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::tool::{FnTool, ToolPolicy, ToolRef, Toolset, ToolsetRef};
use agentflow_testing::{CrashTest, ScriptedModel, Turn};

/// A server with the tools `read` and `edit`, and after a change `read` and `find`.
#[derive(Clone, Default)]
struct Wiki {
    fetches: Arc<AtomicU64>,
    version: Arc<AtomicU64>,
    away: Arc<AtomicBool>,
}

impl Wiki {
    fn fetches(&self) -> u64 {
        self.fetches.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Toolset for Wiki {
    fn name(&self) -> &str {
        "wiki"
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return Err("no route to the wiki".into());
        }
        let version = Arc::clone(&self.version);
        let edit = FnTool::new("edit", "Edit the page.", move |_: Context, (): ()| {
            version.store(1, Ordering::SeqCst);
            async { Ok::<_, String>("edited") }
        });
        let named = |name: &str| {
            let name = name.to_owned();
            let answer = format!("{name} it");
            FnTool::new(name, "Of the wiki.", move |_: Context, (): ()| {
                let answer = answer.clone();
                async move { Ok::<_, String>(answer) }
            })
            .policy(ToolPolicy::default().idempotent())
        };
        Ok(match self.version() {
            0 => vec![named("read").into(), edit.into()],
            _ => vec![named("read").into(), named("find").into()],
        })
    }
}

fn offered(model: &ScriptedModel) -> Vec<Vec<String>> {
    let names = |request: &agentflow::model::ModelRequest| {
        request.tools.definitions().iter().map(|definition| definition.name.to_string()).collect()
    };
    model.requests().iter().map(names).collect()
}

#[tokio::test]
async fn they_are_fetched_once_when_they_are_first_needed() {
    let wiki = Wiki::default();
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("wiki__read", json!({})),
        _ => Turn::text("done"),
    });
    let agent = Agent::new(model).tools(ToolsetRef::new(wiki.clone())).build().unwrap();
    assert_eq!(wiki.fetches(), 0);
    let (one, other) = tokio::join!(agent.run("Go."), agent.run("Go."));
    assert_eq!(
        (one.unwrap().output().as_str(), other.unwrap().output().as_str()),
        ("done", "done")
    );
    assert_eq!(wiki.fetches(), 1);
}

#[tokio::test]
async fn a_change_counts_from_the_next_turn() {
    let wiki = Wiki::default();
    let model = ScriptedModel::new([
        // The second call uses a tool that disappears after the first call.
        Turn::calls([("wiki__edit", json!({})), ("wiki__edit", json!({}))]),
        Turn::calls([("wiki__edit", json!({})), ("wiki__find", json!({}))]),
        Turn::text("done"),
    ])
    .capturing();
    let limits = agentflow::agent::Limits::default().max_parallel_tools(1);
    let agent = Agent::new(model.clone()).tools(ToolsetRef::new(wiki.clone())).settings(limits);
    let result = agent.run("Go.").await.unwrap();
    assert_eq!(
        offered(&model),
        [["wiki__edit", "wiki__read"], ["wiki__find", "wiki__read"], ["wiki__find", "wiki__read"]]
    );
    let messages = result.conversation().messages();
    let statuses: Vec<ToolStatus> =
        messages.iter().flat_map(|m| m.results().map(|r| r.status)).collect();
    assert_eq!(
        statuses,
        [ToolStatus::Success, ToolStatus::Success, ToolStatus::NotFound, ToolStatus::Success]
    );
    assert_eq!(wiki.fetches(), 2);
}

#[tokio::test]
async fn one_that_is_away_fails_the_run_unless_it_was_there_before() {
    let wiki = Wiki::default();
    wiki.away.store(true, Ordering::SeqCst);
    let model = ScriptedModel::from_fn(|_| Turn::text("done")).capturing();
    let agent = Agent::new(model.clone()).tools(ToolsetRef::new(wiki.clone()));
    let error = agent.run("Go.").await.unwrap_err();
    assert_eq!(error.to_string(), "the tools of `wiki` could not be fetched: no route to the wiki");
    assert!(error.kind() == FailureKind::Toolset && error.is_retryable());
    assert_eq!(model.calls(), 0);
    wiki.away.store(false, Ordering::SeqCst);
    agent.run("Go.").await.unwrap();
    wiki.away.store(true, Ordering::SeqCst);
    wiki.version.store(1, Ordering::SeqCst);
    agent.run("Go.").await.unwrap();
    assert_eq!(offered(&model), [["wiki__edit", "wiki__read"], ["wiki__edit", "wiki__read"]]);
}

/// A toolset that accepts a request and never answers.
struct Silent(Arc<AtomicU64>);

#[async_trait]
impl Toolset for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_for_a_silent_one_wait_once() {
    let fetches = Arc::new(AtomicU64::new(0));
    let agent =
        Agent::new(ScriptedModel::new([])).tools(ToolsetRef::new(Silent(Arc::clone(&fetches))));
    let began = tokio::time::Instant::now();
    let (one, other) = tokio::join!(agent.run("Go."), agent.run("Go."));
    for error in [one.unwrap_err(), other.unwrap_err()] {
        assert_eq!(
            error.to_string(),
            "the tools of `silent` could not be fetched: nothing came within 30s"
        );
    }
    assert_eq!((began.elapsed().as_secs(), fetches.load(Ordering::SeqCst)), (30, 1));
}

#[tokio::test]
async fn its_tools_do_not_hide_those_of_the_agent() {
    let own =
        FnTool::new("wiki__read", "Reads.", |_: Context, (): ()| async { Ok::<_, String>("own") });
    let agent =
        Agent::new(ScriptedModel::new([])).tools(own).tools(ToolsetRef::new(Wiki::default()));
    let error = agent.run("Go.").await.unwrap_err().to_string();
    assert!(error.contains("`wiki__read` and `wiki.read` by one name"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_resumed_fetches_them_again() {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("wiki__read", json!({})),
        3 => Turn::call("wiki__read", json!({})),
        _ => Turn::text("done"),
    });
    let agent = Agent::new(model).tools(ToolsetRef::new(Wiki::default()));
    let report = CrashTest::agent(&agent, || "Go.").twice().run().await;
    assert!(report.crashes() > 10 && report.interrupted() == 0, "{report:?}");
}

/// A slow toolset that can panic at its first fetch.
struct Slow {
    fetches: Arc<AtomicU64>,
    panics: bool,
}

#[async_trait]
impl Toolset for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        let before = self.fetches.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(!self.panics || before > 0, "no tools");
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn who_no_longer_polls_a_fetch_holds_up_nobody() {
    let fetches = Arc::new(AtomicU64::new(0));
    let toolset = ToolsetRef::new(Slow { fetches: Arc::clone(&fetches), panics: false });
    let mut held = Box::pin(toolset.tools());
    assert!(futures_util::future::poll_immediate(&mut held).await.is_none());
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), toolset.tools()).await;
    assert!(waited.expect("nobody waits for who does not poll").is_ok());
    assert!(held.await.is_ok());
    assert_eq!(fetches.load(Ordering::SeqCst), 1, "it is one fetch");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_nobody_waits_for_stops_and_one_that_panics_is_an_error() {
    let fetches = Arc::new(AtomicU64::new(0));
    let toolset = ToolsetRef::new(Slow { fetches: Arc::clone(&fetches), panics: true });
    let both = tokio::join!(toolset.tools(), toolset.tools());
    for failed in [both.0, both.1] {
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Toolset);
        assert!(error.to_string().contains("asking for its tools panicked: no tools"), "{error}");
    }
    let stopped =
        tokio::time::timeout(std::time::Duration::from_millis(500), toolset.tools()).await;
    assert!(stopped.is_err());
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(toolset.tools().await.is_ok());
    assert_eq!(fetches.load(Ordering::SeqCst), 3);
}
