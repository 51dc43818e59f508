//! Tests a store whose file is locked by another process: runs wait, log that, and continue.
//!
//! This is a separate test program, since it installs the process-wide `tracing` subscriber.

use std::fmt::{Debug, Write};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, Once};
use std::time::Duration;

use agentflow::RunId;
use agentflow::store::{Append, MessageStore, SqliteStore, Store, StoreError, StoreErrorKind};
use agentflow_tests::journal::{noted, notes, started};
use futures_util::FutureExt;
use rusqlite::Connection;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The log of all threads of this program.
static LOGGED: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

struct LogCollector;

impl<S: Subscriber> Layer<S> for LogCollector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LOGGED.lock().unwrap().push((*event.metadata().level(), line.0));
        MORE.notify_all();
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

/// Longer than any operation in these tests.
const LONG: Duration = Duration::from_secs(60);

/// Waits for the given number of messages about a file and returns the last one.
fn wait_for_log(level: Level, path: &Path, times: usize) -> String {
    let about =
        |(of, line): &&(Level, String)| *of == level && line.contains(&*path.to_string_lossy());
    let lines = LOGGED.lock().unwrap();
    let too_few = |lines: &mut Vec<_>| lines.iter().filter(about).count() < times;
    let (lines, _) = MORE.wait_timeout_while(lines, LONG, too_few).unwrap();
    lines.iter().filter(about).nth(times - 1).expect("it is said in time").1.clone()
}

fn run() -> RunId {
    RunId::new("a")
}

struct Locked {
    _folder: tempfile::TempDir,
    path: PathBuf,
    store: SqliteStore,
    other: Connection,
}

/// Prepares a store, then locks its file through another connection.
async fn locked(prepare: impl AsyncFnOnce(&SqliteStore)) -> Locked {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(
            tracing_subscriber::Registry::default().with(LogCollector),
        )
        .unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("runs.db");
    let store =
        SqliteStore::builder(&path).busy_timeout(Duration::from_millis(50)).open().await.unwrap();
    prepare(&store).await;
    // SQLite treats another connection like another process.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    Locked { _folder: folder, path, store, other }
}

#[tokio::test]
async fn runs_wait_and_continue() {
    let mut epochs = Vec::new();
    let Locked { _folder, path, store, other } = locked(async |store| {
        epochs.push(store.create(&run(), vec![started(&run())]).await.unwrap());
        store.send(&run(), "a message".to_owned()).await.unwrap();
    })
    .await;
    let (epoch, id, new) = (epochs[0], run(), RunId::new("new"));
    let mut append = store.append(&id, epoch, Append::new(1, vec![noted(&id, 2, "later")]));
    assert!((&mut append).now_or_never().is_none(), "it waits");
    let warning = wait_for_log(Level::WARN, &path, 1);
    assert!(
        warning.contains("has the store locked") && warning.contains("runs=\"a\""),
        "{warning}"
    );
    let mut create = store.create(&new, vec![started(&new)]);
    assert!((&mut create).now_or_never().is_none(), "it waits");
    let other_handle = store.clone();
    let receive = tokio::spawn(async move { other_handle.receive(&run(), epoch).await });
    assert_eq!(store.read(&run(), 0, 10).await.unwrap().len(), 1, "reading continues");
    wait_for_log(Level::WARN, &path, 2);
    assert!((&mut append).now_or_never().is_none(), "it waits");
    other.execute_batch("ROLLBACK").unwrap();
    append.await.unwrap();
    create.await.unwrap();
    let messages = receive.await.unwrap().unwrap();
    assert_eq!(
        messages.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(),
        ["a message"]
    );
    store.close(&run(), epoch).await.unwrap();
    assert_eq!(notes(&store.read(&run(), 0, 10).await.unwrap()), ["later"]);
    let end = wait_for_log(Level::INFO, &path, 1);
    assert!(end.contains("no longer locked"), "{end}");
}

#[tokio::test]
async fn a_store_that_is_dropped_while_it_waits_says_what_is_lost() {
    let mut epochs = Vec::new();
    let Locked { _folder, path, store, other } = locked(async |store| {
        epochs.push(store.create(&run(), vec![started(&run())]).await.unwrap());
    })
    .await;
    let append = store
        .append(&run(), epochs[0], Append::new(1, vec![noted(&run(), 2, "lost")]))
        .now_or_never();
    assert!(append.is_none(), "it waits, also when nobody waits for it");
    let (dropped, is_dropped) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(store);
        dropped.send(())
    });
    is_dropped.recv_timeout(LONG).expect("it does not wait for ever");
    let lost = wait_for_log(Level::ERROR, &path, 1);
    assert!(
        lost.contains("these writes are lost") && lost.contains("writes=1 runs=\"a\""),
        "{lost}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(
        store.read(&run(), 0, 10).await.unwrap().len(),
        1,
        "what was written before is there"
    );
}

#[tokio::test]
async fn an_opening_that_nobody_waits_for_is_left() {
    let mut epochs = Vec::new();
    let Locked { _folder, path, store, other } = locked(async |store| {
        epochs.push(store.create(&run(), vec![started(&run())]).await.unwrap());
    })
    .await;
    assert!(store.open(&run()).now_or_never().is_none(), "it waits");
    wait_for_log(Level::WARN, &path, 1);
    other.execute_batch("ROLLBACK").unwrap();
    let append =
        store.append(&run(), epochs[0], Append::new(1, vec![noted(&run(), 2, "mine")])).await;
    append.expect("nobody has opened it since");
}

#[tokio::test]
async fn a_description_that_is_there_is_not_written_again() {
    let Locked { _folder, store, other, .. } = locked(async |store| {
        store.put_definition("d1", "{}".to_owned()).await.unwrap();
    })
    .await;
    let known = store.put_definition("d1", "{}".to_owned()).now_or_never();
    known.expect("it is known without the file").unwrap();
    let mut new = store.put_definition("d2", "{}".to_owned());
    assert!((&mut new).now_or_never().is_none(), "it waits for the file");
    other.execute_batch("ROLLBACK").unwrap();
    new.await.unwrap();
    assert_eq!(store.definition("d2").await.unwrap().as_deref(), Some("{}"));
}

#[tokio::test]
async fn opening_a_locked_file_fails_when_it_must_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let open = || SqliteStore::builder(&path).busy_timeout(Duration::from_millis(50)).open();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error: StoreError = open().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Locked, "{error}");
    for words in ["runs.db", "locked for longer than 50ms", "busy_timeout"] {
        assert!(error.to_string().contains(words), "`{words}` is not in: {error}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    drop(open().await.unwrap());
    // A file that already has the tables need not be written.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(open().await.unwrap());
}
