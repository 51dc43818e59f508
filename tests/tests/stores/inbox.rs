//! An inbox of open questions reads the records of runs, and no journals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use agentflow::Event;
use agentflow::prelude::*;
use agentflow::runtime::OpenQuestion;
use agentflow::serde_json::{self, json};
use agentflow::store::{
    EventFilter, MemoryStore, RecordedQuestions, RunFilter, RunOrder, RunRecord, SqliteStore,
    Store, StoreError, Synchronous,
};
use agentflow::{RunId, async_trait};
use agentflow_testing::within;
use agentflow_tests::journal::{event, started};

/// Counts the reads of journals.
#[derive(Clone, Debug)]
struct CountedReads {
    inner: Arc<dyn Store>,
    reads: Arc<AtomicUsize>,
    events: Arc<AtomicUsize>,
}

impl CountedReads {
    fn new(store: impl Store) -> Self {
        Self { inner: Arc::new(store), reads: Arc::default(), events: Arc::default() }
    }

    /// Returns the number of reads and of events that were read since the last call.
    fn take(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::SeqCst), self.events.swap(0, Ordering::SeqCst))
    }

    fn count(&self, events: Vec<Event>) -> Vec<Event> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.events.fetch_add(events.len(), Ordering::SeqCst);
        events
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for CountedReads {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        Ok(self.count(self.inner.read(run, after, limit).await?))
    }

    async fn read_selected(
        &self,
        run: &RunId,
        filter: &EventFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        Ok(self.count(self.inner.read_selected(run, filter, after, limit).await?))
    }
}

/// Asks a person.
#[workflow]
async fn inbox_asks_one(text: String) -> Result<bool> {
    #[node(timeout = "1h")]
    let approval = gate!("publish {text}?", text).await?;
    Ok(approval.is_granted())
}

/// Asks two people at the same time.
#[workflow]
async fn inbox_asks(text: String) -> Result<Vec<bool>> {
    let all = map!(vec![text.clone(), text], |text| inbox_asks_one(text)).await?;
    Ok(all)
}

/// Runs steps before it asks.
#[workflow]
async fn inbox_long(n: u32) -> Result<bool> {
    let all = map!((0..n).collect::<Vec<u32>>(), |n| inbox_step(n)).await?;
    let review = gate!("go on?", all).await?;
    Ok(review.is_granted())
}

async fn inbox_step(n: u32) -> Result<u32> {
    Ok(n + 1)
}

fn sorted(mut questions: Vec<OpenQuestion>) -> Vec<String> {
    questions.sort_by(|one, other| (&one.run, &one.path).cmp(&(&other.run, &other.path)));
    // The JSON has all public fields.
    questions.iter().map(|question| serde_json::to_string(question).unwrap()).collect()
}

/// Returns the open questions of all runs from their journals.
async fn from_journals(runtime: &Runtime) -> Vec<String> {
    let mut all = Vec::new();
    for run in runtime.runs().list(RunFilter::unfinished()).await.unwrap() {
        all.extend(runtime.run(&run.run_id).questions().await.unwrap());
    }
    sorted(all)
}

#[tokio::test]
async fn an_inbox_reads_no_journal() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::builder(folder.path().join("runs.db"))
        .synchronous(Synchronous::Normal)
        .open()
        .await
        .unwrap();
    for store in [CountedReads::new(MemoryStore::new()), CountedReads::new(sqlite)] {
        let runtime = Runtime::builder().store(store.clone()).build();
        for n in 0..20 {
            let run =
                runtime.start(inbox_asks::workflow(), format!("page {n}")).tag("desk", "news");
            let run = run.caller("ada").await.unwrap();
            within("two questions", async {
                while runtime.run(run.run_id()).questions().await.unwrap().len() < 2 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            if n % 4 == 0 {
                run.approve("all[0]/approval", Approval::granted(), "bob").await.unwrap();
            }
            run.abandon();
        }
        let expected = from_journals(&runtime).await;
        assert_eq!(expected.len(), 35);
        store.take();
        let inbox = runtime.runs().questions(RunFilter::new()).await.unwrap();
        assert_eq!(store.take(), (0, 0));
        assert!(inbox.is_sorted_by_key(|question| question.asked));
        assert_eq!(sorted(inbox), expected);
        let ada = runtime.for_caller("ada");
        let of_desk = ada.runs().questions(RunFilter::new().tag("desk", "news")).await.unwrap();
        assert_eq!(of_desk.len(), 35);
        assert_eq!(store.take(), (0, 0));
        // A question of the inbox is answered by its id, and the second answer is refused.
        let inbox = runtime.runs().questions(RunFilter::new()).await.unwrap();
        let question = inbox.iter().find(|question| question.path == "all[1]/approval").unwrap();
        let run = runtime.run(&question.run);
        run.approve(&question.id, Approval::granted(), "bob").await.unwrap();
        run.approve(&question.id, Approval::granted(), "bob").await.unwrap_err();
        assert_eq!(runtime.runs().questions(RunFilter::new()).await.unwrap().len(), 34);
    }
}

#[tokio::test]
async fn a_question_that_is_too_large_is_read_from_the_journal() {
    let store = CountedReads::new(MemoryStore::new());
    let runtime = Runtime::builder().store(store.clone()).build();
    let text = "x".repeat(RecordedQuestions::MAX_QUESTION_BYTES);
    let (mut runs, small) = (Vec::new(), "small".to_owned());
    for text in [&text, &small] {
        let run = runtime.start(inbox_asks::workflow(), text.clone()).await.unwrap();
        within("the question", run.asked()).await.unwrap().unwrap();
        runs.push(run);
    }
    within("both questions", async {
        while from_journals(&runtime).await.len() < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let expected = from_journals(&runtime).await;
    store.take();
    let inbox = runtime.runs().questions(RunFilter::new()).await.unwrap();
    assert_eq!(store.take().0, 1, "the journal of one run is read");
    assert_eq!(sorted(inbox), expected);
    let record = runtime.run(runs[0].run_id()).record().await.unwrap();
    let questions = record.questions.unwrap();
    assert!(!questions.is_complete() && questions.open.len() == 2);
    assert!(questions.open.iter().all(|question| question.request.is_none()));
}

#[tokio::test]
async fn a_run_of_an_earlier_layout_has_its_questions_in_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let expected = {
        let runtime = Runtime::builder().store(SqliteStore::open(&path).await.unwrap()).build();
        for n in 0..3 {
            let run = runtime.start(inbox_long::workflow(), n).await.unwrap();
            within("the question", run.asked()).await.unwrap().unwrap();
            match n {
                0 => run.cancel("enough").await.unwrap(),
                _ => run.abandon(),
            }
        }
        from_journals(&runtime).await
    };
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(
        "DROP INDEX runs_by_end; DROP INDEX runs_without_end; ALTER TABLE runs DROP COLUMN ended; \
         ALTER TABLE runs DROP COLUMN questions; ALTER TABLE runs DROP COLUMN document; \
         DROP TABLE document_versions; DROP TABLE documents; PRAGMA user_version = 8;",
    )
    .unwrap();
    drop(file);
    let store = CountedReads::new(SqliteStore::open(&path).await.unwrap());
    let runtime = Runtime::builder().store(store.clone()).build();
    let inbox = runtime.runs().questions(RunFilter::new()).await.unwrap();
    assert_eq!((store.take().0, sorted(inbox)), (2, expected));
    let by_change = RunFilter::new().order(RunOrder::Changed);
    let listed = runtime.runs().list(by_change.clone()).await.unwrap();
    assert_eq!(listed.len(), 3);
    assert!(listed.is_sorted_by(|one, other| one.updated >= other.updated));
    assert!(listed.iter().all(|run| run.questions.is_none()));
    // A run of the earlier layout continues, and a new one has its questions in its record.
    for question in runtime.runs().questions(RunFilter::new()).await.unwrap() {
        runtime.run(&question.run).approve(&question.id, Approval::granted(), "bob").await.unwrap();
        let run = runtime.run(&question.run).resume().await.unwrap();
        assert_eq!(within("the output", run.result()).await.unwrap().as_str(), "true");
    }
    let run = runtime.start(inbox_long::workflow(), 1).await.unwrap();
    within("the question", run.asked()).await.unwrap().unwrap();
    store.take();
    assert_eq!(runtime.runs().questions(RunFilter::new()).await.unwrap().len(), 1);
    assert_eq!(store.take().0, 0);
    assert_eq!(runtime.runs().list(by_change).await.unwrap().len(), 4);
}

#[tokio::test]
async fn one_node_is_inspected_without_the_rest_of_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::builder(folder.path().join("runs.db"))
        .synchronous(Synchronous::Normal)
        .open()
        .await
        .unwrap();
    for store in [CountedReads::new(MemoryStore::new()), CountedReads::new(sqlite)] {
        let runtime = Runtime::builder().store(store.clone()).build();
        let run = runtime.start(inbox_long::workflow(), 200).await.unwrap();
        within("the question", run.asked()).await.unwrap().unwrap();
        let whole = runtime.run(run.run_id()).inspect().await.unwrap();
        let events = runtime.run(run.run_id()).record().await.unwrap().events;
        assert!(events > 400, "{events}");
        for node in &whole.nodes {
            if node.name.ends_with("7]") || !node.name.contains('[') {
                store.take();
                let found = runtime.run(run.run_id()).inspect_node(&node.name).await.unwrap();
                let (reads, read) = store.take();
                assert_eq!(found.as_ref(), Some(node));
                assert_eq!(reads, 1, "{}", node.name);
                // The items of a node belong to it.
                let has_items =
                    whole.nodes.iter().any(|of| of.name.starts_with(&format!("{}[", node.name)));
                assert!(has_items || read < 20, "{}: {read} events", node.name);
            }
        }
        assert_eq!(runtime.run(run.run_id()).inspect_node("none").await.unwrap(), None);
        assert!(runtime.run(&RunId::new("none")).inspect_node("review").await.is_err());
        run.cancel("enough").await.unwrap();
        let whole = runtime.run(run.run_id()).inspect().await.unwrap();
        let review = whole.nodes.iter().find(|node| node.name == "review").cloned();
        assert_eq!(runtime.run(run.run_id()).inspect_node("review").await.unwrap(), review);
    }
}

/// Returns the events of a run that waits for an answer.
fn waiting(run: &RunId) -> Vec<Event> {
    let question = json!({
        "id": "0000000a", "message": "pay the invoice?", "payload": {"amount": 12, "text": "x".repeat(300)},
        "answer": {"type": "object", "properties": {"granted": {"type": "boolean"}}},
    });
    vec![
        started(run),
        event(run, 2, "review", "approval.requested", question),
        event(run, 3, "", "run.paused", json!({"reason": "approval"})),
    ]
}

/// Prints the time of an inbox of 2,000 waiting runs. `cargo test --release .. -- --ignored`
/// measures it.
#[allow(clippy::print_stderr, reason = "it prints a measurement")]
#[tokio::test]
#[ignore = "measures time"]
async fn an_inbox_of_2_000_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::builder(folder.path().join("runs.db"))
        .synchronous(Synchronous::Normal)
        .open()
        .await
        .unwrap();
    for n in 0..2_000 {
        let run = RunId::new(format!("run-{n}"));
        let epoch = store.create(&run, waiting(&run)).await.unwrap();
        store.close(&run, epoch).await.unwrap();
    }
    let runtime = Runtime::builder().store(store).build();
    for _ in 0..5 {
        let begun = Instant::now();
        let questions = runtime.runs().questions(RunFilter::new()).await.unwrap();
        let took = begun.elapsed();
        assert_eq!(questions.len(), 2_000);
        eprintln!("an inbox of 2,000 waiting runs: {took:?}");
    }
    let by_change = RunFilter::new().order(RunOrder::Changed).limit(50);
    let begun = Instant::now();
    let listed: Vec<RunRecord> = runtime.runs().list(by_change).await.unwrap();
    eprintln!("{} of 2,000 unfinished runs by change: {:?}", listed.len(), begun.elapsed());
}
