//! Tests the options of a run: id, caller, tags, grants, limits and resources. They are recorded,
//! apply to all nested runs, and do not change when the run is resumed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunFilter, RunStatus, SqliteStore, StoreErrorKind};
use agentflow::workflow::RunLimits;
use agentflow::{Error, RunId};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime};
use agentflow_tests::ProcessStore;

const SECOND: Duration = Duration::from_secs(1);

/// Who asks.
#[tool(effects = "read")]
async fn who(cx: &Context) -> String {
    format!(
        "{} {:?}{}",
        cx.caller().map_or("nobody", agentflow::Caller::name),
        cx.tags(),
        cx.trace_id().unwrap_or_default()
    )
}

/// Say who asks.
#[agent(tools = [who])]
async fn clerk(cx: &Context, question: String) -> Result<String>;

#[workflow]
async fn asks_who(cx: &Context, _n: u32) -> Result<String> {
    let said = who(cx).await;
    Ok(said)
}

#[workflow]
async fn asks_who_thrice(cx: &Context, n: u32) -> Result<(String, String, String)> {
    let here = who(cx).await;
    let nested = asks_who(cx, n).await?;
    let asked = clerk(cx, "who?".to_owned()).await?;
    Ok((here, nested, asked))
}

/// Returns a model that calls `who` and repeats its answer.
fn repeating() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let last =
            request.messages.last().map(|message| format!("{message:?}")).unwrap_or_default();
        match ["ada", "nobody"].iter().find(|name| last.contains(**name)) {
            Some(name) => Turn::text(*name),
            None => Turn::call("who", json!({})),
        }
    })
}

fn id() -> RunId {
    RunId::new("named")
}

fn process(store: ProcessStore, clock: &TestClock) -> RuntimeBuilder {
    test_runtime().clock(clock.clone()).store(store).model(repeating())
}

/// Returns the content of the run's first event.
fn began(events: &[agentflow::Event]) -> agentflow::event::RunStarted {
    match &events[0].kind {
        EventKind::RunStarted(started) => agentflow::event::RunStarted::clone(started),
        other => panic!("{other:?}"),
    }
}

/// Ends the process of a run after a while.
async fn crash<T>(run: agentflow::RunHandle<T>, store: &ProcessStore, after: Duration) {
    tokio::time::sleep(after).await;
    run.abandon();
    tokio::task::yield_now().await;
    store.die();
}

#[tokio::test(start_paused = true)]
async fn everything_in_a_run_has_its_caller_and_tags() {
    let runtime = process(ProcessStore::new(), &TestClock::new()).build();
    let run = runtime
        .start(asks_who_thrice::workflow(), 1)
        .caller("ada")
        .tag("tenant", "acme")
        .tag("tenant", "zeta");
    let run = run.tag("batch", "7").trace_id(" in t1").run_id(id()).await.unwrap();
    assert_eq!(*run.run_id(), id());
    let said = r#"ada {"batch": "7", "tenant": "zeta"} in t1"#;
    assert_eq!(run.result().await.unwrap(), (said.to_owned(), said.to_owned(), "ada".to_owned()));
    let started = began(&runtime.run(&id()).journal().await.unwrap());
    assert_eq!(started.caller.as_deref(), Some("ada"));
    assert_eq!(
        started.tags,
        BTreeMap::from([("batch", "7"), ("tenant", "zeta")].map(|(a, b)| (a.into(), b.into())))
    );
    let run = runtime.start(asks_who_thrice::workflow(), 1).await.unwrap();
    assert_eq!(run.result().await.unwrap().0, "nobody {}");
    assert_eq!(who(&runtime.context()).await, "nobody {}");
    // An agent with its own run has the options of its request. Within a step it has the options of
    // the step's run.
    let agent = Agent::new(repeating()).tools(tools![who]).runtime(&runtime);
    let request = || RunRequest::new("who?").caller("ada").tag("tenant", "acme");
    let done = agent.run(request().run_id(RunId::new("agent"))).await.unwrap();
    assert_eq!(done.output(), "ada");
    let started = began(&runtime.run(&RunId::new("agent")).journal().await.unwrap());
    assert_eq!((started.caller.as_deref(), started.tags["tenant"].as_str()), (Some("ada"), "acme"));
}

#[workflow]
async fn hand_made(cx: &Context, _n: u32) -> Result<String> {
    let said = ask(cx).await?;
    Ok(said)
}

async fn ask(cx: &Context) -> Result<String> {
    let agent = Agent::new(repeating()).tools(tools![who]);
    Ok(agent.run_in(cx, RunRequest::new("who?").caller("ada").tag("a", "b")).await?.into_output())
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_step_belongs_to_its_run() {
    let runtime = process(ProcessStore::new(), &TestClock::new()).build();
    let run = runtime.start(hand_made::workflow(), 1).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "nobody");
}

#[tokio::test(start_paused = true)]
async fn an_id_starts_one_run() {
    let runtime = process(ProcessStore::new(), &TestClock::new()).build();
    runtime.start(asks_who::workflow(), 1).run_id(id()).await.unwrap().result().await.unwrap();
    let input = agentflow::value::Encoded::new(&json!({"_n": 1})).unwrap();
    let again = runtime.start_named("asks_who", &input).run_id(id()).await.unwrap_err();
    assert!(
        matches!(&again, Error::Store(error) if error.kind() == StoreErrorKind::Exists),
        "{again}"
    );
    // A start that is not awaited starts no run.
    drop(runtime.start(asks_who::workflow(), 1).run_id(RunId::new("never")));
    assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap().len(), 1);
}

/// Pay somebody back.
#[tool(scopes(refunds), idempotent)]
async fn refund(cents: u64) -> String {
    format!("refunded {cents}")
}

async fn wait(seconds: u64) -> Result<u64> {
    tokio::time::sleep(SECOND * u32::try_from(seconds).unwrap_or(u32::MAX)).await;
    Ok(seconds)
}

#[workflow(name = "pays-of-run-options")]
async fn pays(seconds: u64) -> Result<String> {
    let waited = wait(seconds).await?;
    let paid = refund(waited).await;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_one_run_is_of_that_run_alone() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock).build();
    let refused = runtime.start(pays::workflow(), 1).await.unwrap();
    let granted =
        runtime.start(pays::workflow(), 10).grant(["refunds"]).run_id(id()).await.unwrap();
    assert_eq!(refused.result().await.unwrap_err().kind(), FailureKind::Unauthorized);
    crash(granted, &store, SECOND).await;
    // The resumed run keeps its grants, although the runtime grants none.
    let second = process(store.process(2), &clock).build();
    let resumed = second.recover().await.unwrap().resumed.remove(0);
    assert_eq!(resumed.result().await.unwrap().as_str(), r#""refunded 10""#);
}

#[workflow]
async fn waits_around_a_gate(seconds: u64) -> Result<u64> {
    let before = wait(seconds).await?;
    let approval = gate!("continue?", before).await?;
    let after = wait(if matches!(approval, Approval::Granted { .. }) { before } else { 0 }).await?;
    Ok(before + after)
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_at_its_time_limit() {
    let runtime = process(ProcessStore::new(), &TestClock::new()).build();
    let run =
        runtime.start(pays::workflow(), 100).timeout(5 * SECOND).grant(["refunds"]).await.unwrap();
    let began = tokio::time::Instant::now();
    let error = run.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the run took longer than its time limit of 5s; raise it with `timeout`"
    );
    assert_eq!(began.elapsed().as_secs(), 5);
    let record = runtime.run(run.run_id()).record().await.unwrap();
    assert_eq!(record.status, RunStatus::Failed);
    let events = runtime.run(run.run_id()).journal().await.unwrap();
    check_events(&events).unwrap();
    let last = &events.last().unwrap().kind;
    assert!(
        matches!(last, EventKind::RunFailed { error } if error.kind == FailureKind::Timeout),
        "{last:?}"
    );
    let stopped = events.iter().find_map(|event| match &event.kind {
        EventKind::NodeFailed { error, .. } => Some((event.path.to_string(), error.kind.clone())),
        _ => None,
    });
    assert_eq!(stopped, Some(("waited".to_owned(), FailureKind::Cancelled)));
    // A run that is fast enough.
    let run =
        runtime.start(pays::workflow(), 4).timeout(5 * SECOND).grant(["refunds"]).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "refunded 4");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_person_is_not_the_runs() {
    let runtime = process(ProcessStore::new(), &TestClock::new()).build();
    for (seconds, ends) in [(3, true), (4, false)] {
        let run = runtime
            .start(waits_around_a_gate::workflow(), seconds)
            .timeout(7 * SECOND)
            .await
            .unwrap();
        tokio::time::sleep(3600 * SECOND).await;
        runtime.run(run.run_id()).approve("approval", Approval::granted(), "ada").await.unwrap();
        // While an operator pauses the run, started steps continue and the time limit does not run.
        match run.result().await {
            Ok(sum) => assert!(ends && sum == 6),
            Err(error) => assert!(!ends && error.kind() == FailureKind::Timeout, "{error}"),
        }
    }
    let run =
        runtime.start(pays::workflow(), 60).timeout(7 * SECOND).grant(["refunds"]).await.unwrap();
    tokio::time::sleep(SECOND).await;
    run.pause().await.unwrap();
    tokio::time::sleep(100 * SECOND).await;
    run.unpause().await.unwrap();
    assert_eq!(run.result().await.unwrap(), "refunded 60");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_earlier_processes_counts() {
    for (limit, ends) in [(9, true), (7, false)] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let runtime = process(store.clone(), &clock).build();
        let run = runtime
            .start(waits_around_a_gate::workflow(), 4)
            .timeout(SECOND * limit)
            .run_id(id())
            .await
            .unwrap();
        // From the fourth second on the run waits for a person. Then its process ends.
        crash(run, &store, 100 * SECOND).await;
        tokio::time::sleep(1000 * SECOND).await;
        let second = process(store.process(2), &clock).build();
        let run = second.recover().await.unwrap().resumed.remove(0);
        tokio::time::sleep(1000 * SECOND).await;
        second.run(&id()).approve("approval", Approval::granted(), "ada").await.unwrap();
        match run.result().await {
            Ok(sum) => assert!(ends && sum.as_str() == "8"),
            Err(error) => assert!(!ends && error.kind() == FailureKind::Timeout, "{error}"),
        }
    }
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock).build();
    let run =
        runtime.start(two_waits::workflow(), 4).timeout(7 * SECOND).run_id(id()).await.unwrap();
    crash(run, &store, 5 * SECOND).await;
    let second = process(store.process(2), &clock).build();
    let began = tokio::time::Instant::now();
    let error = second.recover().await.unwrap().resumed.remove(0).result().await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed().as_secs()), (FailureKind::Timeout, 3));
}

#[workflow]
async fn two_waits(seconds: u64) -> Result<u64> {
    let first = wait(seconds).await?;
    let second = wait(first).await?;
    Ok(second)
}

static ATTEMPTS: AtomicU32 = AtomicU32::new(0);

/// Answer.
#[agent]
async fn answers(cx: &Context, question: u64) -> Result<String>;

async fn asks_thrice(cx: &Context, n: u64) -> Result<String> {
    ATTEMPTS.fetch_add(1, Ordering::SeqCst);
    let mut all = String::new();
    for question in 0..n {
        all.push_str(&answers(cx, question).await?);
    }
    Ok(all)
}

#[workflow(name = "asking-of-run-options")]
async fn asking(cx: &Context, n: u64) -> Result<String> {
    #[node(retry = 5)]
    let all = asks_thrice(cx, n).await?;
    Ok(all)
}

#[workflow(max_llm_calls = 2, timeout = "5s")]
async fn bounded_of_run_options(cx: &Context, n: u64, seconds: u64) -> Result<String> {
    let waited = wait(seconds).await?;
    let all = asks_thrice(cx, n * waited.min(1)).await?;
    Ok(all)
}

#[tokio::test(start_paused = true)]
async fn a_workflow_bounds_its_runs() {
    let runtime = || {
        let model = ScriptedModel::from_fn(|_| Turn::text("x"));
        process(ProcessStore::new(), &TestClock::new()).model(model).build()
    };
    let bounded = bounded_of_run_options::workflow;
    let (of_it, none) = (RunLimits::new().max_llm_calls(2).timeout(5 * SECOND), Default::default());
    assert_eq!((bounded().graph().limits, asking::workflow().graph().limits), (of_it, none));
    assert_eq!(bounded().run(&runtime(), (2, 1)).await.unwrap(), "xx");
    let error = bounded().run(&runtime(), (3, 1)).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::LlmCallLimit, "{error}");
    let error = bounded().run(&runtime(), (1, 6)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { limit } if limit == 5 * SECOND), "{error}");
    // The smaller of both limits applies, and the event records it.
    for (calls, seconds, said) in [(1, 9, (Some(1), Some(5000))), (9, 1, (Some(2), Some(1000)))] {
        let runtime = runtime();
        let run = runtime
            .start(bounded(), (0, 0))
            .max_llm_calls(calls)
            .timeout(seconds * SECOND)
            .await
            .unwrap();
        run.result().await.unwrap();
        let events = runtime.run(run.run_id()).journal().await.unwrap();
        let EventKind::RunStarted(started) = &events[0].kind else { panic!("{:?}", events[0]) };
        assert_eq!((started.terms().max_llm_calls, started.terms().timeout_ms), said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_model_calls_is_reached_once() {
    let model = ScriptedModel::from_fn(|_| Turn::text("x"));
    let runtime = |calls| {
        let store = MemoryStore::new();
        test_runtime().store(store).model(model.clone()).max_llm_calls(calls).build()
    };
    // The smaller of both limits applies.
    for (of_runtime, of_run, limit) in [(500, 2, 2), (2, 500, 2), (3, 500, 3)] {
        ATTEMPTS.store(0, Ordering::SeqCst);
        let runtime = runtime(of_runtime);
        let run = runtime.start(asking::workflow(), 3).max_llm_calls(of_run).await.unwrap();
        let result = run.result().await;
        match limit {
            3 => assert_eq!(result.unwrap(), "xxx"),
            _ => {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), FailureKind::LlmCallLimit, "{error}");
                assert!(error.to_string().contains("made 2 model calls"), "{error}");
            }
        }
        assert_eq!(ATTEMPTS.load(Ordering::SeqCst), 1, "no policy repeats it");
    }
    let agent =
        Agent::new(ScriptedModel::from_fn(|_| Turn::call("who", json!({})))).tools(tools![who]);
    let error = agent.run(RunRequest::new("go").max_llm_calls(4)).await.unwrap_err();
    assert!(matches!(error, Error::LlmCallLimit { calls: 4 }), "{error}");
}

#[derive(Debug)]
struct Stock(&'static str);

/// Where the goods are.
#[tool(effects = "read")]
async fn warehouse(stock: Inject<Stock>) -> String {
    stock.0.to_owned()
}

/// Say where the goods are.
#[agent(tools = [warehouse])]
async fn carrier(cx: &Context, question: String) -> Result<String>;

#[workflow]
async fn nearby(cx: &Context, _n: u64) -> Result<String> {
    let from = warehouse(cx.inject()?).await;
    Ok(from)
}

#[workflow]
async fn delivery(cx: &Context, seconds: u64) -> Result<(String, String, String)> {
    let here = warehouse(cx.inject()?).await;
    let waited = wait(seconds).await?;
    let nested = nearby(cx, waited).await?;
    let asked = carrier(cx, "where?".to_owned()).await?;
    Ok((here, nested, asked))
}

#[workflow]
async fn carried(cx: &Context, n: u64) -> Result<String> {
    let asked = carrier(cx, format!("where? {n}")).await?;
    Ok(asked)
}

fn locating() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let last =
            request.messages.last().map(|message| format!("{message:?}")).unwrap_or_default();
        match ["of the runtime", "of the run", "of the factory", "of the agent"]
            .iter()
            .find(|at| last.contains(**at))
        {
            Some(at) => Turn::text(*at),
            None => Turn::call("warehouse", json!({})),
        }
    })
}

fn thrice(text: &str) -> (String, String, String) {
    (text.to_owned(), text.to_owned(), text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_resource_of_a_run_is_above_the_runtimes() {
    let runtime = test_runtime().model(locating()).resource(Stock("of the runtime")).build();
    let run = runtime.start(delivery::workflow(), 0).resource(Stock("of the run")).await.unwrap();
    assert_eq!(run.result().await.unwrap(), thrice("of the run"));
    let run = runtime.start(delivery::workflow(), 0).await.unwrap();
    assert_eq!(run.result().await.unwrap(), thrice("of the runtime"));
    let agent = Agent::new(locating())
        .tools(tools![warehouse])
        .runtime(&runtime)
        .resource(Stock("of the agent"));
    assert_eq!(agent.run("where?").await.unwrap().output(), "of the agent");
    let request = RunRequest::new("where?").resource(Stock("of the run"));
    assert_eq!(agent.run(request).await.unwrap().output(), "of the run");
}

#[tokio::test(start_paused = true)]
async fn a_factory_makes_what_was_not_given() {
    let made = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&made);
    let runtime = test_runtime()
        .model(locating())
        .resource(Stock("of the runtime"))
        .run_resource(move |began| {
            counted.fetch_add(1, Ordering::SeqCst);
            match (
                began.caller().map(agentflow::Caller::name),
                began.tags().get("tenant").map(String::as_str),
            ) {
                (Some("ada"), Some("acme")) => Ok(Stock("of the factory")),
                other => Err(format!("{} {} has {other:?}", began.name(), began.run_id())),
            }
        })
        .build();
    let start = |resource: Option<Stock>| {
        let start = runtime.start(delivery::workflow(), 0).caller("ada").tag("tenant", "acme");
        resource.into_iter().fold(start, |start, resource| start.resource(resource))
    };
    assert_eq!(start(None).await.unwrap().result().await.unwrap(), thrice("of the factory"));
    assert_eq!(
        start(Some(Stock("of the run"))).await.unwrap().result().await.unwrap(),
        thrice("of the run")
    );
    assert_eq!(made.load(Ordering::SeqCst), 1, "once for each run, and not when one was given");
    let error = runtime.start(delivery::workflow(), 0).run_id(id()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the run of `delivery` lacks what it needs: its resource `runs::run_options::Stock` could not be made: \
         delivery named has (None, None)"
    );
    assert_eq!(error.kind(), FailureKind::MissingResource);
    let error = carrier(&runtime.context(), "where?".into()).await.unwrap_err();
    assert!(
        error.to_string().contains("carrier") && error.kind() == FailureKind::MissingResource,
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_an_error_before_anything_runs() {
    let store = MemoryStore::new();
    let runtime = test_runtime().model(locating()).store(store).build();
    let error = runtime.start(delivery::workflow(), 0).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the run of `delivery` lacks what it needs: these resources are missing: `runs::run_options::Stock` for the \
         tool `warehouse`, `runs::run_options::Stock` for the tool `warehouse` of the agent `carrier`; give each with \
         `.resource(value)` to the runtime's builder, the agent or the one run where it is started, a trait object as an \
         `Arc<dyn Trait>`; with `run_resource` on the runtime's builder each run has its own, also after a restart"
    );
    // The same if only a model may call the tool.
    let error = runtime.start(carried::workflow(), 0).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::MissingResource, "{error}");
    let agent = Agent::new(locating()).name("porter").tools(tools![warehouse]).runtime(&runtime);
    let error = agent.start("where?").unwrap_err();
    assert!(error.to_string().starts_with("the run of `porter` lacks what it needs: "), "{error}");
    assert!(agent.clone().build().is_err(), "nobody gives it");
    assert!(runtime.runs().list(RunFilter::new()).await.unwrap().is_empty(), "nothing was started");
    let request = RunRequest::new("where?").resource(Stock("of the run"));
    assert_eq!(agent.start(request).unwrap().result().await.unwrap().output(), "of the run");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_has_its_resource_from_the_factory_or_is_left() {
    for made in [true, false] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let builder = |store| test_runtime().clock(clock.clone()).store(store).model(locating());
        let first = builder(store.clone()).build();
        let start = first.start(delivery::workflow(), 10).caller("ada").trace_id("t1").run_id(id());
        let run = start.resource(Stock("of the run")).await.unwrap();
        let stalling =
            Agent::new(ScriptedModel::new([Turn::stall()])).name("porter").tools(tools![warehouse]);
        let request =
            RunRequest::new("where?").caller("ada").trace_id("t1").run_id(RunId::new("second"));
        let agent = stalling.runtime(&first).start(request.resource(Stock("of the run"))).unwrap();
        tokio::time::sleep(SECOND).await;
        agent.abandon();
        crash(run, &store, SECOND).await;
        let porter = Agent::new(locating()).name("porter").tools(tools![warehouse]);
        let second = builder(store.process(2)).agent(&porter);
        let second = match made {
            true => second.run_resource(|began| {
                match (began.caller().map(agentflow::Caller::name), began.trace_id()) {
                    (Some("ada"), Some("t1")) => Ok(Stock("of the factory")),
                    _ => Err("nobody asks"),
                }
            }),
            false => second,
        };
        let second = second.build();
        let mut recovered = second.recover().await.unwrap();
        match made {
            true => {
                assert!(recovered.left.is_empty(), "{:?}", recovered.left);
                recovered.resumed.sort_by(|a, b| a.run_id().cmp(b.run_id()));
                let output = recovered.resumed[0]
                    .typed::<(String, String, String)>()
                    .result()
                    .await
                    .unwrap();
                // Completed steps keep the resource of their process.
                assert_eq!(
                    (output.0.as_str(), output.1.as_str()),
                    ("of the run", "of the factory")
                );
                assert_eq!(
                    recovered.resumed[1].result().await.unwrap().as_str(),
                    r#""of the factory""#
                );
            }
            false => {
                assert_eq!(recovered.resumed.len(), 0);
                assert_eq!(recovered.left.len(), 2);
                for (run, error) in &recovered.left {
                    assert_eq!(error.kind(), FailureKind::MissingResource, "{run}: {error}");
                    assert!(
                        error.to_string().contains("run_options::Stock` for the tool `warehouse`"),
                        "{error}"
                    );
                    // Another process with the resource can resume the run.
                    assert_eq!(second.run(run).record().await.unwrap().status, RunStatus::Running);
                }
            }
        }
    }
}

#[tokio::test]
async fn runs_are_found_by_their_tags_and_caller() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let builders = [test_runtime().store(MemoryStore::new()), test_runtime().store(file)];
    for runtime in builders.map(RuntimeBuilder::build) {
        for (at, tenant) in ["acme", "zeta", "acme"].into_iter().enumerate() {
            let start =
                runtime.start(asks_who::workflow(), 1).run_id(RunId::new(format!("run-{at}")));
            let start = start
                .caller(if at == 0 { "ada" } else { "bob" })
                .tag("tenant", tenant)
                .tag("at", at.to_string());
            start.await.unwrap().result().await.unwrap();
        }
        let found = async |filter: RunFilter| {
            let mut runs = runtime.runs().list(filter).await.unwrap();
            runs.sort_by(|a, b| a.run_id.cmp(&b.run_id));
            runs.iter().map(|run| run.run_id.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(RunFilter::new().tag("tenant", "acme")).await, "run-0 run-2");
        assert_eq!(found(RunFilter::new().tag("tenant", "acme").caller("bob")).await, "run-2");
        assert_eq!(found(RunFilter::new().tag("tenant", "acme").tag("at", "1")).await, "");
        assert_eq!(found(RunFilter::new().caller("carol")).await, "");
        let record = runtime.run(&RunId::new("run-1")).record().await.unwrap();
        assert_eq!(
            (record.caller.as_deref(), record.tags["tenant"].as_str()),
            (Some("bob"), "zeta")
        );
    }
}
