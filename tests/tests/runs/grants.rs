//! Tests the scopes of a run: its steps, the agents in the steps and their tools have the same
//! scopes. Resuming the run with a runtime that grants more or fewer scopes does not change them.

use std::time::Duration;

use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::{RunId, runtime::RuntimeBuilder};
use agentflow_testing::{ScriptedModel, TestClock, Turn, test_runtime};
use agentflow_tests::ProcessStore;

/// Pay somebody back.
#[tool(scopes(refunds), idempotent)]
async fn refund(cents: u64) -> String {
    format!("refunded {cents}")
}

/// Handle the complaint.
#[agent(tools = [refund])]
async fn handle(cx: &Context, complaint: String) -> Result<String>;

/// Ask the desk, which is an agent of its own.
#[tool(idempotent)]
async fn ask_desk(cx: &Context, complaint: String) -> Result<String> {
    handle(cx, complaint).await
}

/// Pass it on.
#[agent(tools = [ask_desk])]
async fn reception(cx: &Context, complaint: String) -> Result<String>;

async fn wait(text: String) -> Result<String> {
    tokio::time::sleep(Duration::from_secs(10)).await;
    Ok(text)
}

#[workflow]
async fn complaint(cx: &Context, text: String) -> Result<(String, String)> {
    let read = wait(text).await?;
    let answer = reception(cx, read).await?;
    let direct = refund(3).await;
    Ok((answer, direct))
}

fn id() -> RunId {
    RunId::new("run-1")
}

/// Returns a model for both agents. The reception passes the complaint on, the desk refunds, and
/// both report the outcome.
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let last =
            request.messages.last().map(|message| format!("{message:?}")).unwrap_or_default();
        let passes_on = request.tools.definitions().iter().any(|tool| &*tool.name == "ask_desk");
        match passes_on {
            true if last.contains("it is refunded") => Turn::text("done"),
            true if last.contains("I may not") => Turn::text("not done"),
            true => Turn::call("ask_desk", json!({"complaint": "it broke"})),
            false if last.contains("refunded 500") => Turn::text("it is refunded"),
            false if last.contains("was not granted") => Turn::text("I may not"),
            false => Turn::call("refund", json!({"cents": 500})),
        }
    })
}

fn runtime(store: ProcessStore, clock: &TestClock) -> RuntimeBuilder {
    test_runtime().clock(clock.clone()).store(store).model(model())
}

#[tokio::test(start_paused = true)]
async fn agents_in_a_granted_run_may_call_the_tool() {
    let clock = TestClock::new();
    for granted in [true, false] {
        let builder = runtime(ProcessStore::new(), &clock);
        let runtime = if granted { builder.grant(["refunds"]) } else { builder }.build();
        let cx = runtime.context();
        assert_eq!(
            handle(&cx, "it broke".into()).await.unwrap(),
            if granted { "it is refunded" } else { "I may not" }
        );
        assert_eq!(
            reception(&cx, "it broke".into()).await.unwrap(),
            if granted { "done" } else { "not done" }
        );
        let run = runtime.start(complaint::workflow(), "it broke".to_owned()).await.unwrap();
        match granted {
            true => assert_eq!(
                run.result().await.unwrap(),
                ("done".to_owned(), "refunded 3".to_owned())
            ),
            false => {
                let error = run.result().await.unwrap_err();
                assert_eq!(error.kind(), "unauthorized", "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resuming_neither_widens_nor_narrows() {
    for granted in [true, false] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let with = |builder: RuntimeBuilder, yes: bool| {
            if yes { builder.grant(["refunds"]) } else { builder }.build()
        };
        let first = with(runtime(store.clone(), &clock), granted);
        let run =
            first.start(complaint::workflow(), "it broke".to_owned()).run_id(id()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        run.abandon();
        tokio::task::yield_now().await;
        store.die();
        let second = with(runtime(store.process(2), &clock), !granted);
        let resumed = second.recover().await.unwrap().resumed.remove(0);
        match granted {
            true => {
                assert_eq!(resumed.result().await.unwrap().as_str(), r#"["done","refunded 3"]"#);
            }
            false => assert_eq!(resumed.result().await.unwrap_err().kind(), "unauthorized"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_resumed_has_what_its_run_began_with() {
    for granted in [true, false] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let with = |builder: RuntimeBuilder, yes: bool| {
            if yes { builder.grant(["refunds"]) } else { builder }.build()
        };
        let stalling = ScriptedModel::new([Turn::stall()]);
        let first = with(runtime(store.clone(), &clock).model(stalling), granted);
        let cx = first.context();
        let run = tokio::spawn(async move { handle(&cx, "it broke".into()).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        run.abort();
        tokio::task::yield_now().await;
        store.die();
        let second = with(runtime(store.process(2), &clock), !granted);
        let resumed = second.recover().await.unwrap().resumed.remove(0);
        let expected = if granted { r#""it is refunded""# } else { r#""I may not""# };
        assert_eq!(resumed.result().await.unwrap().as_str(), expected);
    }
}
