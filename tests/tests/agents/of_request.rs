//! Hooks and state that a request sets for its run, and hooks that replace an agent's error by an
//! answer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::Error;
use agentflow::agent::{Limits, RunRequest};
use agentflow::event::{EventKind, RunCompleted};
use agentflow::middleware::{Flow, retry};
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::state::StateKey;
use agentflow::store::MemoryStore;
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime};

static TENANT: StateKey<String> = StateKey::session("tenant");
static USER_TONE: StateKey<String> = StateKey::user("tone");

/// The tenant that the run is for.
#[tool(effects = "read")]
async fn tenant_of_run(cx: &Context) -> Result<Option<String>> {
    cx.state(&TENANT).await
}

#[workflow]
async fn of_tenant(cx: &Context) -> Result<String> {
    let tenant = cx.state(&TENANT).await?.unwrap_or_default();
    Ok(tenant)
}

fn sorry<O: 'static>(agent: Agent<O>) -> Agent<O> {
    agent.with(Hooks::new().on_agent_error(|_, error| match error {
        Error::Model(_) => Ok(Flow::Return(Message::assistant("Please call us."))),
        _ => Ok(Flow::Continue),
    }))
}

#[tokio::test(start_paused = true)]
async fn a_hook_answers_in_the_place_of_an_error() {
    let model = ScriptedModel::new([Turn::fails(ModelErrorKind::Auth)]);
    let agent = sorry(Agent::new(model)).runtime(&test_runtime().build());
    let run = agent.start("Help.").unwrap();
    assert_eq!(run.result().await.unwrap().output(), "Please call us.");
    let events = run.recorded();
    check_events(&events).unwrap();
    let EventKind::RunCompleted(completed) = &events.last().unwrap().kind else {
        panic!("{events:?}")
    };
    let RunCompleted::Agent(answer) = &**completed else { panic!("{completed:?}") };
    assert_eq!(answer.answered_by.as_deref(), Some("on_agent_error"));
    assert!(events.iter().any(|event| matches!(event.kind, EventKind::ModelFailed { .. })));
}

#[tokio::test(start_paused = true)]
async fn only_what_the_hook_answers_is_replaced_and_outer_layers_see_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let looping = || ScriptedModel::from_fn(|_| Turn::call("tenant_of_run", json!({})));
    let limits = || Limits::default().max_steps(2);
    // The hook does not handle a limit.
    let agent = sorry(Agent::new(looping())).tools(tools![tenant_of_run]).settings(limits());
    assert!(matches!(agent.run("Go.").await.unwrap_err(), Error::MaxStepsReached { steps: 2 }));
    // The outer layer sees the answer of the inner layer, so its own error hook is not called.
    let hooks = Hooks::new()
        .after_agent(move |_, completed| {
            noted.lock().unwrap().push(completed.message.text().into_owned());
            Ok(())
        })
        .on_agent_error(|_, error| Err(Error::other(format!("asked in vain: {error}"))))
        .on_agent_error(|step, _| {
            Ok(Flow::Return(Message::assistant(format!("{} is stuck", step.agent()))))
        });
    let agent = Agent::new(looping()).tools(tools![tenant_of_run]).settings(limits()).with(hooks);
    assert_eq!(agent.run("Go.").await.unwrap().output(), "agent is stuck");
    assert_eq!(*seen.lock().unwrap(), ["agent is stuck"]);
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_has_a_fallback_and_a_cancellation_has_none() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let agent = move |limit: u64| {
        let counted = Arc::clone(&counted);
        Agent::new(ScriptedModel::from_fn(|_| Turn::stall()))
            .settings(Limits::default().timeout(Duration::from_secs(limit)))
            .with(Hooks::new().on_agent_error(move |_, error| {
                counted.fetch_add(1, Ordering::SeqCst);
                assert!(matches!(error, Error::Timeout { .. }), "{error}");
                Ok(Flow::Return(Message::assistant("too late")))
            }))
            .runtime(&test_runtime().build())
    };
    let run = agent(5).start("Go.").unwrap();
    assert_eq!(run.result().await.unwrap().output(), "too late");
    check_events(&run.recorded()).unwrap();
    let run = agent(500).start("Go.").unwrap();
    run.cancel("enough").await.unwrap();
    assert!(matches!(run.result().await.unwrap_err(), Error::Cancelled { .. }));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// Answer.
#[agent]
async fn falls_back(cx: &Context) -> Result<String>;

#[workflow]
async fn with_fallback(cx: &Context) -> Result<String> {
    let answer = falls_back(cx).await?;
    Ok(answer)
}

/// Middleware that replaces the error of each agent by an answer.
struct Answers;

#[agentflow::async_trait]
impl agentflow::middleware::Middleware for Answers {
    fn name(&self) -> &str {
        "answers"
    }

    async fn on_agent_error(
        &self,
        _: &agentflow::middleware::AgentStep,
        _: &Error,
    ) -> Result<Flow<Message>> {
        Ok(Flow::Return(Message::assistant("nobody is here")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_of_an_agent_in_a_step_survives_a_crash_at_every_write() {
    let report = CrashTest::new(&with_fallback::workflow(), || ())
        .runtime(|runtime| {
            let model = ScriptedModel::from_fn(|_| Turn::fails(ModelErrorKind::Auth));
            runtime.model(model).with(Answers)
        })
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 5, "{report}");
}

#[tokio::test(start_paused = true)]
async fn callbacks_of_a_request_are_inside_of_those_of_the_agent_and_end_with_the_run() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let notes = Arc::clone(&notes);
        move |_: &mut agentflow::middleware::ModelStep| {
            notes.lock().unwrap().push(name);
            Ok(Flow::Continue)
        }
    };
    let model = ScriptedModel::new([
        Turn::fails(ModelErrorKind::Overloaded),
        Turn::text("One."),
        Turn::text("Two."),
    ]);
    let agent = Agent::new(model)
        .with(Hooks::new().before_model(note("agent")))
        .runtime(&test_runtime().build());
    let request =
        RunRequest::new("Go.").with(Hooks::new().before_model(note("request"))).with(retry(1));
    assert_eq!(agent.run(request).await.unwrap().output(), "One.");
    assert_eq!(
        std::mem::take(&mut *notes.lock().unwrap()),
        ["agent", "request", "agent", "request"]
    );
    agent.run("Again.").await.unwrap();
    assert_eq!(*notes.lock().unwrap(), ["agent"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_begins_with_the_state_of_its_request() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let model = ScriptedModel::new([
        Turn::call("tenant_of_run", json!({})),
        Turn::text("acme").expect_result("tenant_of_run", json!("acme")),
        Turn::call("tenant_of_run", json!({})),
        Turn::text("acme").expect_result("tenant_of_run", json!("acme")),
        Turn::call("tenant_of_run", json!({})),
        Turn::text("beta").expect_result("tenant_of_run", json!("beta")),
    ]);
    let agent = Agent::new(model).tools(tools![tenant_of_run]).runtime(&runtime);
    let request = |tenant: Option<&str>| {
        let request = RunRequest::new("Whose?").session("s");
        tenant.iter().fold(request, |request, tenant| request.state(&TENANT, &(*tenant).to_owned()))
    };
    agent.run(request(Some("acme"))).await.unwrap();
    // The next run of the session has the value, and a request can set another one.
    agent.run(request(None)).await.unwrap();
    let run = agent.start(request(Some("beta"))).unwrap();
    run.result().await.unwrap();
    let state = runtime.run(run.run_id()).state().await.unwrap();
    assert_eq!(state.get(&TENANT).unwrap().as_deref(), Some("beta"));
    // Also for a run of a workflow, with and without a store.
    let started =
        runtime.start(of_tenant::workflow(), ()).state(&TENANT, &"acme".to_owned()).await.unwrap();
    assert_eq!(started.result().await.unwrap(), "acme");
    let in_memory = test_runtime().build();
    let started = in_memory
        .start(of_tenant::workflow(), ())
        .state(&TENANT, &"acme".to_owned())
        .await
        .unwrap();
    assert_eq!(started.result().await.unwrap(), "acme");
}

#[tokio::test(start_paused = true)]
async fn state_of_others_is_refused_before_a_run_begins() {
    let agent = Agent::new(ScriptedModel::new([])).runtime(&test_runtime().build());
    let error =
        agent.run(RunRequest::new("Hi").state(&USER_TONE, &"dry".to_owned())).await.unwrap_err();
    assert!(error.to_string().contains("keys of its session alone"), "{error}");
    let error =
        agent.run(RunRequest::new("Hi").state(&TENANT, &"x".repeat(2 << 20))).await.unwrap_err();
    assert!(matches!(&error, Error::State { key, .. } if key == "tenant"), "{error}");
}
