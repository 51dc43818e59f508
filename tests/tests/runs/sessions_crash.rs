//! Crash tests of sessions: a chat of three runs, whose process ends at each write to the store,
//! once and twice. Each question must be in the session's history once and in order, and each
//! answer must have been given with all previous questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agentflow::agent::RunRequest;
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::session::Session;
use agentflow::store::{
    Append, ArtifactStore, Epoch, MemoryStore, RunRecord, SqliteStore, Store, StoreError,
    StoreErrorKind,
};
use agentflow::{Error, Event, RunId, async_trait};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime};

/// Note something.
#[tool(effects = "none")]
fn sess_note(what: String) -> String {
    format!("noted {what}")
}

/// A store whose process ends at a write: before the write is done, or before its caller learns
/// that it is done.
#[derive(Clone, Debug)]
pub(super) struct Ending<S> {
    inner: S,
    /// Number of writes before the end.
    left: Arc<AtomicU32>,
    /// `true` if the last write is done.
    done: bool,
}

impl<S: Store> Ending<S> {
    pub(super) fn at(inner: S, writes: u32, done: bool) -> Self {
        Self { inner, left: Arc::new(AtomicU32::new(writes)), done }
    }

    fn has_ended(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    async fn write<T>(
        &self,
        write: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::new(StoreErrorKind::Io, "the process has ended");
        let left =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Err(_) => Err(gone()),
            Ok(1) if self.done => {
                write.await?;
                Err(gone())
            }
            Ok(1) => Err(gone()),
            Ok(_) => write.await,
        }
    }
}

#[async_trait]
impl<S: Store> agentflow::store::StoreLayer for Ending<S> {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    /// Each instance belongs to a different process.
    fn identity(&self) -> Option<String> {
        None
    }

    fn artifacts(&self) -> Option<&dyn ArtifactStore> {
        self.inner.artifacts().map(|_| self as _)
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        self.write(self.inner.create(run, events)).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.write(self.inner.append(run, epoch, append)).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        self.write(self.inner.open(run)).await
    }
}

#[async_trait]
impl<S: Store> ArtifactStore for Ending<S> {
    async fn put_artifact(
        &self,
        run: &RunId,
        epoch: Epoch,
        sha256: &str,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        self.write(
            agentflow::store::StoreLayer::inner(self)
                .require_artifacts()?
                .put_artifact(run, epoch, sha256, bytes),
        )
        .await
    }

    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        agentflow::store::StoreLayer::inner(self).require_artifacts()?.artifact(run, sha256).await
    }
}

pub(super) const QUESTIONS: [&str; 3] = ["one", "two", "three"];

/// Returns an agent that notes each question and answers with all questions.
fn clerk() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        if last.role() == Role::User {
            return Turn::call("sess_note", json!({"what": last.text()}));
        }
        let asked =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        Turn::text(asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"))
    });
    Agent::new(model).name("sess_clerk").instruct("Note all.").tools(tools![sess_note])
}

/// Runs the program again: resumes the runs of an earlier process and asks the remaining questions.
pub(super) async fn ask_remaining<O: 'static>(
    agent: &Agent<O>,
    questions: &[&'static str],
    session: &Session,
    store: impl Store,
) -> Result<(), Error> {
    let runtime = test_runtime().store(store).agent(agent).build();
    for handle in runtime.recover().await?.resumed {
        let _ = handle.result().await;
    }
    let agent = agent.clone().runtime(&runtime);
    for question in questions {
        let request = RunRequest::new(*question).run_id(RunId::new(*question));
        match agent.run(request.session(session.clone())).await {
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {}
            answered => drop(answered?),
        }
    }
    Ok(())
}

async fn chat(store: impl Store) -> Result<(), Error> {
    ask_remaining(&clerk(), &QUESTIONS, &Session::from("s"), store).await
}

async fn check(store: impl Store, what: &str) {
    let runtime = test_runtime().store(store).build();
    let history = runtime.sessions().history("s", 10).await.unwrap();
    let said: Vec<_> = history
        .iter()
        .map(|run| {
            (run.messages[0].text().into_owned(), run.messages.last().unwrap().text().into_owned())
        })
        .collect();
    let expected = [("one", "one"), ("two", "one|two"), ("three", "one|two|three")];
    assert_eq!(said, expected.map(|(asked, told)| (asked.to_owned(), told.to_owned())), "{what}");
    assert_eq!(history.iter().map(|run| run.number).collect::<Vec<_>>(), [1, 2, 3], "{what}");
    assert_eq!(runtime.sessions().get("s").await.unwrap().unfinished, None, "{what}");
    for run in history {
        let journal = runtime.run(&run.run_id).journal().await.unwrap();
        check_events(&journal).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(run.messages.len(), 4, "{what}");
    }
}

/// Returns `true` if the process reached the end of the chat.
async fn live(store: impl Store + Clone, writes: u32, done: bool) -> bool {
    let ending = Ending::at(store, writes, done);
    chat(ending.clone()).await.is_ok() && !ending.has_ended()
}

/// Ends the program at each of its writes, runs it again to its end, and checks the store.
pub(super) async fn ends_at_every_write<C: Future>(
    chat: impl AsyncFn(Ending<MemoryStore>) -> Result<(), Error>,
    check: impl Fn(MemoryStore, String) -> C,
) {
    ends_at_each_of(16, chat, check).await;
}

/// The same for a program with at least this number of writes.
pub(super) async fn ends_at_each_of<C: Future>(
    least: u32,
    chat: impl AsyncFn(Ending<MemoryStore>) -> Result<(), Error>,
    check: impl Fn(MemoryStore, String) -> C,
) {
    for done in [false, true] {
        let mut writes = 1;
        loop {
            let store = MemoryStore::new();
            let ending = Ending::at(store.clone(), writes, done);
            let lived = chat(ending.clone()).await.is_ok() && !ending.has_ended();
            chat(Ending::at(store.clone(), u32::MAX, done)).await.unwrap();
            check(store, format!("the end at write {writes}, done: {done}")).await;
            if lived {
                break;
            }
            writes += 1;
        }
        assert!(writes >= least, "there were {writes} writes alone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_at_any_write_loses_and_repeats_nothing() {
    ends_at_every_write(chat, |store, what| async move { check(store, &what).await }).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_twice_loses_and_repeats_nothing() {
    for first in 1..16 {
        for second in 1..12 {
            let store = MemoryStore::new();
            live(store.clone(), first, second % 2 == 0).await;
            live(store.clone(), second, first % 2 == 0).await;
            chat(store.clone()).await.unwrap();
            check(store, &format!("ends at the writes {first} and {second}")).await;
        }
    }
}

#[tokio::test]
async fn the_same_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for (writes, done) in (1..18).zip([false, true].into_iter().cycle()) {
        let path = folder.path().join(format!("{writes}.db"));
        live(SqliteStore::open(&path).await.unwrap(), writes, done).await;
        chat(SqliteStore::open(&path).await.unwrap()).await.unwrap();
        check(
            SqliteStore::open(&path).await.unwrap(),
            &format!("the end at write {writes} of a file"),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_crash_kit_has_sessions_too() {
    let report =
        CrashTest::agent(&clerk(), || RunRequest::new("one").session("s")).twice().run().await;
    assert!(report.writes() >= 4, "{report}");
}

/// Compares the session in a stored record with the session in a record that is read from the
/// journal.
#[tokio::test]
async fn a_record_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    chat(store.clone()).await.unwrap();
    let run = RunId::new("two");
    let listed = store.record(&run).await.unwrap().unwrap();
    let read = RunRecord::from_events(&store.read(&run, 0, 1000).await.unwrap()).unwrap();
    assert_eq!(listed, read);
    let place = listed.session.unwrap();
    assert_eq!((&*place.session, place.number, place.after), ("s", 2, Some(RunId::new("one"))));
}
