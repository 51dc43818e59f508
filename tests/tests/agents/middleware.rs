//! Middleware: the order of hooks, short-circuits, the records they leave, and budgets that hold across a crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::Limits;
use agentflow::event::{AgentCompleted, EventKind};
use agentflow::message::{Conversation, ToolResult, ToolStatus};
use agentflow::middleware::{
    AgentStep, CacheStore, Cost, Flow, Middleware, ModelStep, Price, Prices, Recovery, RunInfo,
    Scope, ToolStep, cache, circuit_breaker, cost_tracker, fallback_models, rate_limit, redact,
    retry, token_budget,
};
use agentflow::model::{ModelError, ModelErrorKind, ModelResponse, Usage};
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::store::{MemoryStore, Store};
use agentflow::workflow::Node;
use agentflow::{Error, Event, RunId, Workflow, async_trait};
use agentflow_testing::{ScriptedModel, Turn, assert_trace, check_events, test_runtime, within};

/// Look something up.
#[tool(effects = "none")]
fn look_up(what: String) -> String {
    format!("about {what}")
}

/// Fail.
#[tool(effects = "none")]
fn broken() -> Result<String, String> {
    Err("it is broken".to_owned())
}

type Notes = Arc<Mutex<Vec<String>>>;

fn noted(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut notes.lock().unwrap())
}

/// Records every hook, and answers at a chosen one.
#[derive(Clone)]
struct Spy {
    name: &'static str,
    answers: &'static str,
    notes: Notes,
}

impl Spy {
    fn new(name: &'static str, notes: &Notes) -> Self {
        Self { name, answers: "", notes: Arc::clone(notes) }
    }

    fn answering(mut self, hook: &'static str) -> Self {
        self.answers = hook;
        self
    }

    fn note<T>(&self, hook: &str, answer: impl FnOnce() -> T) -> Result<Flow<T>> {
        self.notes.lock().unwrap().push(format!("{}.{hook}", self.name));
        Ok(if self.answers == hook { Flow::Return(answer()) } else { Flow::Continue })
    }
}

#[async_trait]
impl Middleware for Spy {
    fn name(&self) -> &str {
        self.name
    }

    async fn before_run(&self, _: &RunInfo) -> Result<()> {
        self.note("before_run", || ()).map(drop)
    }

    async fn after_run(&self, _: &RunInfo, _: Result<(), &Error>) {
        let _ = self.note("after_run", || ());
    }

    async fn before_agent(&self, _: &mut AgentStep) -> Result<Flow<Message>> {
        self.note("before_agent", || Message::assistant("answered"))
    }

    async fn after_agent(&self, _: &AgentStep, _: &mut AgentCompleted) -> Result<()> {
        self.note("after_agent", || ()).map(drop)
    }

    async fn before_model(&self, _: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        self.note("before_model", || ModelResponse::new(Message::assistant("answered")))
    }

    async fn after_model(&self, _: &mut ModelStep, _: &mut ModelResponse) -> Result<()> {
        self.note("after_model", || ()).map(drop)
    }

    async fn on_model_error(&self, _: &mut ModelStep, _: &ModelError) -> Result<Flow<Recovery>> {
        self.note("on_model_error", || ModelResponse::new(Message::assistant("replaced")).into())
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        self.note("before_tool", || step.result(ToolStatus::Success, "\"answered\""))
    }

    async fn after_tool(&self, _: &ToolStep, _: &mut ToolResult) -> Result<()> {
        self.note("after_tool", || ()).map(drop)
    }

    async fn on_tool_error(&self, step: &ToolStep, _: &ToolResult) -> Result<Flow<ToolResult>> {
        self.note("on_tool_error", || step.result(ToolStatus::Success, "\"replaced\""))
    }
}

fn events_of<O>(result: &agentflow::run::RunResult<O>) -> Vec<Event> {
    let events = result.events();
    check_events(&events).unwrap();
    assert_eq!(Conversation::from_events(&events), *result.conversation());
    events
}

#[tokio::test]
async fn hooks_before_run_inwards_and_hooks_after_outwards() {
    let notes = Notes::default();
    let runtime = test_runtime().with(Spy::new("a", &notes)).with(Spy::new("b", &notes)).build();
    let model =
        ScriptedModel::new([Turn::call("look_up", json!({"what": "x"})), Turn::text("done")]);
    let agent =
        Agent::new(model).tools(tools![look_up]).runtime(&runtime).with(Spy::new("own", &notes));
    events_of(&agent.run("go").await.unwrap());
    let expected = [
        "a.before_run",
        "b.before_run", //
        "a.before_agent",
        "b.before_agent",
        "own.before_agent", //
        "a.before_model",
        "b.before_model",
        "own.before_model", //
        "own.after_model",
        "b.after_model",
        "a.after_model", //
        "a.before_tool",
        "b.before_tool",
        "own.before_tool", //
        "own.after_tool",
        "b.after_tool",
        "a.after_tool", //
        "a.before_model",
        "b.before_model",
        "own.before_model", //
        "own.after_model",
        "b.after_model",
        "a.after_model", //
        "own.after_agent",
        "b.after_agent",
        "a.after_agent", //
        "b.after_run",
        "a.after_run",
    ];
    assert_eq!(noted(&notes), expected);
}

#[tokio::test]
async fn a_short_circuit_skips_all_that_is_inside_of_it() {
    let notes = Notes::default();
    let run = async |hook: &'static str, turns: Vec<Turn>| {
        let runtime = test_runtime()
            .with(Spy::new("a", &notes))
            .with(Spy::new("b", &notes).answering(hook))
            .with(Spy::new("c", &notes))
            .build();
        let agent = Agent::new(ScriptedModel::new(turns)).tools(tools![look_up]).runtime(&runtime);
        let result = agent.with(Spy::new("own", &notes)).run("go").await.unwrap();
        let subject = hook.split_once('_').unwrap().1;
        let mut heard = noted(&notes);
        heard.retain(|note| note.ends_with(subject));
        (result.output().clone(), heard, events_of(&result))
    };

    let (output, heard, events) = run("before_model", Vec::new()).await;
    assert_eq!(output, "answered");
    assert_eq!(heard, ["a.before_model", "b.before_model", "a.after_model"]);
    let by = events.iter().find_map(|event| match &event.kind {
        EventKind::ModelCompleted(response) => response.answered_by.clone(),
        _ => None,
    });
    assert_eq!(by.as_deref(), Some("b"));

    let (output, heard, events) = run("before_agent", Vec::new()).await;
    assert_eq!(output, "answered");
    assert_eq!(heard, ["a.before_agent", "b.before_agent", "a.after_agent"]);
    assert_eq!(events.len(), 2);
    assert_eq!(Conversation::from_events(&events).last().unwrap().text(), "answered");

    let turns = vec![
        Turn::call("look_up", json!({"what": "x"})).id("c1"),
        Turn::text("done").expect_result("c1", "answered"),
    ];
    let (output, heard, events) = run("before_tool", turns).await;
    assert_eq!(output, "done");
    assert_eq!(heard, ["a.before_tool", "b.before_tool", "a.after_tool"]);
    let by = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolCompleted { answered_by, .. } => answered_by.clone(),
        _ => None,
    });
    assert_eq!(by.as_deref(), Some("b"));
}

#[tokio::test]
async fn an_error_hook_may_give_a_replacement() {
    let notes = Notes::default();
    let runtime = test_runtime()
        .with(Spy::new("a", &notes))
        .with(Spy::new("b", &notes).answering("on_model_error"))
        .with(Spy::new("c", &notes))
        .build();
    let agent =
        Agent::new(ScriptedModel::new([Turn::fails(ModelErrorKind::Server)])).runtime(&runtime);
    let result = agent.run("go").await.unwrap();
    assert_eq!(result.output(), "replaced");
    let mut heard = noted(&notes);
    heard.retain(|note| note.contains("model"));
    assert_eq!(
        heard,
        [
            "a.before_model",
            "b.before_model",
            "c.before_model",
            "c.on_model_error",
            "b.on_model_error",
            "a.after_model"
        ]
    );
    // The failure is recorded together with the middleware that answered.
    assert_trace(
        events_of(&result),
        r#"
        run.started "go"
        model#1 retrying server ..
        model#1 completed stop "replaced"
        run.completed "replaced"
        "#,
    );

    let runtime = test_runtime()
        .with(Spy::new("a", &notes))
        .with(Spy::new("b", &notes).answering("on_tool_error"))
        .build();
    let turns = [
        Turn::call("broken", json!({})).id("c1"),
        Turn::text("done").expect_result("c1", "replaced"),
    ];
    let agent = Agent::new(ScriptedModel::new(turns)).tools(tools![broken]).runtime(&runtime);
    events_of(&agent.run("go").await.unwrap());
    let mut heard = noted(&notes);
    heard.retain(|note| note.contains("tool"));
    assert_eq!(heard, ["a.before_tool", "b.before_tool", "b.on_tool_error", "a.after_tool"]);
}

#[tokio::test]
async fn what_hooks_change_is_what_is_sent_and_recorded() {
    let turns = [
        Turn::call("look_up", json!({"what": "x"})).id("c1").expect_last("continue"),
        Turn::text("done").expect_result("c1", "about changed!"),
    ];
    let hooks = Hooks::new()
        .before_agent(|step| {
            step.conversation.push(Message::user("continue"));
            Ok(Flow::Continue)
        })
        .before_tool(|step| {
            step.arguments = json!({"what": "changed"}).to_string();
            Ok(Flow::Continue)
        })
        .after_tool(|_, result| {
            result.output = json!("about changed!").to_string();
            Ok(())
        })
        .after_model(|_, response| {
            if response.message.tool_calls().next().is_none() {
                response.message = Message::assistant("done, really").into();
            }
            Ok(())
        });
    let agent = Agent::new(ScriptedModel::new(turns)).tools(tools![look_up]).with(hooks);
    let result = agent.run("go").await.unwrap();
    assert_trace(
        events_of(&result),
        r#"
        run.started "continue"
        model#1 completed tool_calls
        tool#1.look_up started {"what":"changed"}
        tool#1.look_up completed "about changed!"
        model#2 completed stop "done, really"
        run.completed "done, really"
        "#,
    );
}

#[tokio::test]
async fn an_error_of_a_hook_ends_the_run_and_leaves_nothing_open() {
    let stop = || Error::Middleware { name: "test".into(), problem: "no".to_owned() };
    let turns =
        || [Turn::calls([("look_up", json!({"what": "x"})), ("look_up", json!({"what": "y"}))])];
    let agent = |turns| {
        Agent::new(ScriptedModel::new(turns))
            .tools(tools![look_up])
            .runtime(&test_runtime().build())
    };
    let agents = [
        agent(Vec::new()).with(Hooks::new().before_agent(move |_| Err(stop()))),
        agent(Vec::new()).with(Hooks::new().before_model(move |_| Err(stop()))),
        agent(vec![Turn::text("hi")]).with(Hooks::new().after_model(move |_, _| Err(stop()))),
        agent(vec![Turn::text("hi")]).with(Hooks::new().after_agent(move |_, _| Err(stop()))),
        agent(turns().into()).with(Hooks::new().before_tool(move |_| Err(stop()))),
        agent(turns().into()).with(Hooks::new().after_tool(move |_, _| Err(stop()))),
    ];
    for agent in agents {
        let handle = agent.start("go").unwrap();
        let error = handle.result().await.unwrap_err();
        assert_eq!(error.kind(), "middleware");
        check_events(&handle.recorded()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_may_be_cancelled_inside_of_a_hook() {
    struct Waits;
    #[async_trait]
    impl Middleware for Waits {
        fn name(&self) -> &str {
            "waits"
        }
        async fn before_agent(&self, _: &mut AgentStep) -> Result<Flow<Message>> {
            std::future::pending().await
        }
    }
    let handle = Agent::new(ScriptedModel::new([])).with(Waits).start("go").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel("enough").await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "cancelled");
    check_events(&handle.recorded()).unwrap();
}

/// Creates a model that calls a tool in this many turns and then answers. Every call costs 10 + 5
/// tokens. It counts its calls.
fn talker(turns: usize, calls: &Arc<AtomicU32>) -> ScriptedModel {
    let calls = Arc::clone(calls);
    ScriptedModel::from_fn(move |request| {
        calls.fetch_add(1, Ordering::SeqCst);
        let done = request
            .messages
            .messages()
            .iter()
            .filter(|message| message.results().next().is_some())
            .count();
        let turn = match done < turns {
            true => Turn::call("look_up", json!({"what": "x"})),
            false => Turn::text("done"),
        };
        turn.usage(Usage::new(10, 5))
    })
    .named("p", "m")
}

async fn store_with(events: &[Event]) -> MemoryStore {
    let store = MemoryStore::new();
    store.create(&events[0].run_id, events.to_vec()).await.unwrap();
    store
}

/// Returns the number of model calls in the events, without those that middleware answered.
fn calls_in(events: &[Event]) -> usize {
    let answered = |event: &&Event| matches!(&event.kind, EventKind::ModelCompleted(r) if r.answered_by.is_some());
    let started =
        events.iter().filter(|event| matches!(event.kind, EventKind::ModelStarted { .. })).count();
    started - events.iter().filter(answered).count()
}

/// Runs to the end, then resumes from every prefix of the journal, and checks that no run makes
/// more calls than allowed.
async fn holds_over_a_crash(
    make: impl Fn(&Runtime, &Arc<AtomicU32>) -> Agent,
    builder: impl Fn() -> agentflow::runtime::RuntimeBuilder,
    most: u32,
    expected: Result<&str, &str>,
) {
    let calls = Arc::new(AtomicU32::new(0));
    let outcome = |result: Result<agentflow::run::RunResult>| match result {
        Ok(result) => Ok(result.output().clone()),
        Err(error) => Err(error.kind().as_str().to_owned()),
    };
    let expected = expected.map(str::to_owned).map_err(str::to_owned);
    let runtime = builder().store(MemoryStore::new()).build();
    let handle = make(&runtime, &calls).start("go").unwrap();
    assert_eq!(outcome(handle.result().await), expected);
    assert_eq!(calls.load(Ordering::SeqCst), most);
    let events = handle.recorded();
    check_events(&events).unwrap();
    for cut in 1..events.len() {
        let runtime = builder().store(store_with(&events[..cut]).await).build();
        let calls = Arc::new(AtomicU32::new(0));
        let handle = make(&runtime, &calls).resume(&events[0].run_id).await.unwrap();
        assert_eq!(outcome(handle.result().await), expected, "cut after {cut}");
        let all = handle.recorded();
        check_events(&all).unwrap();
        // An interrupted call is retried, and every other call is made once. The interrupted call
        // may have reached the model, so call limits count it. Token limits cannot: its usage is
        // unknown.
        let finished = events[..cut].iter().filter(|event| match &event.kind {
            EventKind::ModelCompleted(response) => response.answered_by.is_none(),
            _ => false,
        });
        let made = finished.count() as u32 + calls.load(Ordering::SeqCst);
        let lost = u32::from(
            events[cut - 1].name() == "model.started"
                && expected == Err("llm_call_limit".to_owned()),
        );
        assert!((most - lost..=most).contains(&made), "cut after {cut}: {made} calls");
    }
}

#[tokio::test]
async fn a_token_budget_stops_before_the_call_that_would_exceed_it_also_after_a_crash() {
    let make = |runtime: &Runtime, calls: &Arc<AtomicU32>| {
        Agent::new(talker(9, calls)).tools(tools![look_up]).runtime(runtime)
    };
    // Two calls cost 30. The third would read at least 15 more.
    for scope in [Scope::Run, Scope::Invocation] {
        let builder = move || test_runtime().with(token_budget(44).scope(scope));
        holds_over_a_crash(make, builder, 2, Ok("Token budget of 44 exceeded.")).await;
        let builder = move || test_runtime().with(token_budget(45).scope(scope).failing());
        holds_over_a_crash(make, builder, 3, Err("budget_exceeded")).await;
    }
}

#[tokio::test]
async fn a_cost_budget_stops_before_the_call_that_would_exceed_it_also_after_a_crash() {
    let make = |runtime: &Runtime, calls: &Arc<AtomicU32>| {
        Agent::new(talker(9, calls)).tools(tools![look_up]).runtime(runtime)
    };
    // A call costs 10 + 2 * 5 = 20 millionths.
    let prices = || Prices::new().model("p/m", Price::per_million(1.0, 2.0));
    let builder = || test_runtime().with(cost_tracker(prices()).max_cost(0.000_05));
    holds_over_a_crash(make, builder, 2, Err("budget_exceeded")).await;
}

#[tokio::test]
async fn a_limit_of_calls_holds_also_after_a_crash() {
    let make = |runtime: &Runtime, calls: &Arc<AtomicU32>| {
        let limits = Limits::default().max_llm_calls(3);
        Agent::new(talker(9, calls)).tools(tools![look_up]).settings(limits).runtime(runtime)
    };
    holds_over_a_crash(make, test_runtime, 3, Err("llm_call_limit")).await;
    holds_over_a_crash(
        make,
        || test_runtime().with(cost_tracker(Prices::new()).allow_unpriced()),
        3,
        Err("llm_call_limit"),
    )
    .await;
}

/// Builds a workflow of three agents in a row that make two calls each.
fn three_agents(calls: &Arc<AtomicU32>) -> Workflow<(String,), String> {
    let calls = Arc::clone(calls);
    Workflow::build("three", ["task"], |b, (task,)| {
        let mut last = task;
        for name in ["one", "two", "three"] {
            let agent = Agent::new(talker(1, &calls)).name(name).tools(tools![look_up]);
            last = b.node(name, (last,), move |cx, (task,)| {
                let agent = agent.clone();
                async move { Ok::<_, Error>(agent.run_in(&cx, task).await?.into_output()) }
            });
        }
        last
    })
    .unwrap()
}

#[tokio::test]
async fn all_agents_of_a_run_count_together() {
    let run = async |builder: agentflow::runtime::RuntimeBuilder, crash_after: Option<usize>| {
        let calls = Arc::new(AtomicU32::new(0));
        let workflow = three_agents(&calls);
        let store = MemoryStore::new();
        let runtime = builder.store(store).build();
        let handle = runtime.start(workflow.clone(), "go".to_owned()).await.unwrap();
        let result = handle.result().await.map_err(|error| error.kind().as_str().to_owned());
        let events = handle.recorded();
        check_events(&events).unwrap();
        let Some(cut) = crash_after else { return (result, calls.load(Ordering::SeqCst), events) };
        calls.store(0, Ordering::SeqCst);
        let runtime = runtime.with_store(store_with(&events[..cut]).await);
        let handle = runtime.run(&events[0].run_id).resume_as(&workflow).await.unwrap();
        let result = handle.result().await.map_err(|error| error.kind().as_str().to_owned());
        let before =
            events[..cut].iter().filter(|event| event.name() == "model.completed").count() as u32;
        (result, before + calls.load(Ordering::SeqCst), handle.recorded())
    };
    let (result, calls, events) = run(test_runtime(), None).await;
    assert_eq!((result, calls), (Ok("done".to_owned()), 6));

    // The call limit of the runtime needs no middleware.
    let limited = || test_runtime().max_llm_calls(5);
    assert_eq!(run(limited(), None).await.0, Err("llm_call_limit".to_owned()));
    let budget = || test_runtime().with(token_budget(60).failing());
    let cut_at = |name: &str| {
        events
            .iter()
            .position(|event| event.name() == name && event.path.to_string() == "two")
            .unwrap()
    };
    for cut in [cut_at("agent.started"), cut_at("agent.completed") + 1] {
        let (result, calls, _) = run(limited(), Some(cut)).await;
        assert_eq!((result, calls), (Err("llm_call_limit".to_owned()), 5), "cut after {cut}");
        let (result, calls, _) = run(budget(), Some(cut)).await;
        assert_eq!((result, calls), (Err("budget_exceeded".to_owned()), 4), "cut after {cut}");
    }
    // A single agent spends 30.
    let invocation = test_runtime().with(token_budget(40).scope(Scope::Invocation).failing());
    assert_eq!(run(invocation, None).await.0, Ok("done".to_owned()));
}

#[tokio::test]
async fn an_unpriced_model_is_an_error_before_it_is_called() {
    let agent = |turns: Vec<Turn>, costs| {
        Agent::new(ScriptedModel::new(turns)).runtime(&test_runtime().with(costs).build())
    };
    let error = agent(Vec::new(), cost_tracker(Prices::new())).run("go").await.unwrap_err();
    assert!(error.to_string().contains("has no price"), "{error}");
    let allowed = cost_tracker(Prices::new()).allow_unpriced();
    assert_eq!(agent(vec![Turn::text("hi")], allowed).run("go").await.unwrap().output(), "hi");
}

#[tokio::test]
async fn a_budget_that_is_not_a_number_lets_nothing_pass() {
    for (price, most) in [(1.0, f64::NAN), (f64::NAN, 5.0)] {
        let prices = Prices::new().model("scripted", Price::per_million(price, price));
        let model = ScriptedModel::new([]);
        let runtime = test_runtime().with(cost_tracker(prices).max_cost(most)).build();
        let error = Agent::new(model).runtime(&runtime).run("go").await.unwrap_err();
        assert!(matches!(error, Error::BudgetExceeded { .. }), "{error}");
    }
}

#[tokio::test]
async fn costs_are_reported_by_agent_and_in_total() {
    let told: Arc<Mutex<Vec<Cost>>> = Arc::default();
    let sink = Arc::clone(&told);
    let costs = cost_tracker(Prices::new().model("m", Price::per_million(1.0, 2.0).cached(0.1)))
        .sink(move |cost: &Cost| sink.lock().unwrap().push(cost.clone()));
    let runtime = test_runtime().with(costs.clone()).build();
    let calls = Arc::default();
    runtime.start(three_agents(&calls), "go".to_owned()).await.unwrap().result().await.unwrap();
    let told = told.lock().unwrap();
    let rounded: Vec<(String, f64, f64)> = told
        .iter()
        .map(|cost| {
            (
                cost.agent.to_string(),
                (cost.agent_total * 1e6).round(),
                (cost.run_total * 1e6).round(),
            )
        })
        .collect();
    let expected =
        [("one", 20.0, 20.0), ("one", 40.0, 40.0), ("two", 20.0, 60.0), ("two", 40.0, 80.0)];
    for (told, (agent, own, total)) in rounded.iter().zip(expected) {
        assert_eq!(*told, (agent.to_owned(), own, total));
    }
    assert_eq!(told.len(), 6);
    assert!((costs.total() * 1e6 - 120.0).abs() < 1e-6);
    assert!((costs.by_agent()["three"] * 1e6 - 40.0).abs() < 1e-6);
    assert!(
        (Price::per_million(1.0, 2.0).cached(0.1).of(&{
            let mut usage = Usage::new(1_000_000, 0);
            usage.cached_tokens = Some(500_000);
            usage
        }) - 0.55)
            .abs()
            < 1e-9
    );
}

#[tokio::test(start_paused = true)]
async fn a_cache_answers_until_its_time_is_over_and_costs_nothing() {
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<BTreeMap<String, String>>>);
    #[async_trait]
    impl CacheStore for Kept {
        async fn get(&self, key: &str) -> Result<Option<String>, agentflow::store::StoreError> {
            Ok(self.0.lock().unwrap().get(key).cloned())
        }
        async fn put(
            &self,
            key: &str,
            text: String,
            _: Option<agentflow::time::Timestamp>,
        ) -> Result<(), agentflow::store::StoreError> {
            self.0.lock().unwrap().insert(key.to_owned(), text);
            Ok(())
        }
    }
    let calls = Arc::default();
    let kept = Kept::default();
    // Two programs in a row that share a store.
    let agent = || {
        let runtime =
            test_runtime().with(cache().ttl(Duration::from_secs(60)).store(kept.clone())).build();
        Agent::new(talker(1, &calls)).tools(tools![look_up]).runtime(&runtime)
    };
    let first = agent().run("go").await.unwrap();
    let second = agent().run("go").await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(first.conversation(), second.conversation());
    assert_eq!((second.usage().input_tokens, calls_in(&events_of(&second))), (0, 0));
    agent().run("go elsewhere").await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    tokio::time::sleep(Duration::from_secs(61)).await;
    // The clock of a test's runtime starts when the runtime is built.
    let runtime = test_runtime().build();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let old = Agent::new(talker(1, &calls)).tools(tools![look_up]).runtime(&runtime);
    old.with(cache().ttl(Duration::from_secs(60)).store(kept.clone())).run("go").await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_as_the_provider_asks_and_is_recorded() {
    let limited = || {
        ModelError::new(ModelErrorKind::RateLimited, "slow")
            .with_retry_after(Duration::from_secs(7))
    };
    let turns =
        vec![Turn::error(limited()), Turn::fails(ModelErrorKind::Server), Turn::text("done")];
    let began = tokio::time::Instant::now();
    let runtime = test_runtime().with(retry(2).base(Duration::from_secs(10))).build();
    let result = Agent::new(ScriptedModel::new(turns)).runtime(&runtime).run("go").await.unwrap();
    let waited = began.elapsed();
    // 7 s as requested by the provider, then 15 to 20 s after the second failure.
    assert!((Duration::from_secs(22)..=Duration::from_secs(27)).contains(&waited), "{waited:?}");
    let events = events_of(&result);
    assert_eq!(events.iter().filter(|event| event.name() == "model.retrying").count(), 2);
    assert_eq!(calls_in(&events), 3);

    let fails = |turns: Vec<Turn>, retry: agentflow::middleware::Retry| async move {
        Agent::new(ScriptedModel::new(turns))
            .with(retry)
            .run("go")
            .await
            .unwrap_err()
            .kind()
            .as_str()
            .to_owned()
    };
    assert_eq!(fails(vec![Turn::fails(ModelErrorKind::Auth)], retry(2)).await, "auth");
    assert_eq!(
        fails(vec![Turn::fails(ModelErrorKind::Server)], retry(2).on([ModelErrorKind::Overloaded]))
            .await,
        "server"
    );
    assert_eq!(
        fails(vec![Turn::error(limited())], retry(2).longest(Duration::from_secs(5))).await,
        "rate_limited"
    );
    let thrice = (0..3).map(|_| Turn::fails(ModelErrorKind::Server)).collect();
    assert_eq!(fails(thrice, retry(2)).await, "server");
}

#[tokio::test(start_paused = true)]
async fn retries_that_a_crash_interrupted_are_counted_and_limited() {
    let turns = |n| (0..n).map(|_| Turn::fails(ModelErrorKind::Server));
    let make = |n: usize| Agent::new(ScriptedModel::new(turns(n)));
    let runtime = |store| test_runtime().with(retry(3)).store(store).build();
    let handle = make(4).runtime(&runtime(MemoryStore::new())).start("go").unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "server");
    let events = handle.recorded();
    check_events(&events).unwrap();
    let last = events.iter().position(|event| event.name() == "model.failed").unwrap();
    for cut in 1..last {
        let failed = events[..cut].iter().filter(|event| event.name() == "model.retrying").count();
        let runtime = runtime(store_with(&events[..cut]).await);
        let model = ScriptedModel::new(turns(4 - failed));
        let handle =
            Agent::new(model.clone()).runtime(&runtime).resume(&events[0].run_id).await.unwrap();
        assert_eq!(handle.result().await.unwrap_err().kind(), "server");
        model.finish();
        check_events(&handle.recorded()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn fallbacks_are_tried_in_order_also_after_a_crash() {
    let fails = |name: &'static str, n: usize| {
        ScriptedModel::new((0..n).map(|_| Turn::fails(ModelErrorKind::Overloaded))).named(name, "m")
    };
    let good = || ScriptedModel::new([Turn::text("done")]).named("c", "m");
    let runtime = |store| test_runtime().store(store).build();
    let agent = |a, b| Agent::new(a).with(fallback_models([b, good()])).with(retry(1));
    let handle = agent(fails("a", 2), fails("b", 2))
        .runtime(&runtime(MemoryStore::new()))
        .start("go")
        .unwrap();
    assert_eq!(handle.result().await.unwrap().output(), "done");
    let events = handle.recorded();
    check_events(&events).unwrap();
    let asked = |events: &[Event]| -> Vec<String> {
        let name = |event: &Event| match &event.kind {
            EventKind::ModelStarted { provider, .. } => Some(provider.to_string()),
            _ => None,
        };
        events.iter().filter_map(name).collect()
    };
    assert_eq!(asked(&events), ["a", "a", "b", "b", "c"]);
    // Cut after the second attempt of `b` started.
    let cut = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.name() == "model.started")
        .nth(3)
        .unwrap()
        .0
        + 1;
    let runtime = runtime(store_with(&events[..cut]).await);
    let handle = agent(fails("a", 0), fails("b", 1))
        .runtime(&runtime)
        .resume(&events[0].run_id)
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap().output(), "done");
    assert_eq!(asked(&handle.recorded()), ["a", "a", "b", "b", "b", "c"]);

    // An invalid request would fail at every model, so the fallback is not tried.
    let wrong = ScriptedModel::new([Turn::fails(ModelErrorKind::BadRequest)]);
    let error = Agent::new(wrong)
        .with(fallback_models([ScriptedModel::new([]).named("c", "m")]))
        .run("go")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "bad_request");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_waits_and_a_cancelled_run_waits_no_more() {
    let calls = Arc::default();
    let runtime = test_runtime().with(rate_limit(2, Duration::from_secs(10))).build();
    let agent = Agent::new(talker(0, &calls)).runtime(&runtime);
    let began = tokio::time::Instant::now();
    for expected in [0, 0, 10, 10, 20] {
        agent.run("go").await.unwrap();
        assert_eq!(began.elapsed().as_secs(), expected);
    }
    agent.run("go").await.unwrap();
    let handle = agent.start("go").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel("enough").await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "cancelled");
    check_events(&handle.recorded()).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 6);

    let runtime = test_runtime().with(rate_limit(100, Duration::from_secs(10)).tokens(20)).build();
    let agent = Agent::new(talker(0, &calls)).runtime(&runtime);
    let began = tokio::time::Instant::now();
    for expected in [0, 0, 10, 10, 20] {
        agent.run("go").await.unwrap();
        assert_eq!(began.elapsed().as_secs(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_circuit_opens_lets_one_through_and_closes() {
    let turns = [
        Turn::fails(ModelErrorKind::Server),
        Turn::fails(ModelErrorKind::Server),
        Turn::fails(ModelErrorKind::Server),
        Turn::text("one"),
        Turn::text("two"),
    ];
    let model = ScriptedModel::new(turns);
    let agent = Agent::new(model.clone()).with(circuit_breaker(2, Duration::from_secs(30)));
    let run = async || match agent.run("go").await {
        Ok(result) => result.output().clone(),
        Err(error) => error.kind().as_str().to_owned(),
    };
    assert_eq!([run().await, run().await], ["server", "server"]);
    assert_eq!(run().await, "overloaded");
    assert_eq!(model.calls(), 2);
    tokio::time::sleep(Duration::from_secs(31)).await;
    // The trial call fails, so the breaker opens again.
    assert_eq!([run().await, run().await], ["server", "overloaded"]);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!([run().await, run().await], ["one", "two"]);
    model.finish();

    // A fallback outside of the breaker answers without a call to the first model.
    let first = ScriptedModel::new([Turn::fails(ModelErrorKind::Server)]).named("a", "m");
    let second = ScriptedModel::new([Turn::text("x"), Turn::text("y")]).named("b", "m");
    let agent = Agent::new(first.clone())
        .with(fallback_models([second]))
        .with(circuit_breaker(1, Duration::from_secs(30)));
    assert_eq!(agent.run("go").await.unwrap().output(), "x");
    assert_eq!(agent.run("go").await.unwrap().output(), "y");
    assert_eq!(first.calls(), 1);
}

#[tokio::test]
async fn redacted_texts_are_in_no_event_and_the_run_is_the_same() {
    const KEY: &str = "plainly-a-\"key\"-5f1d9c7e2b";
    let runs = |runtime: agentflow::runtime::RuntimeBuilder| {
        let turns = [
            Turn::call("look_up", json!({"what": KEY})).id("c1").expect_text(KEY),
            Turn::text(format!("Mail ada@example.org about {KEY}"))
                .reasoning(KEY)
                .expect_result("c1", format!("about {KEY}")),
        ];
        let agent = Agent::new(ScriptedModel::new(turns))
            .tools(tools![look_up])
            .instruct(format!("Use {KEY}."));
        agent.runtime(&runtime.build())
    };
    let store = MemoryStore::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    struct Sink(Arc<Mutex<Vec<Event>>>);
    impl agentflow::event::EventSink for Sink {
        fn emit(&self, event: &Event) {
            self.0.lock().unwrap().push(event.clone());
        }
        fn wants_deltas(&self) -> bool {
            true
        }
    }
    let redacted = || test_runtime().with(redact().secret(KEY).emails());
    let agent = runs(redacted().store(store.clone()).sink(Sink(Arc::clone(&seen))));
    let mut stream = agent.stream("Look it up.").unwrap();
    let mut streamed = Vec::new();
    while let Some(event) =
        within("the next event", futures_util::StreamExt::next(&mut stream)).await
    {
        streamed.push(event);
    }
    let result = stream.result().await.unwrap();
    assert!(result.output().contains(KEY) && result.output().contains("ada@example.org"));
    let run = RunId::new("run-1");
    let stored = store.read(&run, 0, 100).await.unwrap();
    let plain = runs(test_runtime()).run("Look it up.").await.unwrap().events();
    for events in [&result.events(), &streamed, &*seen.lock().unwrap(), &stored] {
        check_events(events).unwrap();
        assert_eq!(events.len(), plain.len());
        let text = format!("{}{events:?}", serde_json::to_string(events).unwrap());
        for part in ["plainly", "5f1d9c7e2b", "ada@"] {
            assert!(!text.contains(part), "{text}");
        }
        assert!(text.contains("Mail [redacted] about [redacted]"));
    }
    // The run resumes from every prefix, and the model then sees the recorded messages.
    for cut in 1..stored.len() {
        let store = store_with(&stored[..cut]).await;
        let model = ScriptedModel::from_fn(|request| {
            match request.messages.last().unwrap().results().next() {
                Some(_) => Turn::text("done"),
                None => Turn::call("look_up", json!({"what": KEY})),
            }
        });
        let agent = Agent::new(model).tools(tools![look_up]);
        let runtime = redacted().store(store.clone()).build();
        let handle = agent.clone().runtime(&runtime).resume(&run).await.unwrap();
        handle.result().await.unwrap();
        let events = handle.recorded();
        check_events(&events).unwrap();
        assert!(!serde_json::to_string(&events).unwrap().contains("plainly"));
    }
}

#[test]
fn redaction_belongs_to_the_runtime() {
    let error = Agent::new(ScriptedModel::new([])).with(redact()).build().unwrap_err();
    assert!(error.to_string().contains("belongs to the runtime"), "{error}");
}

#[tokio::test]
async fn a_workflow_is_a_run_with_hooks_around_it() {
    let notes = Notes::default();
    let calls = Arc::default();
    let runtime = test_runtime().with(Spy::new("a", &notes)).build();
    runtime.start(three_agents(&calls), "go".to_owned()).await.unwrap().result().await.unwrap();
    let heard = noted(&notes);
    assert_eq!(heard.iter().filter(|note| note.ends_with("_run")).count(), 2);
    assert_eq!(
        (heard.first().unwrap().as_str(), heard.last().unwrap().as_str()),
        ("a.before_run", "a.after_run")
    );
    assert_eq!(heard.iter().filter(|note| note.ends_with("before_agent")).count(), 3);

    struct Refuses;
    #[async_trait]
    impl Middleware for Refuses {
        fn name(&self) -> &str {
            "refuses"
        }
        async fn before_run(&self, _: &RunInfo) -> Result<()> {
            Err(Error::Middleware { name: "refuses".into(), problem: "not today".to_owned() })
        }
    }
    let runtime = test_runtime().with(Refuses).build();
    let handle = runtime.start(three_agents(&calls), "go".to_owned()).await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "middleware");
    check_events(&handle.recorded()).unwrap();
    let handle = Agent::new(ScriptedModel::new([])).runtime(&runtime).start("go").unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "middleware");
    check_events(&handle.recorded()).unwrap();
}

/// Usage of events that a snapshot replaced is still counted.
#[tokio::test]
async fn what_was_spent_survives_a_snapshot() {
    let calls = Arc::new(AtomicU32::new(0));
    let agent = Agent::new(talker(1, &calls)).tools(tools![look_up]);
    let workflow = Workflow::build("many", ["tasks"], |b, (tasks,)| {
        let each = agent.clone();
        let done = b.map(Node::new("each"), tasks, (), move |cx, task: String, ()| {
            let agent = each.clone();
            async move { Ok::<_, Error>(agent.run_in(&cx, task).await?.into_output()) }
        });
        let again = agent.clone();
        let done = b.map(Node::new("again"), done, (), move |cx, task: String, ()| {
            let agent = again.clone();
            async move { Ok::<_, Error>(agent.run_in(&cx, task).await?.into_output()) }
        });
        let last = agent.clone();
        b.node("last", (done,), move |cx, (_,): (Vec<String>,)| {
            let agent = last.clone();
            async move { Ok::<_, Error>(agent.run_in(&cx, "go").await?.into_output()) }
        })
    })
    .unwrap();
    let store = MemoryStore::new();
    let builder = || test_runtime().max_llm_calls(301);
    let runtime = builder().store(store.clone()).build();
    let tasks: Vec<String> = (0..75).map(|n| n.to_string()).collect();
    let handle = runtime.start(workflow.clone(), tasks).await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "llm_call_limit");
    assert_eq!(calls.load(Ordering::SeqCst), 301);
    let run = handle.run_id().clone();
    let snapshot =
        store.snapshot(&run).await.unwrap().expect("a run of so many events has a snapshot");
    let left = snapshot.events.iter().filter(|event| event.name() == "model.started").count();
    let told: u32 = snapshot
        .events
        .iter()
        .find_map(|event| match &event.kind {
            EventKind::RunSpent(rows) => Some(rows.iter().map(|row| row.calls).sum()),
            _ => None,
        })
        .unwrap();
    assert!(left < told as usize, "{left} of {told} calls are in the snapshot");

    // Resumes from the snapshot taken before the last agent started.
    let events = store.read(&run, 0, 10_000).await.unwrap();
    let begins =
        |event: &Event| event.name() == "workflow.node.started" && event.path.to_string() == "last";
    let cut = events.iter().position(begins).unwrap();
    assert!(snapshot.seq as usize <= cut);
    let budget = test_runtime().with(token_budget(301 * 15).failing());
    for (builder, kind) in [(builder(), "llm_call_limit"), (budget, "budget_exceeded")] {
        let store = store_with(&events[..cut]).await;
        let epoch = store.open(&run).await.unwrap();
        store.put_snapshot(&run, epoch, snapshot.clone()).await.unwrap();
        calls.store(0, Ordering::SeqCst);
        let handle = builder.store(store).build().run(&run).resume_as(&workflow).await.unwrap();
        assert_eq!(handle.result().await.unwrap_err().kind(), kind);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn values_of_a_workflow_are_redacted_and_otherwise_as_they_were() {
    const CARD: u64 = 4_111_111_111_111_111;
    let workflow: Workflow<(String, u64), _> =
        Workflow::build("values", ["text", "card"], |b, (text, card)| {
            b.node("step", (text, card), |_, (text, card): (String, u64)| async move {
                Ok::<_, String>((text, 1.0_f64, 18_446_744_073_709_551_615_u64, card))
            })
        })
        .unwrap();
    let runtime =
        test_runtime().with(redact().secret("swordfish").cards()).with(redact().emails()).build();
    let handle =
        runtime.start(workflow, ("a swordfish of a@example.org".to_owned(), CARD)).await.unwrap();
    let output = handle.result().await.unwrap();
    assert_eq!((&*output.0, output.3), ("a swordfish of a@example.org", CARD));
    let events = handle.recorded();
    check_events(&events).unwrap();
    let outputs: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::NodeCompleted { output, .. } => Some(output.as_str().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(
        outputs,
        [r#"["a [redacted] of [redacted]",1.0,18446744073709551615,"[redacted]"]"#]
    );
    let events = serde_json::to_string(&events).unwrap();
    assert!(!events.contains("swordfish") && !events.contains(&CARD.to_string()), "{events}");
}

/// Middleware that records and replaces the instructions of an agent.
struct Instructs(Option<&'static str>);

#[async_trait]
impl Middleware for Instructs {
    fn name(&self) -> &str {
        "instructs"
    }

    async fn before_agent(&self, step: &mut AgentStep) -> Result<Flow<Message>> {
        assert_eq!(step.conversation.messages()[0].text(), "Count.");
        let rest = step.conversation.messages()[1..].iter().map(|message| Message::clone(message));
        step.conversation = self.0.map(Message::system).into_iter().chain(rest).collect();
        Ok(Flow::Continue)
    }
}

#[tokio::test]
async fn middleware_changes_the_instructions_and_not_the_conversation() {
    for (instructions, expected) in
        [(Some("Count down."), vec!["system: Count down.", "user: go"]), (None, vec!["user: go"])]
    {
        let model = ScriptedModel::new([Turn::text("3").expect_conversation(expected)]);
        let runtime = test_runtime().with(Instructs(instructions)).build();
        let result =
            Agent::new(model).instruct("Count.").runtime(&runtime).run("go").await.unwrap();
        assert_eq!(result.conversation().len(), 2);
        assert_eq!(result.conversation().messages()[0].text(), "go");
        events_of(&result);
    }
}
