//! Tests sessions: the history that a run gets, the order of runs, branches, lists, exports and
//! deletion.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::Role;
use agentflow::middleware::{AgentStep, Flow, Middleware};
use agentflow::prelude::*;
use agentflow::runtime::Purge;
use agentflow::serde_json::{self, json};
use agentflow::session::{Session, SessionExport, SessionFilter, SessionRecord, SessionWindow};
use agentflow::store::{
    Append, Epoch, MemoryStore, RunFilter, RunRecord, RunStatus, SessionStore, SqliteStore, Store,
    StoreError, StoreErrorKind,
};
use agentflow::{Error, Event, RunId, Workflow, async_trait};
use agentflow_testing::{
    ScriptedModel, TestClock, Turn, check_events, sequential_ids, test_runtime, within,
};

/// Look something up.
#[tool(effects = "none")]
fn sess_look(what: String) -> String {
    format!("{what} is found")
}

/// Look something up, at length.
#[tool(effects = "none")]
fn sess_read(lines: usize) -> String {
    "a line of the page\n".repeat(lines)
}

/// Returns a model that answers with the user's texts. If the question starts with `look`, it calls
/// a tool first.
fn listener() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        if last.role() == Role::User && last.text().starts_with("look") {
            return Turn::call("sess_look", json!({"what": last.text()}));
        }
        let asked =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        Turn::text(asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"))
    })
    .capturing()
}

fn on(store: &(impl Store + Clone)) -> Runtime {
    test_runtime().store(store.clone()).build()
}

fn agent(model: &ScriptedModel, runtime: &Runtime) -> Agent {
    Agent::new(model.clone())
        .tools(tools![sess_look, sess_read])
        .instruct("Be kind.")
        .runtime(runtime)
}

fn ask(text: &str, session: impl Into<Session>) -> RunRequest {
    RunRequest::new(text).session(session)
}

async fn answer(agent: &Agent, text: &str, session: impl Into<Session>) -> String {
    agent.run(ask(text, session)).await.unwrap().into_output()
}

fn kind_of(error: &Error) -> StoreErrorKind {
    match error {
        Error::Store(error) => error.kind(),
        other => panic!("it is not the store that refuses: {other}"),
    }
}

#[tokio::test]
async fn a_run_is_given_what_was_said_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    remembers(MemoryStore::new()).await;
    remembers(file).await;
}

async fn remembers(store: impl Store + Clone) {
    let (model, runtime) = (listener(), on(&store));
    let clerk = agent(&model, &runtime);
    assert_eq!(answer(&clerk, "a", "s").await, "a");
    assert_eq!(answer(&clerk, "look b", "s").await, "a|look b");
    assert_eq!(answer(&clerk, "x", "other").await, "x");
    // Another process, with an agent that has other instructions.
    let elsewhere = test_runtime().store(store.clone()).run_ids(sequential_ids("far")).build();
    let other = Agent::new(model.clone())
        .instruct("Be short.")
        .tools(tools![sess_look])
        .runtime(&elsewhere);
    assert_eq!(answer(&other, "c", "s").await, "a|look b|c");
    let asked = model.requests().pop().unwrap();
    let texts: Vec<String> =
        asked.messages.messages().iter().map(|message| message.text().into_owned()).collect();
    assert_eq!(texts, ["Be short.", "a", "a", "look b", "", "", "a|look b", "c"]);
    assert!(asked.messages.open_calls().is_empty());
    // The journal of a run contains only its new messages.
    let session = elsewhere.sessions().get("s").await.unwrap();
    assert_eq!((session.runs, &*session.agent, session.unfinished), (3, "agent", None));
    let journal = elsewhere.run(&session.head.unwrap()).journal().await.unwrap();
    check_events(&journal).unwrap();
    let text = serde_json::to_string(&journal).unwrap();
    assert!(!text.contains("look b\"") && text.contains("\"text\":\"c\""), "{text}");
}

#[tokio::test]
async fn the_three_ways_to_name_a_session() {
    let (model, runtime) = (listener(), on(&MemoryStore::new()));
    let clerk = agent(&model, &runtime);
    let unknown = clerk.run(ask("a", Session::existing("s"))).await.unwrap_err();
    assert_eq!(kind_of(&unknown), StoreErrorKind::NotFound);
    assert_eq!(unknown.to_string(), "there is no session `s` in this store");
    assert!(runtime.runs().list(RunFilter::new()).await.unwrap().is_empty());
    let first = clerk.run(ask("a", Session::begin())).await.unwrap();
    let id = first.session().expect("it has a session").to_owned();
    assert_eq!(answer(&clerk, "b", Session::existing(id.as_str())).await, "a|b");
    assert_eq!(answer(&clerk, "c", id.as_str()).await, "a|b|c");
    assert_eq!(clerk.run("alone").await.unwrap().session(), None);
}

#[tokio::test]
async fn what_cannot_be_a_session_is_refused_with_a_sentence() {
    let clerk = Agent::new(listener());
    let none = clerk.run(ask("a", "s")).await.unwrap_err().to_string();
    assert_eq!(
        none,
        "a session is kept in a store and this runtime has none; give it one with `Runtime::builder().store(..)`"
    );
    let runtime = on(&MemoryStore::new());
    let clerk = clerk.runtime(&runtime);
    for (id, problem) in
        [("", "is empty"), (&*"x".repeat(513), "has 513 bytes; it may have 512 at most")]
    {
        let error = clerk.run(ask("a", id)).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let within = Agent::new(ScriptedModel::new([])).runtime(&runtime);
    let asks = FnStep(within);
    let step = Workflow::<(u32,), String>::build("sess_step", ["n"], |b, (n,)| {
        b.node("ask", (n,), move |cx, _| {
            let asks = asks.clone();
            async move {
                asks.0.run_in(&cx, ask("a", "s")).await.map(agentflow::run::RunResult::into_output)
            }
        })
    })
    .unwrap();
    let error = runtime.start(step, 1).await.unwrap().result().await.unwrap_err().to_string();
    assert!(error.contains("a run of a session is a run of its own"), "{error}");
}

#[derive(Clone)]
struct FnStep(Agent);

#[tokio::test(start_paused = true)]
async fn a_second_run_at_once_is_refused_or_waits() {
    let store = MemoryStore::new();
    let runtime = on(&store);
    let slow = ScriptedModel::from_fn(|request| {
        let asked =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        Turn::text(asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"))
            .after(Duration::from_secs(60))
    });
    let clerk = agent(&slow, &runtime);
    let first = clerk.start(ask("a", "s").run_id(RunId::new("first"))).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = clerk.run(ask("b", "s")).await.unwrap_err();
    assert_eq!(kind_of(&refused), StoreErrorKind::SessionBusy);
    assert!(
        refused.to_string().starts_with("the run `first` of the session `s` has not ended;"),
        "{refused}"
    );
    // Waiting runs start in order, also from another process.
    let waiting: Vec<_> = ["b", "c", "d"]
        .map(|text| clerk.start(ask(text, Session::from("s").waiting())).unwrap())
        .into();
    let elsewhere = on(&store.as_another_process());
    let far = agent(&slow, &elsewhere);
    let cancelled =
        far.start(ask("never", Session::from("s").waiting()).run_id(RunId::new("never"))).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(far);
    assert_eq!(
        runtime.runs().list(RunFilter::new()).await.unwrap().len(),
        1,
        "those that wait have not begun"
    );
    cancelled.abandon();
    assert_eq!(first.result().await.unwrap().output(), "a");
    let mut answers = Vec::new();
    for run in waiting {
        answers.push(run.result().await.unwrap().into_output());
    }
    assert_eq!(answers, ["a|b", "a|b|c", "a|b|c|d"]);
    let runs = runtime.runs().list(RunFilter::new().session("s")).await.unwrap();
    assert_eq!(runs.len(), 4);
    assert!(
        runs.iter().all(|run| run.status == RunStatus::Success && run.run_id.as_str() != "never")
    );
}

/// Drops the future of a run. Other runs must not wait for it, since it will not end.
#[tokio::test]
async fn a_run_that_nobody_executes_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    left(MemoryStore::new()).await;
    left(SqliteStore::open(folder.path().join("runs.db")).await.unwrap()).await;
}

async fn left(store: impl Store + Clone) {
    let runtime = on(&store);
    let asked = Arc::new(tokio::sync::Notify::new());
    let (asking, calls) = (Arc::clone(&asked), AtomicUsize::new(0));
    let model = ScriptedModel::from_fn(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => {
            asking.notify_one();
            Turn::stall()
        }
        call => Turn::text(format!("answer {call}")),
    });
    let clerk = agent(&model, &runtime);
    tokio::select! {
        _ = clerk.run(ask("a", "s").run_id(RunId::new("left"))) => panic!("it does not stall"),
        () = asked.notified() => {} // Drops the future, like a client that disconnects.
    }
    for session in [Session::from("s"), Session::from("s").waiting()] {
        let refused = clerk.run(ask("b", session)).await.unwrap_err();
        assert_eq!(kind_of(&refused), StoreErrorKind::SessionBusy);
        let told = "the run `left` of the session `s` has not ended and nobody executes it, since its process has ended or \
                    its future was dropped; resume it with `RunRef::resume`, or cancel it with `RunRef::cancel`";
        assert_eq!(refused.to_string(), told);
    }
    // Once the run is resumed, other runs wait for it.
    let resumed = clerk.resume(&RunId::new("left")).await.unwrap();
    assert_eq!(answer(&clerk, "b", Session::from("s").waiting()).await, "answer 2");
    assert_eq!(resumed.result().await.unwrap().output(), "answer 1");
    assert_eq!(runtime.sessions().history("s", 10).await.unwrap().len(), 2);
}

/// Some providers repeat call ids in each answer. Other providers reject a conversation with
/// duplicate ids, so the ids of a session must be unique.
#[tokio::test]
async fn ids_of_calls_that_a_provider_repeats_are_unique_in_a_session() {
    let runtime = on(&MemoryStore::new());
    let repeats = ScriptedModel::from_fn(|request| {
        let asked = |role| {
            request.messages.messages().iter().filter(move |message| message.role() == role).count()
        };
        // Each run has two turns with a call, then the answer.
        match asked(Role::Tool) < 2 * asked(Role::User) {
            true => Turn::call("sess_look", json!({"what": asked(Role::Tool)})).id("call_0"),
            false => Turn::text("done"),
        }
    })
    .capturing();
    let clerk = agent(&repeats, &runtime);
    for question in ["a", "b", "c"] {
        assert_eq!(answer(&clerk, question, "s").await, "done");
    }
    let request = repeats.requests().pop().unwrap();
    let calls = || {
        request
            .messages
            .messages()
            .iter()
            .flat_map(|message| message.tool_calls())
            .map(|call| call.id.clone())
    };
    let results = request.messages.messages().iter().flat_map(|message| message.results());
    assert_eq!(
        results.map(|result| result.call_id.clone()).collect::<Vec<_>>(),
        calls().collect::<Vec<_>>()
    );
    let unique: std::collections::HashSet<_> = calls().collect();
    assert_eq!((calls().count(), unique.len()), (6, 6), "{:?}", calls().collect::<Vec<_>>());
}

/// A store that delays its view of a session. When it first reports an unfinished run, that run has
/// already ended.
#[derive(Clone, Debug)]
struct StaleSessionStore(MemoryStore, Arc<AtomicUsize>);

#[async_trait]
impl agentflow::store::StoreLayer for StaleSessionStore {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn sessions(&self) -> Option<&dyn SessionStore> {
        Some(self)
    }
}

#[async_trait]
impl SessionStore for StaleSessionStore {
    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError> {
        let seen = self.0.session(session).await?;
        let unfinished = seen.as_ref().and_then(|seen| seen.unfinished.clone());
        if let Some(unfinished) = unfinished.filter(|_| self.1.fetch_add(1, Ordering::SeqCst) == 0)
        {
            within("the unfinished run to end", async {
                while !self
                    .0
                    .record(&unfinished)
                    .await?
                    .expect("the store has it")
                    .status
                    .has_ended()
                {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Ok::<_, StoreError>(())
            })
            .await?;
        }
        Ok(seen)
    }

    async fn list_sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError> {
        self.0.list_sessions(filter).await
    }

    async fn delete_session(&self, session: &str) -> Result<u64, StoreError> {
        self.0.delete_session(session).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_begins_as_another_ends_remembers_it() {
    let store = StaleSessionStore(MemoryStore::new(), Arc::default());
    let slow = ScriptedModel::from_fn(|request| {
        let asked =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        Turn::text(asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"))
            .after(Duration::from_secs(60))
    });
    let clerk = agent(&slow, &on(&store));
    let first = clerk.start(ask("a", "s")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(answer(&clerk, "b", Session::from("s").waiting()).await, "a|b");
    assert_eq!(
        store.1.load(Ordering::SeqCst),
        1,
        "the second run has seen the first one as unfinished"
    );
    assert_eq!(first.result().await.unwrap().output(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_session_can_be_cancelled_and_has_a_time_limit() {
    let runtime = on(&MemoryStore::new());
    let model = ScriptedModel::from_fn(|_| Turn::stall());
    let clerk = agent(&model, &runtime);
    let first = clerk.start(ask("a", "s")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let waiting = || Session::from("s").waiting();
    let limited = clerk.run(ask("b", waiting()).timeout(Duration::from_secs(5))).await.unwrap_err();
    assert!(matches!(limited, Error::Timeout { .. }), "{limited}");
    let third = clerk.start(ask("c", waiting())).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let dropped = clerk.run(ask("d", waiting()));
    assert!(tokio::time::timeout(Duration::from_secs(1), dropped).await.is_err());
    first.cancel("enough").await.unwrap();
    assert!(first.result().await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        runtime.sessions().get("s").await.unwrap().unfinished.as_ref(),
        Some(third.run_id())
    );
    third.cancel("enough").await.unwrap();
    let runs = runtime.runs().list(RunFilter::new()).await.unwrap();
    assert_eq!(runs.len(), 2, "{runs:?}");
}

#[tokio::test]
async fn a_run_that_fails_adds_nothing() {
    let runtime = on(&MemoryStore::new());
    let model = ScriptedModel::from_fn(|request| match &*request.messages.last().unwrap().text() {
        "fail" => Turn::fails(agentflow::model::ModelErrorKind::Auth),
        _ => Turn::text(request.messages.len().to_string()),
    });
    let clerk = agent(&model, &runtime);
    assert_eq!(answer(&clerk, "a", "s").await, "2");
    assert!(clerk.run(ask("fail", "s")).await.is_err());
    assert_eq!(answer(&clerk, "b", "s").await, "4");
    let record = runtime.sessions().get("s").await.unwrap();
    assert_eq!(record.runs, 3);
    let history = runtime.sessions().history("s", 10).await.unwrap();
    assert_eq!(history.iter().map(|run| run.number).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(history[1].after.as_ref(), Some(&history[0].run_id));
}

#[tokio::test]
async fn an_earlier_question_is_changed_without_losing_the_first() {
    let runtime = on(&MemoryStore::new());
    let (model, named) = (listener(), |text: &str| ask(text, "s").run_id(RunId::new(text)));
    let clerk = agent(&model, &runtime);
    for text in ["a", "b", "c"] {
        clerk.run(named(text)).await.unwrap();
    }
    let after = |run: &str| Session::from("s").after(RunId::new(run));
    assert_eq!(answer(&clerk, "b2", after("a")).await, "a|b2");
    // The last used branch continues, and the first one can be continued too.
    assert_eq!(answer(&clerk, "d2", "s").await, "a|b2|d2");
    assert_eq!(answer(&clerk, "d", after("c")).await, "a|b|c|d");
    assert_eq!(answer(&clerk, "e", "s").await, "a|b|c|d|e");
    assert_eq!(runtime.sessions().branches("s").await.unwrap().len(), 2);
    let first = runtime.sessions().history_up_to(&RunId::new("c"), 2).await.unwrap();
    assert_eq!(first.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    let model = ScriptedModel::new([]);
    let clerk = agent(&model, &runtime);
    for (session, problem) in [
        (after("nobody"), "there is no run `nobody`"),
        (Session::from("t").after(RunId::new("a")), "there is no session `t`"),
    ] {
        let error = clerk.run(ask("x", session)).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[tokio::test]
async fn the_window_bounds_what_a_model_is_given() {
    let runtime = on(&MemoryStore::new());
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().unwrap();
        match last.role() {
            Role::User if last.text().starts_with("read") => {
                Turn::call("sess_read", json!({"lines": 1000}))
            }
            _ => Turn::text(request.messages.len().to_string()),
        }
    })
    .capturing();
    let clerk = agent(&model, &runtime);
    for number in 0..30 {
        answer(&clerk, &format!("read {number}"), "s").await;
    }
    let last = |model: &ScriptedModel| model.requests().pop().unwrap().messages;
    let with = |window: SessionWindow| Session::from("s").window(window);
    // Instructions, three runs of four messages, and the question.
    assert_eq!(
        answer(&clerk, "x", with(SessionWindow::default().runs(3))).await,
        (1 + 12 + 1).to_string()
    );
    let result = last(&model).messages()[3].results().next().unwrap().text().into_owned();
    assert!(result.len() < 4_100 && result.ends_with("more bytes left out]"), "{}", result.len());
    assert!(last(&model).open_calls().is_empty());
    // A run that does not fit into the window is reduced to its question and its answer.
    let short = answer(&clerk, "y", with(SessionWindow::default().runs(4).tokens(1_500))).await;
    assert_eq!(short, (1 + 2 + 4 + 2 + 2 + 1).to_string(), "{:?}", last(&model));
    assert_eq!(answer(&clerk, "z", with(SessionWindow::default().runs(0))).await, "2");
}

/// Middleware that adds a word to the question.
struct PoliteMiddleware;

#[async_trait]
impl Middleware for PoliteMiddleware {
    fn name(&self) -> &str {
        "politely"
    }

    async fn before_agent(&self, step: &mut AgentStep) -> Result<Flow<Message>> {
        let texts: Vec<_> = step
            .conversation
            .messages()
            .iter()
            .map(|message| message.text().into_owned())
            .collect();
        assert_eq!(texts.len(), 2, "a hook before the agent sees what is new: {texts:?}");
        step.conversation =
            vec![Message::system("Be kind."), Message::user(format!("please {}", texts[1]))].into();
        match &*texts[1] {
            "thanks" => Ok(Flow::Return(Message::assistant("You are welcome."))),
            _ => Ok(Flow::Continue),
        }
    }
}

#[tokio::test]
async fn hooks_see_what_is_new_and_what_they_change_is_remembered() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).with(PoliteMiddleware).build();
    let model = listener();
    let clerk = agent(&model, &runtime);
    assert_eq!(answer(&clerk, "a", "s").await, "please a");
    assert_eq!(answer(&clerk, "thanks", "s").await, "You are welcome.");
    assert_eq!(answer(&clerk, "b", "s").await, "please a|please thanks|please b");
}

#[tokio::test]
async fn sessions_are_listed_exported_and_deleted() {
    let (clock, store) = (TestClock::new(), MemoryStore::new());
    let runtime = test_runtime().store(store).clock(clock.clone()).build();
    let model = listener();
    let clerk = agent(&model, &runtime);
    clerk.run(ask("look a", "s").caller("ada").tag("channel", "web")).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3600)).await;
    clerk.run(ask("b", "t").caller("bob")).await.unwrap();
    clerk.run("alone").await.unwrap();
    let of = async |filter: SessionFilter| {
        let found = runtime.sessions().list(filter).await.unwrap();
        found.iter().map(|session| session.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(SessionFilter::new()).await, "t s");
    assert_eq!(of(SessionFilter::new().caller("ada").tag("channel", "web")).await, "s");
    assert_eq!(of(SessionFilter::new().caller("bob").tag("channel", "web")).await, "");
    let export = runtime.sessions().export("s").await.unwrap();
    assert_eq!((export.version, export.runs.len(), export.runs[0].messages.len()), (1, 1, 4));
    let json = serde_json::to_string(&export).unwrap();
    assert!(json.contains("look a is found") && !json.contains("Be kind."), "{json}");
    assert_eq!(serde_json::from_str::<SessionExport>(&json).unwrap(), export);
    // A run in a session is only deleted with the session.
    let head = runtime.sessions().get("s").await.unwrap().head.unwrap();
    let error = runtime.run(&head).delete().await.unwrap_err();
    assert_eq!(kind_of(&error), StoreErrorKind::InSession);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(runtime.runs().purge(&Purge::older_than(Duration::ZERO)).await.unwrap().len(), 1);
    assert_eq!(runtime.sessions().purge(Duration::from_secs(7200)).await.unwrap().len(), 0);
    assert_eq!(&*runtime.sessions().purge(Duration::from_secs(1800)).await.unwrap()[0].id, "s");
    assert_eq!(runtime.sessions().delete("t").await.unwrap(), 1);
    assert!(runtime.runs().list(RunFilter::new()).await.unwrap().is_empty());
    assert_eq!(
        runtime.sessions().get("t").await.unwrap_err().to_string(),
        "there is no session `t` in this store"
    );
}

#[tokio::test]
async fn a_tool_and_the_journal_know_the_session() {
    let runtime = on(&MemoryStore::new());
    let model = ScriptedModel::new([
        Turn::call("sess_where", json!({})),
        Turn::text("done").expect_text("in s"),
    ]);
    let clerk = Agent::new(model).tools(tools![sess_where]).runtime(&runtime);
    let result = clerk.run(ask("a", "s")).await.unwrap();
    let started = match &result.events()[0].kind {
        EventKind::RunStarted(started) => started.session.clone().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((&*started.session, started.number, started.after), ("s", 1, None));
}

/// Where am I?
#[tool(effects = "none")]
fn sess_where(cx: &Context) -> String {
    format!("in {}", cx.session().unwrap_or("no session"))
}

/// A store that counts reads and the bytes that are read and written.
#[derive(Clone, Debug, Default)]
struct Counting {
    inner: MemoryStore,
    reads: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
    written: Arc<AtomicUsize>,
}

impl Counting {
    /// Returns the reads, the bytes read and the bytes written since the last call.
    fn take(&self) -> [usize; 3] {
        [&self.reads, &self.read, &self.written].map(|count| count.swap(0, Ordering::SeqCst))
    }

    fn bytes(events: &[Event]) -> usize {
        events.iter().map(|event| serde_json::to_string(&event.kind).unwrap().len()).sum()
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for Counting {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        self.written.fetch_add(Self::bytes(&events), Ordering::SeqCst);
        self.inner.create(run, events).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.written.fetch_add(Self::bytes(&append.events), Ordering::SeqCst);
        self.inner.append(run, epoch, append).await
    }

    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        panic!("a list of runs grows with the session: {filter:?}");
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let events = self.inner.read(run, after, limit).await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.read.fetch_add(Self::bytes(&events), Ordering::SeqCst);
        Ok(events)
    }
}

#[tokio::test]
async fn the_cost_of_a_run_does_not_grow_with_its_session() {
    let store = Counting::default();
    let runtime = on(&store);
    let model = ScriptedModel::from_fn(|request| match request.messages.last().unwrap().role() {
        Role::User => Turn::call("sess_look", json!({"what": "it"})),
        _ => Turn::text("found"),
    });
    let clerk = agent(&model, &runtime);
    let mut costs = Vec::new();
    for number in 1..=1000 {
        store.take();
        let session = Session::from("s").window(SessionWindow::default().runs(8));
        answer(&clerk, &format!("question {number:04}"), session).await;
        costs.push(store.take());
    }
    let (tenth, last) = (costs[9], costs[999]);
    for (what, tenth, last) in [
        ("reads", tenth[0], last[0]),
        ("read bytes", tenth[1], last[1]),
        ("written bytes", tenth[2], last[2]),
    ] {
        assert!(
            last * 10 <= tenth * 12,
            "{what}: {tenth} for the tenth run, {last} for the thousandth"
        );
    }
    assert_eq!(last[0], 8);
}

/// A store that creates runs slowly: they exist before the caller learns it.
#[derive(Clone, Debug)]
struct SlowCreateStore(MemoryStore);

#[async_trait]
impl agentflow::store::StoreLayer for SlowCreateStore {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        let epoch = self.0.create(run, events).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(epoch)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_as_it_begins_is_in_nobodys_way() {
    let store = MemoryStore::new();
    let slow = on(&SlowCreateStore(store.clone()));
    let model = listener();
    let run = agent(&model, &slow).start(ask("a", "s")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(slow.sessions().get("s").await.unwrap().unfinished.as_ref(), Some(run.run_id()));
    let (_, result) = tokio::join!(run.cancel("enough"), run.result());
    assert!(matches!(result, Err(Error::Cancelled { .. })), "{result:?}");
    let record = slow.sessions().get("s").await.unwrap();
    assert_eq!((record.runs, record.unfinished), (1, None));
    let runtime = test_runtime().store(store).run_ids(sequential_ids("next")).build();
    assert_eq!(answer(&agent(&model, &runtime), "b", "s").await, "b");
}

#[tokio::test]
async fn a_request_that_repeats_what_its_session_has_is_refused() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let model = ScriptedModel::from_fn(|request| {
        Turn::text(format!("answer to {}", request.messages.last().unwrap().text()))
    });
    let agent = Agent::new(model).instruct("Be short.").runtime(&runtime);
    let mut last = agent.run(RunRequest::new("one").session("s")).await.unwrap();
    for (at, question) in [(2, "two"), (3, "three")] {
        let (known, whole) = (last.run_id().clone(), last.conversation().clone());
        let mut more = whole.clone();
        more.push(Message::user(question));
        for given in [whole, more.clone()] {
            let error =
                agent.run(RunRequest::new(given).session("s")).await.unwrap_err().to_string();
            let what = format!(
                "the request repeats what the session `s` has: the conversation of its run `{known}`; give what is new \
                 alone, such as the next message"
            );
            assert!(error.ends_with(&what), "{error}");
        }
        // The refused run did not start, and it does not block the next one.
        assert_eq!(store.session("s").await.unwrap().unwrap().runs, at - 1);
        // Another session, or none, accepts the conversation.
        agent.run(RunRequest::new(more.clone()).session(format!("other-{at}"))).await.unwrap();
        agent.run(more).await.unwrap();
        last = agent.run(RunRequest::new(question).session("s")).await.unwrap();
    }
    // The same words again are not the same conversation.
    agent.run(RunRequest::new("three").session("s")).await.unwrap();
    let shown = agentflow::message::Conversation::from_iter([
        Message::user("three"),
        Message::assistant("not that"),
    ]);
    agent.run(RunRequest::new(shown).session("s")).await.unwrap();
}
