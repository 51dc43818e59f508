//! Recursive agents and workflows end with an error instead of a stack overflow, in every
//! combination.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use agentflow::agent::Limits;
use agentflow::event::{EventKind, EventSink};
use agentflow::message::{Part, ToolCall};
use agentflow::middleware::{AgentStep, Flow, Middleware};
use agentflow::model::{
    ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream, StopReason,
};
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::{Error, Event, Model, Result};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime};
use serde_json::{Value, json};

/// The default limit.
const DEPTH: u32 = 16;

/// A model that always calls the first tool it is offered, and counts its calls.
#[derive(Clone)]
struct Caller {
    info: Arc<ModelInfo>,
    asked: Arc<AtomicU32>,
}

impl Caller {
    fn new() -> Self {
        Self { info: Arc::new(ModelInfo::new("test", "caller")), asked: Arc::default() }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Model for Caller {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let tool = request
            .tools
            .definitions()
            .first()
            .map(|tool| tool.name.to_string())
            .unwrap_or_default();
        let call = ToolCall::new(format!("call_{asked}"), tool, r#"{"question": "again"}"#);
        let mut response = ModelResponse::new(Message::new(
            agentflow::message::Role::Assistant,
            [Part::ToolCall(Arc::new(call))],
        ));
        response.stop_reason = StopReason::ToolCalls;
        ModelStream::new(futures_util::stream::iter([Ok(ModelEvent::Completed(Box::new(
            response,
        )))]))
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Event>>>);

impl EventSink for Seen {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Seen {
    fn count(&self, wanted: impl Fn(&EventKind) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| wanted(&event.kind)).count()
    }
}

/// Middleware without any effect. It selects the code path with hooks.
struct Nothing;

impl Middleware for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
}

fn runtime(model: &Caller) -> RuntimeBuilder {
    test_runtime().model(model.clone())
}

/// Runs on a worker thread of tokio with its default stack of 2 MiB. A stack overflow would kill
/// the test process.
fn on_worker<T: Send + 'static>(body: impl Future<Output = T> + Send + 'static) -> T {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    tokio.block_on(tokio.spawn(body)).unwrap()
}

#[track_caller]
fn assert_limit(error: &Error) {
    assert!(matches!(error, Error::NestingLimit { depth: DEPTH, .. }), "{error}");
}

/// Asks a colleague.
#[tool]
async fn ask_colleague(cx: &Context, question: String) -> Result<String> {
    colleague(cx, question).await
}

/// Answer the question.
#[agent(tools = [ask_colleague])]
async fn colleague(cx: &Context, question: String) -> Result<String>;

#[test]
fn an_agent_that_is_its_own_tool() {
    let (model, seen) = (Caller::new(), Seen::default());
    let runtime = runtime(&model).sink(seen.clone()).build();
    let error =
        on_worker(async move { colleague(&runtime.context(), "why?".into()).await.unwrap_err() });
    assert_limit(&error);
    assert_eq!(
        error.to_string(),
        "agents and workflows are nested 16 deep, which is the limit; see whether one calls itself without an end, or \
         raise the limit with `Runtime::builder().max_nesting(..)`"
    );
    // Each level made one model call: a failure at the depth limit is not retried.
    assert_eq!(model.asked(), DEPTH);
    assert_eq!(
        seen.count(|kind| matches!(kind, EventKind::AgentStarted(_) | EventKind::RunStarted(_))),
        16
    );
    assert_eq!(seen.count(|kind| matches!(kind, EventKind::ToolFailed { .. })), 16);
    check_events(&seen.0.lock().unwrap()).unwrap();
}

#[test]
fn an_agent_that_is_its_own_tool_with_middleware() {
    let model = Caller::new();
    let runtime = runtime(&model).with(Nothing).build();
    let error =
        on_worker(async move { colleague(&runtime.context(), "why?".into()).await.unwrap_err() });
    assert_limit(&error);
    assert_eq!(model.asked(), DEPTH);
}

/// Builds an agent whose tool runs the agent again, with `run` or in the tool's context.
fn by_hand(model: &Caller, call: fn(Context, Agent) -> Answering) -> Agent {
    let this: Arc<Mutex<Option<Agent>>> = Arc::default();
    let again = Arc::clone(&this);
    let tool = FnTool::dynamic(
        ToolDefinition::new("again", "Asks again.", json!({"type": "object"})),
        move |cx, _: Value| call(cx, again.lock().unwrap().clone().unwrap()),
    );
    let agent = Agent::new(model.clone()).tools([tool]);
    *this.lock().unwrap() = Some(agent.clone());
    agent
}

type Answering = std::pin::Pin<Box<dyn Future<Output = Result<String>> + Send>>;

#[test]
fn runs_of_their_own_that_a_tool_awaits() {
    let model = Caller::new();
    let agent = by_hand(&model, |_, agent| {
        Box::pin(async move { Ok(agent.run("again").await?.into_output()) })
    });
    let error = on_worker(async move { agent.run("begin").await.unwrap_err() });
    assert_limit(&error);
    assert_eq!(model.asked(), DEPTH);
}

#[test]
fn what_a_tool_hands_to_another_task() {
    let model = Caller::new();
    let agent = by_hand(&model, |cx, agent| {
        let answer =
            tokio::spawn(async move { Ok(agent.run_in(&cx, "again").await?.into_output()) });
        Box::pin(async move { answer.await.unwrap() })
    });
    // The tool's task is not polled by the calling agent, so each level calls the model until it
    // reaches its limit of tool failures.
    let error = on_worker(async move {
        agent.settings(Limits::default().max_tool_failures(1)).run("begin").await.unwrap_err()
    });
    assert!(matches!(error, Error::ToolFailures { .. }), "{error}");
    assert!(error.to_string().contains("1 tool calls failed in a row"), "{error}");
}

/// Asks from a thread for blocking work.
#[tool(blocking)]
fn ask_blocking(cx: &Context, question: String) -> Result<String> {
    let cx = cx.clone();
    tokio::runtime::Handle::current()
        .block_on(async move { blocking_colleague(&cx, question).await })
}

/// Answer the question.
#[agent(tools = [ask_blocking])]
async fn blocking_colleague(cx: &Context, question: String) -> Result<String>;

#[test]
fn blocking_tools() {
    let model = Caller::new();
    let runtime = runtime(&model).build();
    let error = on_worker(async move {
        blocking_colleague(&runtime.context(), "why?".into()).await.unwrap_err()
    });
    assert_limit(&error);
    assert_eq!(model.asked(), DEPTH);
}

/// Counts down for ever.
#[workflow]
async fn down(cx: &Context, from: u64) -> Result<u64> {
    let below = down(cx, from.wrapping_sub(1)).await?;
    Ok(below)
}

#[test]
fn a_workflow_that_calls_itself() {
    let seen = Seen::default();
    let runtime = test_runtime().sink(seen.clone()).build();
    let error = on_worker(async move { down(&runtime.context(), 3).await.unwrap_err() });
    assert_limit(&error);
    assert_eq!(
        seen.count(|kind| matches!(kind, EventKind::WorkflowStarted(_) | EventKind::RunStarted(_))),
        16
    );
    check_events(&seen.0.lock().unwrap()).unwrap();
}

/// Starts each level as a separate run.
#[workflow]
async fn down_alone(from: u64) -> Result<u64> {
    let below = down_alone(from.wrapping_sub(1)).await?;
    Ok(below)
}

#[test]
fn a_workflow_without_a_context_that_calls_itself() {
    assert_limit(&on_worker(async { down_alone(3).await.unwrap_err() }));
}

#[test]
fn a_workflow_that_is_started_and_calls_itself() {
    let seen = Seen::default();
    let runtime = test_runtime().sink(seen.clone()).build();
    let error = on_worker(async move {
        runtime.start(down::workflow(), 3).await.unwrap().result().await.unwrap_err()
    });
    assert_eq!(error.kind(), "nesting_limit");
    assert_eq!(
        seen.count(|kind| matches!(kind, EventKind::WorkflowStarted(_) | EventKind::RunStarted(_))),
        16
    );
    assert!(
        error.to_string().ends_with("raise the limit with `Runtime::builder().max_nesting(..)`"),
        "{error}"
    );
}

/// Looks into a case.
#[tool]
async fn look_into(cx: &Context, question: String) -> Result<String> {
    case(cx, question).await
}

/// Investigate.
#[agent(tools = [look_into])]
async fn investigate(cx: &Context, question: String) -> Result<String>;

/// A workflow whose agent has the workflow in its tool.
#[workflow]
async fn case(cx: &Context, question: String) -> Result<String> {
    let findings = map!(vec![question], |question| investigate(cx, question)).await?;
    let last = timeout!("1h", summary(findings)).await?;
    Ok(last)
}

async fn summary(findings: Vec<String>) -> Result<String> {
    Ok(findings.concat())
}

#[test]
fn an_agent_in_a_workflow_in_a_tool_of_the_agent() {
    for middleware in [false, true] {
        let (model, seen) = (Caller::new(), Seen::default());
        let mut builder = runtime(&model).sink(seen.clone());
        if middleware {
            builder = builder.with(Nothing);
        }
        let runtime = builder.build();
        let error =
            on_worker(async move { case(&runtime.context(), "who?".into()).await.unwrap_err() });
        assert_eq!(error.kind(), "nesting_limit", "{error}");
        assert_eq!(model.asked(), DEPTH / 2);
        check_events(&seen.0.lock().unwrap()).unwrap();
    }
}

/// Asks a colleague, or answers himself.
#[tool]
async fn ask_or_answer(cx: &Context, question: String) -> String {
    match forgiving(cx, question).await {
        Ok(answer) => answer,
        Err(_) => "nobody knows".to_owned(),
    }
}

/// Answer the question.
#[agent(tools = [ask_or_answer], max_steps = 1)]
async fn forgiving(cx: &Context, question: String) -> Result<String>;

#[test]
fn a_tool_may_answer_all_the_same() {
    let model = Caller::new();
    let runtime = runtime(&model).max_nesting(3).build();
    let error =
        on_worker(async move { forgiving(&runtime.context(), "why?".into()).await.unwrap_err() });
    assert!(matches!(error, Error::MaxStepsReached { .. }), "{error}");
    assert_eq!(model.asked(), 3);
}

#[test]
fn the_limit_is_the_runtimes() {
    let model = Caller::new();
    let runtime = runtime(&model).max_nesting(2).build();
    let error =
        on_worker(async move { colleague(&runtime.context(), "why?".into()).await.unwrap_err() });
    assert!(matches!(error, Error::NestingLimit { depth: 2, .. }), "{error}");
    assert_eq!(model.asked(), 2);
}

/// Asks two colleagues, one after another.
#[tool(effects = "read")]
async fn ask_twice(cx: &Context) -> Result<String> {
    let colleague = Agent::new(ScriptedModel::from_fn(|_| Turn::text("Yes."))).name("colleague");
    colleague.run_in(cx, "First?").await?;
    Ok(colleague.run_in(cx, "Second?").await?.to_string())
}

/// Middleware that runs another agent before each agent.
struct Prepares;

#[agentflow::async_trait]
impl Middleware for Prepares {
    fn name(&self) -> &str {
        "prepares"
    }

    async fn before_agent(&self, step: &mut AgentStep) -> Result<Flow<Message>> {
        if step.agent() == "colleague" {
            let helper =
                Agent::new(ScriptedModel::from_fn(|_| Turn::text("Ready."))).name("helper");
            helper.run_in(step.context(), "Ready?").await?;
        }
        Ok(Flow::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_begun_in_a_hook_of_a_later_agent_has_a_path_of_its_own() {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("ask_twice", json!({})),
        _ => Turn::text("Both said yes."),
    });
    let agent = Agent::new(model).tools(tools![ask_twice]);
    CrashTest::agent(&agent, || "Do they agree?")
        .runtime(|runtime| runtime.with(Prepares))
        .run()
        .await;

    let runtime = test_runtime().with(Prepares).build();
    let events = agent.runtime(&runtime).run("Do they agree?").await.unwrap().events();
    let begun = events.iter().filter(|event| matches!(event.kind, EventKind::AgentStarted(_)));
    let paths: Vec<String> = begun.map(|event| event.path.to_string()).collect();
    let base = "tool#1.ask_twice";
    assert_eq!(
        paths,
        ["/hooks", "", "/call#2/hooks", "/call#2"].map(|place| format!("{base}{place}"))
    );
}
