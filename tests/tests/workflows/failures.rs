//! Failures that `retry` repeats: temporary ones, but never those that another attempt cannot
//! change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::error::{FailureClass, FailureKind};
use agentflow::event::EventKind;
use agentflow::middleware::token_budget;
use agentflow::model::{ModelError, ModelErrorKind, Usage};
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::MemoryStore;
use agentflow::tool::ToolError;
use agentflow::workflow::{Node, NodePolicy, RetryPolicy, StepFailure};
use agentflow::{Approval, Error, Workflow};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, within};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// Runs a step that always fails. Returns the number of attempts and the failure kind of its run.
async fn attempts_with<E: StepFailure>(
    builder: RuntimeBuilder,
    retry: RetryPolicy,
    fail: impl Fn() -> E + Send + Sync + Clone + 'static,
) -> (u32, FailureKind) {
    let made = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&made);
    let flow = Workflow::<(), u32>::build("fails", [], move |b, ()| {
        b.node(
            Node::new("step").policy(NodePolicy::default().retry_policy(retry)),
            (),
            move |_, ()| {
                count.fetch_add(1, Ordering::SeqCst);
                let fail = fail.clone();
                async move { Err::<u32, E>(fail()) }
            },
        )
    })
    .unwrap();
    let handle = builder.build().start(flow, ()).await.unwrap();
    let error = handle.result().await.unwrap_err();
    check_events(&handle.recorded()).unwrap();
    (made.load(Ordering::SeqCst), error.kind())
}

async fn attempts<E: StepFailure>(
    fail: impl Fn() -> E + Send + Sync + Clone + 'static,
) -> (u32, FailureKind) {
    attempts_with(test_runtime(), RetryPolicy::retries(2), fail).await
}

fn used_up() -> Error {
    Error::BudgetExceeded { budget: "cost".into(), message: "no money is left".into() }
}

#[tokio::test(start_paused = true)]
async fn errors_that_no_attempt_changes_are_not_repeated() {
    for (error, kind) in [
        (used_up(), FailureKind::BudgetExceeded),
        (Error::LlmCallLimit { calls: 5 }, FailureKind::LlmCallLimit),
        (Error::Cancelled { reason: "enough".into() }, FailureKind::Cancelled),
        (
            Error::Build { what: "agent", name: "a".into(), problem: "no model".into() },
            FailureKind::Build,
        ),
        (
            Error::UnknownWorkflow { name: "a".into(), near: None, known: Vec::new(), other: None },
            FailureKind::UnknownWorkflow,
        ),
        (Error::Input { workflow: "a".into(), problem: "a number".into() }, FailureKind::Input),
        (
            Error::DefinitionChanged { workflow: "a".into(), nodes: Vec::new() },
            FailureKind::DefinitionChanged,
        ),
    ] {
        assert_eq!(attempts(move || error.clone()).await, (1, kind));
    }
    let model = |kind| move || ModelError::new(kind, "no");
    assert_eq!(attempts(model(ModelErrorKind::Auth)).await.0, 1);
    assert_eq!(attempts(model(ModelErrorKind::NotFound)).await.0, 1);
    assert_eq!(attempts(model(ModelErrorKind::BadRequest)).await.0, 1);
    // An exhausted quota: the provider declares the failure as permanent.
    assert_eq!(
        attempts(|| ModelError::new(ModelErrorKind::RateLimited, "no quota").permanent()).await.0,
        1
    );
    let (made, kind) = attempts(|| ToolError::invalid_arguments("`count` is missing")).await;
    assert_eq!((made, kind), (1, FailureKind::InvalidArguments));
}

#[tokio::test(start_paused = true)]
async fn errors_that_may_pass_are_repeated() {
    assert_eq!(attempts(|| "not yet").await, (3, FailureKind::Error));
    assert_eq!(attempts(|| ToolError::new("not yet")).await, (3, FailureKind::Error));
    assert_eq!(
        attempts(|| Error::Timeout { limit: Duration::from_secs(1) }).await,
        (3, FailureKind::Timeout)
    );
    assert_eq!(
        attempts(|| Error::MaxStepsReached { steps: 3 }).await,
        (3, FailureKind::MaxStepsReached)
    );
    for kind in [ModelErrorKind::RateLimited, ModelErrorKind::Overloaded, ModelErrorKind::Transport]
    {
        assert_eq!(attempts(move || ModelError::new(kind, "not now")).await.0, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_boxed_error_is_known_by_what_it_holds() {
    #[derive(Debug)]
    struct Around(Error);
    impl std::fmt::Display for Around {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the report could not be written")
        }
    }
    impl std::error::Error for Around {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    assert_eq!(attempts(|| Boxed::from(used_up())).await, (1, FailureKind::BudgetExceeded));
    assert_eq!(attempts(|| Boxed::from(Around(used_up()))).await, (1, FailureKind::BudgetExceeded));
    assert_eq!(attempts(|| Boxed::from("not yet")).await, (3, FailureKind::Error));
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_repeats_everything_does_not_repeat_what_is_final() {
    let any = || {
        let mut retry = RetryPolicy::retries(2);
        retry.retry_on = vec![FailureClass::Any];
        retry
    };
    assert_eq!(attempts_with(test_runtime(), any(), used_up).await.0, 1);
    // A key may be corrected in the meantime, so a policy may retry the failure.
    let auth = || ModelError::new(ModelErrorKind::Auth, "no key");
    assert_eq!(attempts_with(test_runtime(), any(), auth).await.0, 3);
}

/// Builds a workflow with a single node that runs an agent, with two retries.
fn of_agent(agent: Agent) -> Workflow<(), String> {
    Workflow::build("agents", [], move |b, ()| {
        b.node(Node::new("agent").retry(2), (), move |cx, ()| {
            let agent = agent.clone();
            async move { agent.run_in(&cx, "go").await.map(agentflow::run::RunResult::into_output) }
        })
    })
    .unwrap()
}

async fn agents_of(builder: RuntimeBuilder, agent: Agent) -> (usize, FailureKind) {
    let handle = builder.build().start(of_agent(agent), ()).await.unwrap();
    let error = handle.result().await.unwrap_err();
    let events = handle.recorded();
    check_events(&events).unwrap();
    (
        events.iter().filter(|event| matches!(event.kind, EventKind::AgentStarted(_))).count(),
        error.kind(),
    )
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_budget_left_runs_once_and_one_without_an_answer_again() {
    let model =
        || ScriptedModel::from_fn(|_| Turn::text("done").usage(Usage::new(10, 5))).named("p", "m");
    let spent = test_runtime().with(token_budget(0).failing());
    assert_eq!(agents_of(spent, Agent::new(model())).await, (1, FailureKind::BudgetExceeded));
    assert_eq!(
        agents_of(test_runtime().max_llm_calls(0), Agent::new(model())).await,
        (1, FailureKind::LlmCallLimit)
    );
    assert_eq!(
        agents_of(test_runtime().max_nesting(1), Agent::new(model())).await,
        (0, FailureKind::NestingLimit)
    );
    let silent = ScriptedModel::from_fn(|_| Turn::text("")).named("p", "m");
    assert_eq!(agents_of(test_runtime(), Agent::new(silent)).await, (3, FailureKind::NoAnswer));
}

#[tokio::test(start_paused = true)]
async fn who_has_denied_is_not_asked_again() {
    let inner = Workflow::<(), u32>::build("inner", [], |b, ()| {
        b.node(Node::new("pay").approve("pay?").retry(2), (), |_, ()| async { Ok::<_, String>(1) })
    })
    .unwrap();
    let flow = Workflow::<(), u32>::build("outer", [], |b, ()| {
        b.node(Node::new("step").retry(2), (), move |cx, ()| {
            let inner = inner.clone();
            async move { inner.run_in(&cx, ()).await }
        })
    })
    .unwrap();
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let handle = runtime.start(flow, ()).await.unwrap();
    let run = handle.run_id().clone();
    within("the run to ask", async {
        while !handle
            .recorded()
            .iter()
            .any(|event| matches!(event.kind, EventKind::ApprovalRequested(_)))
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    runtime.run(&run).approve("step/pay", Approval::denied("too much"), "ada").await.unwrap();
    let error = handle.result().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (FailureKind::Denied, false));
    let asked = handle
        .recorded()
        .iter()
        .filter(|event| matches!(event.kind, EventKind::ApprovalRequested(_)))
        .count();
    assert_eq!(asked, 1);
    check_events(&handle.recorded()).unwrap();
}
