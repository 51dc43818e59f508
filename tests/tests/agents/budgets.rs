//! Token and cost budgets when agents of one run call their models concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::agent::{Limits, RunRequest};
use agentflow::event::EventKind;
use agentflow::middleware::{
    Flow, Middleware, ModelStep, Price, Prices, Scope, cost_tracker, fallback_models, rate_limit,
    retry, token_budget,
};
use agentflow::model::{ModelErrorKind, ModelResponse, ModelSettings, Usage};
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::session::Session;
use agentflow::store::{MemoryStore, RunFilter, SqliteStore};
use agentflow::time::Clock;
use agentflow::{Error, RunHandle, Workflow, async_trait};
use agentflow_testing::{HoldsTime, ScriptedModel, TestClock, Turn, check_events, test_runtime};
use futures_util::future::join_all;

/// Counters of model calls: all, running now, and the maximum at one time.
#[derive(Default)]
struct Calls {
    made: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Innermost middleware that counts calls.
struct Counting(Arc<Calls>);

#[async_trait]
impl Middleware for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    async fn before_model(&self, _: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        self.0.made.fetch_add(1, Ordering::SeqCst);
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        Ok(Flow::Continue)
    }

    async fn after_model(&self, _: &mut ModelStep, _: &mut ModelResponse) -> Result<()> {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    async fn on_model_error(
        &self,
        _: &mut ModelStep,
        _: &agentflow::model::ModelError,
    ) -> Result<Flow<agentflow::middleware::Recovery>> {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        Ok(Flow::Continue)
    }
}

/// Creates a model that takes one second and 40 tokens per answer.
fn slow() -> ScriptedModel {
    let turn = || Turn::text("done").usage(Usage::new(30, 10)).after(Duration::from_secs(1));
    ScriptedModel::from_fn(move |_| turn()).named("p", "m")
}

fn agent(model: ScriptedModel, max_tokens: Option<u32>) -> Agent {
    let agent = Agent::new(model);
    match max_tokens {
        Some(most) => agent.settings(ModelSettings::default().max_tokens(most)),
        None => agent,
    }
}

/// Builds a workflow that starts this many agents at once and returns the result of each.
fn crowd(
    agents: usize,
    make: impl Fn(usize) -> Agent + Send + Sync + 'static,
) -> Workflow<(String,), Vec<String>> {
    let make = Arc::new(make);
    Workflow::build("crowd", ["task"], |b, (task,)| {
        b.node("agents", (task,), move |cx, (task,): (String,)| {
            let make = Arc::clone(&make);
            async move {
                let ended = (0..agents).map(async |at| {
                    let outcome = make(at).run_in(&cx, task.clone()).await;
                    outcome.map_or_else(
                        |error| error.kind().as_str().to_owned(),
                        agentflow::run::RunResult::into_output,
                    )
                });
                Ok::<_, Error>(join_all(ended).await)
            }
        })
    })
    .unwrap()
}

async fn run(builder: RuntimeBuilder, workflow: &Workflow<(String,), Vec<String>>) -> Vec<String> {
    let handle: RunHandle<Vec<String>> =
        builder.build().start(workflow.clone(), "go".to_owned()).await.unwrap();
    let outcome = handle.result().await.unwrap();
    check_events(&handle.recorded()).unwrap();
    outcome
}

fn count(outcome: &[String], text: &str) -> usize {
    outcome.iter().filter(|one| *one == text).count()
}

#[tokio::test(start_paused = true)]
async fn the_first_calls_of_parallel_agents_stay_within_a_token_budget() {
    // The size of an answer is unknown. Near the limit of the budget the calls are therefore
    // serialized, so that no call is refused that would have fitted.
    let calls = Arc::new(Calls::default());
    let builder = test_runtime().with(token_budget(400)).with(Counting(Arc::clone(&calls)));
    let outcome = run(builder, &crowd(50, |_| agent(slow(), None))).await;
    assert_eq!(
        (count(&outcome, "done"), count(&outcome, "Token budget of 400 exceeded.")),
        (10, 40)
    );
    assert_eq!((calls.made.load(Ordering::SeqCst), calls.most.load(Ordering::SeqCst)), (10, 1));

    // With `max_tokens` a call reserves only its maximum: 40 tokens each.
    let calls = Arc::new(Calls::default());
    let builder = test_runtime().with(token_budget(400)).with(Counting(Arc::clone(&calls)));
    let began = tokio::time::Instant::now();
    let outcome = run(builder, &crowd(50, |_| agent(slow(), Some(39)))).await;
    assert_eq!(count(&outcome, "done"), 10);
    assert_eq!(calls.most.load(Ordering::SeqCst), 10);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());

    // A large budget delays no call.
    let calls = Arc::new(Calls::default());
    let builder = test_runtime().with(token_budget(1_000_000)).with(Counting(Arc::clone(&calls)));
    let outcome = run(builder, &crowd(50, |_| agent(slow(), None))).await;
    assert_eq!((count(&outcome, "done"), calls.most.load(Ordering::SeqCst)), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn the_first_calls_of_parallel_agents_stay_within_a_cost_budget() {
    // A call costs 30 + 2 * 10 = 50 millionths.
    let prices = || Prices::new().model("p/m", Price::per_million(1.0, 2.0));
    for (max_tokens, at_once) in [(None, 1), (Some(25), 9)] {
        let calls = Arc::new(Calls::default());
        let tracker = cost_tracker(prices()).max_cost(0.000_5);
        let builder = test_runtime().with(tracker.clone()).with(Counting(Arc::clone(&calls)));
        let outcome = run(builder, &crowd(50, move |_| agent(slow(), max_tokens))).await;
        assert_eq!((count(&outcome, "done"), count(&outcome, "budget_exceeded")), (10, 40));
        assert_eq!(calls.most.load(Ordering::SeqCst), at_once);
        assert!((tracker.total() - 0.000_5).abs() < 1e-9, "{}", tracker.total());
    }
}

/// A call reserves its share of the budget before other middleware waits, not when the model is
/// called.
#[tokio::test(start_paused = true)]
async fn a_place_is_held_while_other_middleware_waits() {
    let builder =
        test_runtime().with(token_budget(100)).with(rate_limit(1, Duration::from_secs(60)));
    let outcome = run(builder, &crowd(10, |_| agent(slow(), None))).await;
    assert_eq!(
        count(&outcome, "done"),
        3,
        "two cost 80, and the third one begins below 100: {outcome:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_dropped_and_answered_calls_give_their_place_back() {
    // The first call fails, is retried and fails for good. The second one is dropped by its time
    // limit.
    let make = |at: usize| match at {
        0 => agent(ScriptedModel::from_fn(|_| Turn::fails(ModelErrorKind::Overloaded)), None),
        1 => agent(ScriptedModel::from_fn(|_| Turn::stall()), None)
            .settings(Limits::default().timeout(Duration::from_secs(30))),
        2 => agent(ScriptedModel::new([]), None).with(Answers),
        _ => agent(slow(), None),
    };
    let builder = test_runtime().with(retry(1)).with(token_budget(400));
    let outcome = run(builder, &crowd(6, make)).await;
    assert_eq!(outcome, ["overloaded", "timeout", "answered", "done", "done", "done"]);
}

struct Answers;

#[async_trait]
impl Middleware for Answers {
    fn name(&self) -> &str {
        "answers"
    }

    async fn before_model(&self, _: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        Ok(Flow::Return(ModelResponse::new(Message::assistant("answered"))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_place_can_be_cancelled() {
    let make = |at: usize| match at {
        0 => agent(ScriptedModel::from_fn(|_| Turn::stall()), None),
        _ => agent(slow(), None),
    };
    let runtime = test_runtime().with(token_budget(400)).build();
    let handle = runtime.start(crowd(3, make), "go".to_owned()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    handle.cancel("enough").await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "cancelled");
    check_events(&handle.recorded()).unwrap();
    // The next run with the same budget finds no reservation left.
    let handle = runtime.start(crowd(1, |_| agent(slow(), None)), "go".to_owned()).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), ["done"]);
}

/// Middleware that runs another agent inside of each model call.
struct Judge;

#[async_trait]
impl Middleware for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        if step.agent() != "judge" {
            // Waits until all agents that fit have started.
            tokio::time::sleep(Duration::from_millis(1)).await;
            agent(slow(), None)
                .name("judge")
                .run_in(step.context(), "May it? ".repeat(500))
                .await?;
        }
        Ok(Flow::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_inside_of_a_call_does_not_wait_for_those_that_wait_for_it() {
    // Two agents fit into the budget at once. A judge reads more and does not fit next to the other
    // agent.
    let builder = test_runtime().with(token_budget(8_500)).with(Judge);
    let outcome = tokio::time::timeout(
        Duration::from_secs(60),
        run(builder, &crowd(4, |_| agent(slow(), None))),
    )
    .await;
    assert_eq!(outcome.expect("nobody waits for ever"), ["done"; 4]);
}

/// Retries and fallbacks outside of a budget pass through it with each attempt, and each attempt
/// has its own reservation.
#[tokio::test(start_paused = true)]
async fn every_attempt_has_a_place_of_its_own() {
    let failing =
        || ScriptedModel::from_fn(|_| Turn::fails(ModelErrorKind::Overloaded)).named("p", "other");
    let builder =
        test_runtime().with(fallback_models([slow()])).with(retry(1)).with(token_budget(400));
    let workflow = crowd(3, move |_| agent(failing(), None));
    let handle = builder.build().start(workflow, "go".to_owned()).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), ["done"; 3]);
    let retried = handle
        .recorded()
        .iter()
        .filter(|event| matches!(event.kind, EventKind::ModelRetrying { .. }))
        .count();
    assert_eq!(retried, 3 * 2);
}

/// Runs an agent that spends 40 tokens. Returns its answer or the kind of its error.
async fn spends_40(runtime: &Runtime, request: RunRequest) -> String {
    let outcome =
        agent(ScriptedModel::from_fn(|_| Turn::text("done").usage(Usage::new(30, 10))), Some(5))
            .runtime(runtime);
    let outcome = outcome.run(request).await;
    outcome.map_or_else(
        |error| error.kind().as_str().to_owned(),
        agentflow::run::RunResult::into_output,
    )
}

#[tokio::test(start_paused = true)]
async fn a_token_budget_counts_the_runs_of_a_session_a_caller_a_store_and_a_time() {
    let folder = tempfile::tempdir().unwrap();
    for (at, scope) in [Scope::Session, Scope::Caller, Scope::App].into_iter().enumerate() {
        let file = SqliteStore::open(folder.path().join(format!("{at}.db"))).await.unwrap();
        let builder = || Runtime::builder().clock(TestClock::new());
        for builder in [builder().store(MemoryStore::new()), builder().store(HoldsTime::new(file))]
        {
            let budget =
                token_budget(100).scope(scope).window(Duration::from_secs(3_600)).failing();
            let runtime = builder.with(budget).build();
            let own = || RunRequest::new("go").session(Session::new("s")).caller("ada");
            let outcome = [
                spends_40(&runtime, own()).await,
                spends_40(&runtime, own()).await,
                spends_40(&runtime, own()).await,
            ];
            // The second run ends at 80 tokens. The budget of 100 still allows the third call.
            assert_eq!(outcome, ["done", "done", "done"], "{scope:?}");
            assert_eq!(spends_40(&runtime, own()).await, "budget_exceeded", "{scope:?}");
            let other =
                spends_40(&runtime, RunRequest::new("go").session(Session::new("t")).caller("bob"))
                    .await;
            assert_eq!(
                other,
                if scope == Scope::App { "budget_exceeded" } else { "done" },
                "{scope:?}"
            );
            tokio::time::sleep(Duration::from_secs(3_601)).await;
            assert_eq!(spends_40(&runtime, own()).await, "done", "{scope:?}");
        }
    }

    // Without a session or a caller, each run has its own budget.
    let runtime = test_runtime().with(token_budget(40).scope(Scope::Session).failing()).build();
    assert_eq!(spends_40(&runtime, "go".into()).await, "done");
    assert_eq!(spends_40(&runtime, "go".into()).await, "done");
    let runtime = test_runtime().with(token_budget(40).scope(Scope::Caller).failing()).build();
    let outcome =
        agent(slow(), None).runtime(&runtime).run(RunRequest::new("go").caller("ada")).await;
    let Err(Error::Middleware { problem, .. }) = outcome else {
        panic!("there is nothing to count")
    };
    assert!(problem.contains("Runtime::builder().store(..)"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_on_the_handle_the_record_and_in_sums() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let clock = TestClock::new();
    let builder =
        || Runtime::builder().clock(clock.clone()).agent(&agent(slow(), None).name("clerk"));
    for builder in [builder().store(MemoryStore::new()), builder().store(HoldsTime::new(file))] {
        let runtime = builder.build();
        let mut begun = Vec::new();
        for caller in ["ada", "bob"] {
            begun.push(clock.now());
            let request = RunRequest::new("hi").caller(caller).session(Session::new(caller));
            let run = runtime.start_agent("clerk", request).await.unwrap();
            run.result().await.unwrap();
            assert_eq!(run.usage(), Usage::new(30, 10));
            let [row] = &run.spending()[..] else { panic!("one agent and one model") };
            assert_eq!(
                (&*row.agent, &*row.provider, &*row.model, row.calls),
                ("clerk", "p", "m", 1)
            );
            assert_eq!(
                runtime.run(run.run_id()).record().await.unwrap().usage,
                Some(Usage::new(30, 10))
            );
            let attached = runtime.run(run.run_id()).attach().await.unwrap();
            attached.result().await.unwrap();
            assert_eq!(attached.usage(), Usage::new(30, 10));
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let total =
            async |filter: RunFilter| runtime.runs().usage(filter).await.unwrap().total_tokens();
        assert_eq!(total(RunFilter::new()).await, 80);
        assert_eq!(total(RunFilter::new().session("ada")).await, 40);
        assert_eq!(total(RunFilter::new().caller("bob")).await, 40);
        assert_eq!(total(RunFilter::new().caller("eve")).await, 0);
        assert_eq!(total(RunFilter::new().since(begun[1])).await, 40);
        assert!(
            runtime
                .runs()
                .list(RunFilter::new())
                .await
                .unwrap()
                .iter()
                .all(|run| run.usage == Some(Usage::new(30, 10)))
        );
        let [row] = &runtime.runs().spending(RunFilter::new()).await.unwrap()[..] else {
            panic!("one agent and one model")
        };
        assert_eq!((row.calls, row.usage.total_tokens()), (2, 80));
        let prices = Prices::new().model("p/m", Price::per_million(1_000_000.0, 2_000_000.0));
        assert!((prices.cost(std::slice::from_ref(row)) - 100.0).abs() < 1e-9);
    }
}
