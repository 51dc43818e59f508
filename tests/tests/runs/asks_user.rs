//! Tests the tool `ask_user`: questions of a model to its user, answers, refusals, and crashes.

use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::ControlErrorKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::{OnTimeout, RunResult};
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, RunFilter, RunStatus, Store};
use agentflow::{Agent, Error, Event, RunHandle, RunId, ask_user};
use agentflow_testing::{
    Call, CrashTest, ExpectedQuestion, Mocks, ScriptedModel, Turn, check_events, test_runtime,
};

const HOUR: Duration = Duration::from_secs(3600);

fn id() -> RunId {
    RunId::new("run-1")
}

/// Book a flight.
#[agent(tools = [agentflow::ask_user])]
async fn books(to: String) -> Result<String>;

fn asks(arguments: Value) -> Turn {
    Turn::call("ask_user", arguments)
}

fn begin(runtime: &Runtime) -> RunHandle<RunResult<String>> {
    books::agent("Oslo".into()).runtime(runtime).start(RunRequest::default().run_id(id())).unwrap()
}

async fn journal(store: &impl Store) -> Vec<Event> {
    store.read(&id(), 0, usize::MAX).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_what_was_asked_for() {
    let seat =
        json!({"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]});
    for (arguments, wrong, right, read) in [
        (json!({"question": "Why?"}), json!(5), json!("I like it"), "I like it"),
        (
            json!({"question": "Which?", "choices": ["window", "aisle"]}),
            json!("roof"),
            json!("aisle"),
            "aisle",
        ),
        (
            json!({"question": "Where?", "schema": seat}),
            json!({"row": "three"}),
            json!({"row": 3}),
            r#"{"row":3}"#,
        ),
    ] {
        let store = MemoryStore::new();
        let model =
            ScriptedModel::new([asks(arguments.clone()), Turn::text("booked").expect_text(read)]);
        let runtime = test_runtime().store(store.clone()).model(model.clone()).build();
        let run = begin(&runtime);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(store.record(&id()).await.unwrap().unwrap().status, RunStatus::Paused);
        let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
        assert_eq!(question.message, arguments["question"]);
        assert_eq!(question.path, "tool#1.ask_user");
        for wrong in [wrong, json!({"decision": "granted"})] {
            let refused =
                runtime.run(&id()).answer(&question.path, &wrong, "ada").await.unwrap_err();
            let Error::Control(refused) = refused else { panic!("{refused}") };
            assert_eq!(refused.kind(), ControlErrorKind::WrongAnswer);
            assert!(
                refused.to_string().contains("does not fit what `tool#1.ask_user` asks for"),
                "{refused}"
            );
        }
        runtime.run(&id()).answer(&question.path, &right, "ada").await.unwrap();
        assert_eq!(run.result().await.unwrap().output(), "booked");
        let events = journal(&store).await;
        check_events(&events).unwrap();
        let by = events.iter().find_map(|event| match &event.kind {
            EventKind::ApprovalResolved { by, .. } => Some(by.to_string()),
            _ => None,
        });
        assert_eq!(by.as_deref(), Some("ada"));
        model.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_text_or_a_schema_is_a_result() {
    let model = ScriptedModel::new([
        asks(json!({"question": "  "})),
        asks(json!({"question": "?", "schema": {"type": "nothing"}}))
            .expect_text("`question` is empty"),
        Turn::text("I give up").expect_text("`schema`: "),
    ]);
    let runtime = test_runtime().store(MemoryStore::new()).model(model.clone()).build();
    assert_eq!(begin(&runtime).result().await.unwrap().output(), "I give up");
    model.finish();
    // Without a store no person could find the question.
    let model = ScriptedModel::new([
        asks(json!({"question": "Why?"})),
        Turn::text("I give up").expect_text("nobody can be asked here"),
    ]);
    assert_eq!(
        begin(&test_runtime().model(model).build()).result().await.unwrap().output(),
        "I give up"
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_a_model() {
    for (on_timeout, read) in [
        (OnTimeout::Fail, "the user did not answer in time"),
        (OnTimeout::Deny, "the user did not answer in time"),
        (OnTimeout::answer(&"you choose"), "you choose"),
    ] {
        let model = ScriptedModel::new([
            asks(json!({"question": "Why?"})),
            Turn::text("done").expect_text(read),
        ]);
        let store = MemoryStore::new();
        let runtime = test_runtime().store(store.clone()).build();
        let agent =
            Agent::new(model.clone()).tools(ask_user().timeout(HOUR, on_timeout)).runtime(&runtime);
        let run: RunHandle<RunResult<String>> =
            agent.start(RunRequest::new("go").run_id(id())).unwrap();
        let began = tokio::time::Instant::now();
        assert_eq!(run.result().await.unwrap().output(), "done");
        assert_eq!(began.elapsed(), HOUR);
        check_events(&journal(&store).await).unwrap();
        model.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_asks_is_resumed_from_every_write() {
    let model = ScriptedModel::from_fn(|request| {
        match request.messages.last().is_some_and(|last| last.results().next().is_some()) {
            true => Turn::text("booked"),
            false => Turn::calls([
                ("ask_user", json!({"question": "Which?", "choices": ["window", "aisle"]})),
                ("ask_user", json!({"question": "Why?"})),
            ]),
        }
    });
    let agent = Agent::new(model).tools(tools![agentflow::ask_user]);
    CrashTest::agent(&agent, || "Go on.")
        .answer("tool#1.ask_user", "aisle".to_owned())
        .answer("tool#1.ask_user[1]", "because".to_owned())
        .twice()
        .run()
        .await;
    let late = Agent::new(ScriptedModel::from_fn(|request| {
        match request.messages.last().is_some_and(|last| last.results().next().is_some()) {
            true => Turn::text("booked"),
            false => asks(json!({"question": "Why?"})),
        }
    }));
    let late = late.tools(ask_user().timeout(HOUR, OnTimeout::Skip));
    let late =
        CrashTest::agent(&late, || "Go on.").unanswered("tool#1.ask_user").patience(100 * HOUR);
    late.twice().run().await;
}

#[tokio::test(start_paused = true)]
async fn a_person_is_scripted_for_every_kind() {
    /// Pays.
    #[tool(approve)]
    async fn scripted_pay(cents: u32) -> String {
        format!("paid {cents}")
    }

    /// Pay.
    #[agent(tools = [agentflow::ask_user, scripted_pay])]
    async fn pays(what: String) -> Result<String>;

    let turns = || {
        [
            asks(json!({"question": "How much?", "schema": {"type": "integer"}})),
            Turn::call("scripted_pay", json!({"cents": 700})).expect_text("7"),
            Turn::text("done").expect_text("paid 500"),
        ]
    };
    let changed = Approval::granted_with(json!({"cents": 500}));
    let people = || {
        [
            ExpectedQuestion::of_tool("ask_user").asking("How much?").answers(7),
            ExpectedQuestion::of_tool("scripted_pay")
                .about(json!({"cents": 700}))
                .answers(changed.clone()),
        ]
    };
    let run = async |mocks: &Mocks, asked: usize| {
        let runtime = mocks
            .runtime()
            .store(MemoryStore::new())
            .model(ScriptedModel::new(turns().into_iter().take(asked)))
            .build();
        let agent = pays::agent("x".into()).runtime(&runtime);
        let run: RunHandle<RunResult<String>> =
            agent.start(RunRequest::default().run_id(id())).unwrap();
        run.result().await.map(|result| result.output().clone())
    };
    let mocks = Mocks::new().person(people());
    assert_eq!(run(&mocks, 3).await.unwrap(), "done");
    mocks.finish();

    // An unexpected question ends the run with a message and does not hang.
    let [first, _] = people();
    let mocks = Mocks::new().person([first, ExpectedQuestion::of_tool("scripted_play")]);
    let error = run(&mocks, 2).await.unwrap_err().to_string();
    assert!(error.contains("expected was about the tool `scripted_play`"), "{error}");
    assert_eq!(mocks.failures().len(), 1);
    let unused =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| mocks.finish())).unwrap_err();
    let unused = unused.downcast_ref::<String>().unwrap();
    assert!(unused.contains("nobody was asked about the tool `scripted_play`"), "{unused}");

    // If a mock answers the call, no person is asked.
    let mocks = Mocks::new().tool("ask_user", [Call::any().returns(7)]);
    let mocks = mocks.person([ExpectedQuestion::of_tool("scripted_pay").answers(changed.clone())]);
    assert_eq!(run(&mocks, 3).await.unwrap(), "done");
    mocks.finish();
}
