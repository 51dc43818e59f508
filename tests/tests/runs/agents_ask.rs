//! Tests approvals of tool calls that an agent's model makes: the question, the answers, the work
//! in the meantime, and crashes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::{Limits, RunRequest};
use agentflow::error::ControlErrorKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::message::ToolResult;
use agentflow::middleware::{Flow, Middleware, ToolStep, redact};
use agentflow::prelude::*;
use agentflow::run::RunResult;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{RunFilter, RunStatus, Store};
use agentflow::{Agent, Error, Event, RunHandle, RunId, async_trait};
use agentflow_testing::{
    CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime, trace,
};
use agentflow_tests::ProcessStore;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Records the payments.
#[derive(Clone, Default)]
struct Paid(Arc<Mutex<Vec<String>>>);

impl Paid {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Pays somebody.
#[tool(approve)]
async fn asks_pay(paid: Inject<Paid>, who: String, cents: u32) -> String {
    let line = format!("{cents} to {who}");
    paid.0.lock().unwrap().push(line.clone());
    line
}

/// Looks somebody up.
#[tool(effects = "read")]
async fn asks_look(paid: Inject<Paid>, who: String) -> String {
    paid.0.lock().unwrap().push(format!("looked at {who}"));
    format!("{who} is known")
}

/// Pay who has worked.
#[agent(tools = [asks_pay, asks_look])]
async fn asks_clerk(cx: &Context, what: String) -> Result<String>;

fn id() -> RunId {
    RunId::new("run-1")
}

fn runtime(store: impl Store, model: &ScriptedModel, paid: &Paid) -> RuntimeBuilder {
    test_runtime().store(store).model(model.clone()).resource(paid.clone())
}

fn pays(cents: u32) -> Turn {
    Turn::call("asks_pay", json!({"who": "ada", "cents": cents}))
}

fn begin(runtime: &Runtime) -> RunHandle<RunResult<String>> {
    asks_clerk::agent("pay".into())
        .runtime(runtime)
        .start(RunRequest::default().run_id(id()))
        .unwrap()
}

async fn journal(store: &impl Store) -> Vec<Event> {
    store.read(&id(), 0, usize::MAX).await.unwrap()
}

async fn waits(store: &impl Store) -> (RunStatus, Option<PauseReason>) {
    let record = store.record(&id()).await.unwrap().unwrap();
    (record.status, record.pause_reason)
}

const ASKED: (RunStatus, Option<PauseReason>) = (RunStatus::Paused, Some(PauseReason::Approval));

#[tokio::test(start_paused = true)]
async fn a_person_agrees_wherever_the_run_is() {
    for by_id in [false, true] {
        let (store, paid) = (ProcessStore::new(), Paid::default());
        let model = ScriptedModel::new([pays(500), Turn::text("paid").expect_text("500 to ada")]);
        let here = runtime(store.clone(), &model, &paid).build();
        let handle = begin(&here);
        pass(1000).await;
        assert_eq!(waits(&store).await, ASKED);
        let elsewhere = runtime(store.process(2), &model, &paid).build();
        let report = elsewhere.run(&id()).inspect().await.unwrap();
        let asks = report.nodes.iter().find(|node| node.question.is_some()).unwrap();
        assert_eq!(asks.name, "tool#1.asks_pay");
        assert_eq!(asks.question.as_deref(), Some(r#"call `asks_pay(cents: 500, who: "ada")`?"#));
        assert_eq!(asks.about.as_ref().unwrap().to_string(), r#"{"cents":500,"who":"ada"}"#);
        assert!(paid.all().is_empty());
        let who = if by_id { &elsewhere } else { &here };
        who.run(&id()).approve("tool#1.asks_pay", Approval::granted(), "bob").await.unwrap();
        assert_eq!(handle.result().await.unwrap().output(), "paid");
        assert_eq!(paid.all(), ["500 to ada"]);
        let again = who
            .run(&id())
            .approve("tool#1.asks_pay", Approval::granted(), "bob")
            .await
            .unwrap_err();
        assert!(again.to_string().contains("it is over"), "{again}");
        check_events(&journal(&store).await).unwrap();
        model.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_changes_the_arguments() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let model = ScriptedModel::new([pays(500), Turn::text("paid").expect_text("5 to ada")]);
    let here = runtime(store.clone(), &model, &paid).build();
    let handle = begin(&here);
    pass(1).await;
    let run = id();
    let other = |arguments: Value| {
        here.run(&run).approve("tool#1.asks_pay", Approval::granted_with(arguments), "bob")
    };
    for (wrong, problem) in [
        (json!(5), "`arguments` is an object with all arguments of the call"),
        (json!({"who": "ada", "cents": "many"}), "`cents`: value is not of type \"integer\""),
        (json!({"who": "ada"}), "`cents`: this is missing; give it a value"),
        (json!({"who": "ada", "cents": 5, "why": ""}), "`why`"),
    ] {
        let Error::Control(error) = other(wrong).await.unwrap_err() else {
            panic!("it is refused")
        };
        assert_eq!(error.kind(), ControlErrorKind::WrongAnswer);
        assert!(error.to_string().contains(problem), "{error}");
    }
    other(json!({"who": "ada", "cents": 5})).await.unwrap();
    assert_eq!(handle.result().await.unwrap().output(), "paid");
    assert_eq!(paid.all(), ["5 to ada"]);
    let events = journal(&store).await;
    let began = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolStarted { call, given, .. } => Some((call.arguments.clone(), given.clone())),
        _ => None,
    });
    let (now, given) = began.unwrap();
    assert_eq!(read(&now), json!({"who": "ada", "cents": 5}));
    assert_eq!(read(&given.unwrap()), json!({"who": "ada", "cents": 500}));
    check_events(&events).unwrap();
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_model_learns_that_a_person_said_no() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let told = "a person was asked about this call and did not agree: not on a Friday";
    let model = ScriptedModel::new([pays(500), Turn::text("not paid").expect_text(told)]);
    let here = runtime(store.clone(), &model, &paid).build();
    let handle = begin(&here);
    pass(1).await;
    here.run(&id())
        .approve("tool#1.asks_pay", Approval::denied("not on a Friday"), "bob")
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap().output(), "not paid");
    assert!(paid.all().is_empty());
    check_events(&journal(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_a_call_that_cannot_be_made() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let wrong = Turn::call("asks_pay", json!({"who": "ada", "cents": "many"}));
    let model = ScriptedModel::new([wrong, Turn::text("not paid").expect_text("`cents`")]);
    let here = runtime(store.clone(), &model, &paid).build();
    assert_eq!(begin(&here).result().await.unwrap().output(), "not paid");
    assert!(paid.all().is_empty());
    check_events(&journal(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn arguments_that_no_record_may_hold_are_refused() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let model = ScriptedModel::new([pays(500), Turn::text("paid")]);
    let here = runtime(store.clone(), &model, &paid).with(redact().secret("0123-4567-89")).build();
    let handle = begin(&here);
    pass(1).await;
    let secret = Approval::granted_with(json!({"who": "0123-4567-89", "cents": 5}));
    let error =
        here.run(&id()).approve("tool#1.asks_pay", secret, "bob").await.unwrap_err().to_string();
    assert!(error.contains("hold what this runtime takes out of its records"), "{error}");
    assert!(!error.contains("0123-4567-89"), "{error}");
    let other = Approval::granted_with(json!({"who": "eve", "cents": 5}));
    here.run(&id()).approve("tool#1.asks_pay", other, "bob").await.unwrap();
    handle.result().await.unwrap();
    assert_eq!(paid.all(), ["5 to eve"]);
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_word_is_done_meanwhile() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let turn = Turn::calls([
        ("asks_pay", json!({"who": "ada", "cents": 1})),
        ("asks_look", json!({"who": "bob"})),
        ("asks_pay", json!({"who": "eve", "cents": 2})),
        ("asks_look", json!({"who": "kim"})),
    ]);
    let model = ScriptedModel::new([turn, Turn::text("done")]);
    let here = runtime(store.clone(), &model, &paid).build();
    let one = Limits::default().max_parallel_tools(1);
    let agent = asks_clerk::agent("pay".into()).runtime(&here).settings(one);
    let handle = agent.start(RunRequest::default().run_id(id())).unwrap();
    pass(1).await;
    assert_eq!(paid.all(), ["looked at bob", "looked at kim"]);
    here.run(&id()).approve("tool#1.asks_pay[1]", Approval::granted(), "bob").await.unwrap();
    pass(1).await;
    assert_eq!(waits(&store).await, ASKED);
    assert_eq!(paid.all()[2..], ["2 to eve"]);
    here.run(&id()).approve("tool#1.asks_pay", Approval::denied("no"), "bob").await.unwrap();
    assert_eq!(handle.result().await.unwrap().output(), "done");
    check_events(&journal(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_question_survives_its_process() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let model = ScriptedModel::new([pays(500), Turn::text("paid")]);
    let first = runtime(store.clone(), &model, &paid).build();
    let handle = begin(&first);
    pass(1).await;
    handle.abandon();
    pass(1).await;
    // The answer arrives while no process executes the run.
    let second = runtime(store.process(2), &model, &paid).build();
    second
        .run(&id())
        .approve(
            "tool#1.asks_pay",
            Approval::granted_with(json!({"who": "eve", "cents": 1})),
            "bob",
        )
        .await
        .unwrap();
    assert!(paid.all().is_empty());
    let handle = second.run(&id()).resume().await.unwrap();
    handle.result().await.unwrap();
    assert_eq!(paid.all(), ["1 to eve"]);
    let events = journal(&store).await;
    let asked =
        events.iter().filter(|event| matches!(event.kind, EventKind::ApprovalRequested(_))).count();
    assert_eq!(asked, 1, "{:#?}", trace(events));
    check_events(&journal(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_asks_is_cancelled_and_drained() {
    for cancel in [true, false] {
        let (store, paid) = (ProcessStore::new(), Paid::default());
        let turns = [pays(500), Turn::text("paid")].into_iter().take(if cancel { 1 } else { 2 });
        let model = ScriptedModel::new(turns);
        let first = runtime(store.clone(), &model, &paid).build();
        let handle = begin(&first);
        pass(1).await;
        if cancel {
            first.run(&id()).cancel("enough").await.unwrap();
            assert!(matches!(handle.result().await.unwrap_err(), Error::Cancelled { .. }));
            assert!(paid.all().is_empty());
            check_events(&journal(&store).await).unwrap();
            continue;
        }
        let left = first.drain(Duration::from_secs(3600)).await;
        assert_eq!(waits(&store).await, ASKED, "{left:?}");
        let second = runtime(store.process(2), &model, &paid).build();
        let handle = second.run(&id()).resume().await.unwrap();
        pass(1).await;
        second.run(&id()).approve("tool#1.asks_pay", Approval::granted(), "bob").await.unwrap();
        handle.result().await.unwrap();
        assert_eq!(paid.all(), ["500 to ada"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_inbox_has_the_questions_of_all_runs() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let model = ScriptedModel::from_fn(|_| pays(1));
    let here = runtime(store.clone(), &model, &paid).build();
    let mut runs = Vec::new();
    for desk in ["news", "sports", "news"] {
        let request = RunRequest::default()
            .run_id(RunId::new(format!("run-{}", runs.len())))
            .tag("desk", desk);
        runs.push(asks_clerk::agent("pay".into()).runtime(&here).start(request).unwrap());
        pass(60).await;
    }
    let _gate = here.start(asks_gates::workflow(), 1).run_id(RunId::new("run-gate")).await.unwrap();
    pass(1).await;
    let elsewhere = runtime(store.process(2), &model, &paid).build();
    let all = elsewhere.runs().questions(RunFilter::new()).await.unwrap();
    let shown: Vec<String> =
        all.iter().map(|one| format!("{} {} {}", one.run, one.name, one.path)).collect();
    let of_runs = ["run-0 asks_clerk", "run-1 asks_clerk", "run-2 asks_clerk"]
        .map(|of| format!("{of} tool#1.asks_pay"));
    assert_eq!(shown[..3], of_runs);
    assert_eq!((all.len(), &*all[3].path, &*all[3].message), (4, "agreed", "go on?"));
    assert!(all.is_sorted_by_key(|one| one.asked));
    assert_eq!(read(all[0].about.as_str()), json!({"who": "ada", "cents": 1}));
    let news = elsewhere.runs().questions(RunFilter::new().tag("desk", "news")).await.unwrap();
    assert_eq!(news.iter().map(|one| one.run.to_string()).collect::<Vec<_>>(), ["run-0", "run-2"]);
    elsewhere
        .run(&news[1].run)
        .approve(&news[1].path, Approval::denied("no"), "bob")
        .await
        .unwrap();
    pass(1).await;
    let asked = elsewhere.runs().questions(RunFilter::new().tag("desk", "news")).await.unwrap();
    assert_eq!(
        asked.iter().map(|one| &*one.path).collect::<Vec<_>>(),
        ["tool#1.asks_pay", "tool#2.asks_pay"]
    );
    runs[0].cancel("enough").await.unwrap();
    assert_eq!(
        elsewhere.runs().questions(RunFilter::new().tag("desk", "news")).await.unwrap().len(),
        1
    );
}

#[workflow(name = "asks-gates")]
async fn asks_gates(n: u32) -> Result<bool> {
    let agreed = gate!("go on?", n).await?;
    Ok(agreed.is_granted())
}

/// Middleware that records the calls and doubles the amounts.
struct DoublingMiddleware(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Middleware for DoublingMiddleware {
    fn name(&self) -> &str {
        "doubles"
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        let mut arguments = read(&step.arguments);
        self.0.lock().unwrap().push(arguments["cents"].to_string());
        arguments["cents"] = json!(arguments["cents"].as_u64().unwrap() * 2);
        step.arguments = arguments.to_string();
        Ok(Flow::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn middleware_sees_what_a_person_agreed_to() {
    let (store, paid, seen) =
        (ProcessStore::new(), Paid::default(), Arc::<Mutex<Vec<String>>>::default());
    let model = ScriptedModel::new([pays(500), Turn::text("paid")]);
    let here =
        runtime(store.clone(), &model, &paid).with(DoublingMiddleware(Arc::clone(&seen))).build();
    let handle = begin(&here);
    pass(1).await;
    assert!(seen.lock().unwrap().is_empty());
    here.run(&id())
        .approve(
            "tool#1.asks_pay",
            Approval::granted_with(json!({"who": "ada", "cents": 7})),
            "bob",
        )
        .await
        .unwrap();
    handle.result().await.unwrap();
    assert_eq!(
        (paid.all(), seen.lock().unwrap().clone()),
        (vec!["14 to ada".to_owned()], vec!["7".to_owned()])
    );
}

async fn pay_in_step(cx: &Context, cents: u32) -> Result<String> {
    Ok(asks_pay(cx.inject()?, "ada".to_owned(), cents).await)
}

#[workflow(name = "asks-in-steps")]
async fn asks_in_steps(cx: &Context, cents: u32) -> Result<String> {
    let said = asks_clerk(cx, "pay".to_owned()).await?;
    let paid = pay_in_step(cx, cents).await?;
    let agreed = gate!("and now?", said).await?;
    Ok(format!("{said}, {paid}, {}", agreed.is_granted()))
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_step_asks_and_so_does_a_step() {
    let (store, paid) = (ProcessStore::new(), Paid::default());
    let model = ScriptedModel::new([pays(500), Turn::text("paid")]);
    let here = runtime(store.clone(), &model, &paid).build();
    let handle = here.start(asks_in_steps::workflow(), 9).run_id(id()).await.unwrap();
    pass(1).await;
    let changed = |cents: u32| Approval::granted_with(json!({"who": "kim", "cents": cents}));
    here.run(&id()).approve("said/tool#1.asks_pay", changed(1), "bob").await.unwrap();
    pass(1).await;
    let wrong = here
        .run(&id())
        .approve("paid/tool#1.asks_pay", Approval::granted_with(json!({"who": 1})), "bob")
        .await;
    assert!(wrong.unwrap_err().to_string().contains("`who`"));
    here.run(&id()).approve("paid/tool#1.asks_pay", changed(2), "bob").await.unwrap();
    pass(1).await;
    let gate = here.run(&id()).approve("agreed", changed(3), "bob").await.unwrap_err();
    assert!(
        gate.to_string().contains("only the question about the call of a tool takes `arguments`"),
        "{gate}"
    );
    here.run(&id()).approve("agreed", Approval::granted(), "bob").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "paid, 2 to kim, true");
    assert_eq!(paid.all(), ["1 to kim", "2 to kim"]);
    check_events(&journal(&store).await).unwrap();
}

/// Sends something.
#[tool(approve)]
async fn asks_send(cx: &Context, log: Inject<EffectLog>, what: String) -> String {
    log.note(cx);
    what
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_asks_is_resumed_from_every_write() {
    let effects = EffectLog::new();
    let model = ScriptedModel::from_fn(|request| {
        match request.messages.last().is_some_and(|last| last.results().next().is_some()) {
            true => Turn::text("sent"),
            false => Turn::calls([
                ("asks_send", json!({"what": "a"})),
                ("asks_send", json!({"what": "b"})),
            ]),
        }
    });
    let agent = Agent::new(model).tools(tools![asks_send]);
    let log = effects.clone();
    let report = CrashTest::agent(&agent, || "Go on.")
        .runtime(move |runtime| runtime.resource(log.clone()))
        .effects(&effects)
        .answer("tool#1.asks_send", Approval::granted())
        .answer("tool#1.asks_send[1]", Approval::granted_with(json!({"what": "c"})))
        .twice()
        .run()
        .await;
    for path in ["tool#1.asks_send", "tool#1.asks_send[1]"] {
        assert_eq!(report.step(path).unwrap().began(), 1, "{report}");
    }
}
