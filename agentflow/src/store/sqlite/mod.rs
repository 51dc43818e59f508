//! Runs in an SQLite file: the handle and its options. What is written goes to one thread, what is read does not.
//!
//! The layout of the file is in `schema/`; it is stored, so it is only ever added to, by a new file there.

mod files;
mod owner;
mod pool;
mod problem;
mod reader;
mod recent;
mod row;
mod schema;
mod tables;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use self::owner::Owner;
use self::pool::Readers;
use self::problem::{Failed, Problems};
use self::recent::Recent;
use self::row::EventRow;
use self::tables::{First, Tables};
use self::writer::{Abandoned, Writer};
use super::{
    Append, Epoch, MessageId, RunFilter, RunList, RunRecord, Snapshot, Store, StoreError, StoreErrorKind, StoreMessage,
};
use crate::event::{Event, RunId};
use crate::model::BoxFuture;

/// Keeps runs in an SQLite file, which is made when it is not there.
///
/// A write is answered when it is on the disk; writes that come at the same time, of all runs, share one sync. Any number
/// of processes of one machine may use the file at the same time, and a run is executed by one of them: a run that is
/// open in a living process is `busy` for the others, and free the moment that process ends, however it ends. Within
/// one process, opening a run again fences off whoever had it open.
///
/// While another process has the file locked, as a backup does, runs wait and continue when it is free; see
/// [`SqliteStoreBuilder::busy_timeout`].
///
/// Beside the file `runs.db` lie `runs.db-wal` and `runs.db-shm`, which belong to it and are to be copied with it, and
/// one `runs.db-owner-..` for each process that executes runs. Put it on a local disk: over a network file system
/// SQLite's locks cannot be relied on. To delete, move or restore it, end the programs that use it first, and treat all
/// of its files as one: SQLite takes a log that another file has left there for its own. A store whose file is no longer
/// at its path, or is another one there, writes and reads nothing more and fails as `replaced`. (On Windows an open file
/// cannot be removed.)
///
/// Clones share the file. Dropping the last one waits until everything that was asked for is written, or, when another
/// process has the file locked, as long as the busy time-out. A process that is forked, and does not become another
/// program, must not use the store, and keeps runs of its parent `busy` as long as it lives.
///
/// SQLite is compiled into the program, once for all who use it there: the version of `libsqlite3-sys` is shared. The
/// store works with rusqlite 0.29 to 0.41, so cargo finds one that goes with sqlx 0.7, 0.8 or 0.9.
///
/// It writes on one thread and reads on a few, all of its own. A paused tokio clock may run on while the file is waited
/// for.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentflow::StoreError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("runs.db");
/// use agentflow::{RunFilter, SqliteStore, Store};
///
/// let store = SqliteStore::open(path).await?;
/// assert!(store.list(RunFilter::unfinished()).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteStore(Arc<Shared>);

struct Shared {
    // Dropped first: the last connection to go is the writer's, which folds the write-ahead log into the file.
    readers: Readers,
    writer: Writer,
    /// The hashes of descriptions that are in the file.
    definitions: Definitions,
    limits: Limits,
}

type Definitions = Arc<Mutex<Recent<String, ()>>>;

/// How many bytes a text may have.
#[derive(Clone, Copy)]
struct Limits {
    event: u64,
    snapshot: u64,
}

/// At least so many hashes of descriptions are remembered.
const DEFINITIONS: usize = 1024;

/// What SQLite takes in one row, less the other columns.
const ROW: u64 = 999_000_000;

/// So many times as large as an event may be a snapshot, which holds many.
const SNAPSHOT: u64 = 8;

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Synchronous {
    /// When the disk has it: it survives the end of the process and the loss of power.
    #[default]
    Full,
    /// When the operating system has it: it survives the end of the process. The loss of power may take the last writes,
    /// and never leaves half of one. Some ten times the rate of [`Full`](Self::Full) for one run at a time.
    Normal,
}

/// How a store is opened; made by [`SqliteStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteStoreBuilder(Settings);

#[derive(Clone, Debug)]
struct Settings {
    path: PathBuf,
    synchronous: Synchronous,
    busy_timeout: Duration,
    max_bytes: Option<u64>,
    max_event_bytes: u64,
}

impl SqliteStoreBuilder {
    /// When a write counts as done. The default is [`Synchronous::Full`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.0.synchronous = synchronous;
        self
    }

    /// How long to wait for a file that another process has locked. The default is 5 seconds.
    ///
    /// What follows depends on who waits. Opening the file, and reading, fail as `locked`. Whatever is written waits on,
    /// for as long as it takes, since a run should not end for what somebody else does to its file: a warning says so
    /// (`tracing`) with the runs that wait, once after this time and then at growing distances, and the end of the wait is
    /// logged as information. Who wants to wait no longer drops the future. Once all handles of the store are gone,
    /// what is still to be written is waited for this long; then it fails as `locked`, and an error is logged that names
    /// its runs.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.0.busy_timeout = timeout;
        self
    }

    /// The most bytes that the file may have, before the error `full`. The write-ahead log beside it is not counted.
    /// Without it the disk is the limit.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.0.max_bytes = Some(bytes);
        self
    }

    /// The most bytes that one event may have in its JSON form, such as the output of a step; a larger one fails as
    /// `too_large`, and nothing of its commit is written. The default is 256 MiB, room for the largest answer of a model,
    /// and SQLite takes 999 MB at most. A message for a run may be as large, and a snapshot of a run eight times as large.
    pub fn max_event_bytes(mut self, bytes: u64) -> Self {
        self.0.max_event_bytes = bytes;
        self
    }

    /// Opens the file, makes it when it is not there, and brings one of an older release up to date.
    ///
    /// # Errors
    /// `newer_version` when a newer release wrote the file; `damaged` when it cannot be read or is no SQLite file;
    /// `locked`; `full`; `io` when its folder is missing, it is read-only or the database of another program. The file
    /// is then as it was before.
    pub async fn open(self) -> Result<SqliteStore, StoreError> {
        let (writer, problems, files) = Writer::start(self.0.clone()).await?;
        let event = self.0.max_event_bytes.min(ROW);
        let limits = Limits { event, snapshot: event.saturating_mul(SNAPSHOT).min(ROW) };
        let readers = Readers::new(self.0, problems, files);
        let definitions = Arc::new(Mutex::new(Recent::new(DEFINITIONS)));
        Ok(SqliteStore(Arc::new(Shared { readers, writer, definitions, limits })))
    }
}

impl SqliteStore {
    /// Opens a file with the defaults; see [`SqliteStoreBuilder::open`].
    ///
    /// # Errors
    /// As there.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::builder(path).open().await
    }

    /// Options for opening a file.
    pub fn builder(path: impl Into<PathBuf>) -> SqliteStoreBuilder {
        SqliteStoreBuilder(Settings {
            path: path.into(),
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            max_bytes: None,
            max_event_bytes: 256 << 20,
        })
    }

    /// The file, without links in its path.
    pub fn path(&self) -> &Path {
        self.0.readers.problems().path()
    }

    fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &Problems) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        Box::pin(self.0.readers.read(read))
    }

    /// A write that waits its turn, whether or not anybody waits for it.
    fn write<T: Send + 'static>(
        &self,
        run: &RunId,
        act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        Box::pin(self.0.writer.submit(Some(run), Abandoned::Done, act))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of a thread, which has panicked or done everything. Only a thread itself does not wait for it.
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

fn refused<T: Send + 'static>(error: StoreError) -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(error)))
}

impl Store for SqliteStore {
    fn create(&self, run: &RunId, events: Vec<Event>) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        let Some(mut record) = events.first().and_then(RunRecord::new) else {
            let text = format!("the run `{run}` cannot be created: its first event is not `run.started`");
            return refused(StoreError::new(StoreErrorKind::Io, text));
        };
        record.run_id = run.clone();
        events.iter().for_each(|event| record.apply(event));
        match EventRow::of(run, 0, &events, self.0.limits.event) {
            Ok(rows) => {
                let first = First { record, rows };
                self.write(run, move |tables| tables.create(&first))
            }
            Err(error) => refused(error),
        }
    }

    fn open(&self, run: &RunId) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        let id = run.clone();
        // A run that is open for nobody would be in everybody's way.
        Box::pin(self.0.writer.submit(Some(run), Abandoned::Left, move |tables| tables.open(&id)))
    }

    fn close(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        let id = run.clone();
        self.write(run, move |tables| tables.close(&id, epoch))
    }

    fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> BoxFuture<'static, Result<(), StoreError>> {
        // Encoded here, on the thread of the run, so that the one writer has less to do.
        match EventRow::of(run, append.after, &append.events, self.0.limits.event) {
            Ok(rows) => {
                let id = run.clone();
                self.write(run, move |tables| tables.append(&id, epoch, &append, &rows))
            }
            Err(error) => refused(error),
        }
    }

    fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> BoxFuture<'static, Result<(), StoreError>> {
        match EventRow::of(run, after, &events, self.0.limits.event) {
            Ok(rows) => {
                let id = run.clone();
                self.write(run, move |tables| tables.amend(&id, after, &events, &rows))
            }
            Err(error) => refused(error),
        }
    }

    fn read(&self, run: &RunId, after: u64, limit: usize) -> BoxFuture<'static, Result<Vec<Event>, StoreError>> {
        let run = run.clone();
        self.read_with(move |connection, problems| reader::events(connection, problems, &run, after, limit))
    }

    fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        match row::snapshot_body(run, &snapshot, self.0.limits.snapshot) {
            Ok(body) => {
                let (id, seq) = (run.clone(), row::number(snapshot.seq));
                self.write(run, move |tables| tables.put_snapshot(&id, epoch, seq, &body))
            }
            Err(error) => refused(error),
        }
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        let run = run.clone();
        self.read_with(move |connection, problems| reader::snapshot(connection, problems, &run))
    }

    fn record(&self, run: &RunId) -> BoxFuture<'static, Result<Option<RunRecord>, StoreError>> {
        let run = run.clone();
        self.read_with(move |connection, problems| reader::record(connection, problems, &run))
    }

    fn list(&self, filter: RunFilter) -> BoxFuture<'static, Result<Vec<RunRecord>, StoreError>> {
        let listing = self.list_with_unreadable(filter);
        Box::pin(async move {
            let RunList { runs, unreadable, .. } = listing.await?;
            for (run, error) in unreadable {
                tracing::warn!(%run, %error, "a run cannot be read and is not in the list");
            }
            Ok(runs)
        })
    }

    fn list_with_unreadable(&self, filter: RunFilter) -> BoxFuture<'static, Result<RunList, StoreError>> {
        self.read_with(move |connection, problems| reader::list(connection, problems, &filter))
    }

    fn put_definition(&self, hash: &str, graph: String) -> BoxFuture<'static, Result<(), StoreError>> {
        let hash = hash.to_owned();
        if lock(&self.0.definitions).get(&hash).is_some() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let (known, put) = (Arc::clone(&self.0.definitions), hash.clone());
        let put = self.0.writer.submit(None, Abandoned::Done, move |tables| tables.put_definition(&put, &graph));
        Box::pin(async move {
            put.await?;
            lock(&known).insert(hash, ());
            Ok(())
        })
    }

    fn definition(&self, hash: &str) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        let hash = hash.to_owned();
        self.read_with(move |connection, problems| reader::definition(connection, problems, &hash))
    }

    fn identity(&self) -> Option<String> {
        Some(format!("sqlite:{}", self.path().display()))
    }

    fn holder(&self, run: &RunId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        let id = run.clone();
        // Within a write transaction: only there is a lock file that nobody holds one of a process that has ended.
        self.write(run, move |tables| tables.holder(&id))
    }

    fn send(&self, run: &RunId, message: String) -> BoxFuture<'static, Result<MessageId, StoreError>> {
        let size = row::check_size(message.len(), self.0.limits.event, format_args!("a message for the run `{run}`"));
        if let Err(error) = size {
            return refused(error);
        }
        let id = run.clone();
        self.write(run, move |tables| tables.send(&id, &message))
    }

    fn max_event_bytes(&self) -> Option<u64> {
        Some(self.0.limits.event)
    }

    fn receive(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        let run = run.clone();
        self.write(&run.clone(), move |tables| tables.receive(&run, epoch))
    }

    fn inbox(&self) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        // A process that has had no run open is sent nothing.
        let Some(owner) = Owner::existing(self.path()) else { return Box::pin(std::future::ready(Ok(Vec::new()))) };
        self.read_with(move |connection, problems| reader::inbox(connection, problems, owner.id()))
    }

    fn outcome(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.read_with(move |connection, problems| reader::outcome(connection, problems, message))
    }

    fn withdraw(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        Box::pin(self.0.writer.submit(None, Abandoned::Done, move |tables| tables.withdraw(message)))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}
