//! Tests cancellations in the middle of a poll, as from another thread. The steps learn of the
//! cancellation before the run does, and may fail because of it. The run still ends as cancelled,
//! and no failure is recorded as the step's own.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::ToolStatus;
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition, ToolRef};
use agentflow::workflow::Node;
use agentflow::{Error, Event, RunHandle, Workflow};
use agentflow_testing::{ScriptedModel, Turn, check_events, trace, within};
use futures_util::FutureExt;

/// Cancels the run after it has started.
#[derive(Clone, Default)]
struct Cancel(Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>);

impl Cancel {
    fn now(&self) {
        self.0.get().expect("it has begun")();
    }

    /// Makes the run available to `now`, waits for its end, checks its events and returns them.
    async fn cancelled<T: Send + Sync + 'static>(&self, run: RunHandle<T>) -> Vec<Event> {
        let of = run.clone();
        // The caller does not wait for the outcome.
        let cancel = move || {
            assert!(
                of.cancel("enough")
                    .into_future()
                    .now_or_never()
                    .is_none_or(|outcome| outcome.is_ok())
            );
        };
        assert!(self.0.set(Box::new(cancel)).is_ok());
        let Err(error) = run.result().await else { panic!("it was cancelled") };
        assert!(matches!(&error, Error::Cancelled { reason } if &**reason == "enough"), "{error}");
        let events = run.recorded();
        let text = || format!("{:#?}", trace(&events));
        assert_eq!(check_events(&events), Ok(()), "{}", text());
        assert_eq!(events.last().map(Event::name), Some("run.cancelled"), "{}", text());
        for event in &events {
            match &event.kind {
                EventKind::NodeFailed { error, .. } => {
                    assert!(error.message.contains("the run was cancelled: enough"), "{}", text());
                }
                EventKind::ToolFailed { result, .. } => {
                    assert_eq!(result.status, ToolStatus::Cancelled, "{}", text());
                }
                EventKind::NodeRetrying { .. } => panic!("{}", text()),
                _ => {}
            }
        }
        events
    }
}

async fn of_workflow(cancel: &Cancel, flow: Workflow<(u32,), String>) -> Vec<Event> {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    cancel.cancelled(runtime.start(flow, 1).await.unwrap()).await
}

async fn of_agent(cancel: &Cancel, agent: Agent) -> Vec<Event> {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    cancel.cancelled(agent.runtime(&runtime).start("Go on.").unwrap()).await
}

/// Returns a workflow with a node of this body, and a slower node at the same time.
fn with_node<F, Fut>(body: F) -> Workflow<(u32,), String>
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    Workflow::build("flow", ["n"], move |b, (n,)| {
        let node = Node::new("node").retry(3);
        let said = b.node(node, (n,), move |cx, (_,)| {
            let ended = body(cx);
            async move {
                // The run must have started before it is cancelled.
                tokio::time::sleep(Duration::from_secs(1)).await;
                ended.await
            }
        });
        let beside = b.node("beside", (n,), |_, (n,)| async move {
            tokio::time::sleep(Duration::from_secs(9)).await;
            Ok::<_, String>(n)
        });
        b.value("end", (said, beside), |(said, n)| Ok::<_, String>(format!("{said} {n}")))
    })
    .unwrap()
}

fn tool<F, Fut>(name: &'static str, body: F) -> ToolRef
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    let definition = ToolDefinition::new(name, "Does it.", json!({"type": "object"}));
    FnTool::dynamic(definition, move |cx: Context, _: Value| body(cx)).into()
}

/// Returns a model that calls a tool and would then be called again.
fn calls(name: &'static str) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| match request.messages.len() {
        1 => Turn::calls([(name, json!({}))]).after(Duration::from_secs(1)),
        _ => Turn::text("It went on."),
    })
}

/// Returns an agent that answers immediately.
fn helper() -> Agent {
    Agent::new(ScriptedModel::from_fn(|_| Turn::text("done"))).name("helper")
}

#[tokio::test(start_paused = true)]
async fn a_node_fails() {
    let cancel = Cancel::default();
    let of = cancel.clone();
    let flow = with_node(move |_| {
        let cancel = of.clone();
        async move {
            cancel.now();
            Err(Error::Lost { reason: "nobody is there".to_owned() })
        }
    });
    of_workflow(&cancel, flow).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_node() {
    let cancel = Cancel::default();
    let (agent, of) = (helper(), cancel.clone());
    let flow = with_node(move |cx| {
        let (agent, cancel) = (agent.clone(), of.clone());
        async move {
            cancel.now();
            agent.run_in(&cx, RunRequest::from("Go on.")).await.map(|end| end.into_output())
        }
    });
    of_workflow(&cancel, flow).await;
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_a_node() {
    let cancel = Cancel::default();
    let of = cancel.clone();
    let part = with_node(move |cx| {
        of.now();
        async move {
            cx.cancelled().await;
            Err(Error::Lost { reason: "it was cancelled".to_owned() })
        }
    });
    let flow = with_node(move |cx| {
        let part = part.clone();
        async move { part.run_in(&cx, 1).await }
    });
    of_workflow(&cancel, flow).await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_an_agent_fails() {
    let cancel = Cancel::default();
    let of = cancel.clone();
    let fails = tool("look", move |_| {
        of.now();
        async { Err(Error::Lost { reason: "nobody is there".to_owned() }) }
    });
    let events = of_agent(&cancel, Agent::new(calls("look")).tools([fails])).await;
    assert!(
        !events
            .iter()
            .any(|event| event.name() == "model.started" && event.path.to_string() == "model#2")
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_tool_of_an_agent() {
    let cancel = Cancel::default();
    let (helper, of) = (helper(), cancel.clone());
    let asks = tool("ask", move |cx| {
        let (helper, cancel) = (helper.clone(), of.clone());
        async move {
            cancel.now();
            helper.run_in(&cx, RunRequest::from("Help.")).await.map(|end| end.into_output())
        }
    });
    let events = of_agent(&cancel, Agent::new(calls("ask")).tools([asks])).await;
    let end_of = |name: &str| events.iter().filter(|event| event.name() == name).count();
    assert_eq!((end_of("agent.started"), end_of("agent.failed")), (1, 1), "{:#?}", trace(&events));
}

/// Lets another task poll the agent, so the step does not drop it. It must still end with the run,
/// in the journal and for the task that waits for it.
#[tokio::test(start_paused = true)]
async fn an_agent_that_another_task_polls() {
    let cancel = Cancel::default();
    let (helper, ended) = (helper(), Arc::new(OnceLock::new()));
    let of = (Arc::clone(&ended), cancel.clone());
    let asks = tool("ask", move |cx| {
        let (helper, (ended, cancel)) = (helper.clone(), of.clone());
        async move {
            cancel.now();
            let helps = tokio::spawn(async move {
                helper.run_in(&cx, RunRequest::from("Help.")).await.map(drop)
            });
            assert!(ended.set(helps).is_ok());
            std::future::pending().await
        }
    });
    of_agent(&cancel, Agent::new(calls("ask")).tools([asks])).await;
    let helps = ended.get().expect("the agent was begun");
    within("the task to end", async {
        while !helps.is_finished() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

static OF_CALL: LazyLock<Cancel> = LazyLock::new(Cancel::default);

/// Cancels the run and fails.
#[tool(effects = "none")]
async fn poll_gives_up(why: String) -> std::result::Result<u32, String> {
    OF_CALL.now();
    Err(why)
}

#[tokio::test(start_paused = true)]
async fn the_call_of_a_tool_in_a_step() {
    let flow = with_node(|_| async {
        let sum = poll_gives_up("nobody is there".to_owned()).await;
        sum.map(|sum| sum.to_string()).map_err(|reason| Error::Lost { reason })
    });
    let events = of_workflow(&OF_CALL, flow).await;
    assert!(events.iter().any(|event| event.name() == "tool.failed"), "{:#?}", trace(&events));
}
