//! Runs in an SQLite file: the handle and its options. What is written goes to one thread, what is read does not.
//!
//! The layout of the file is in `schema/`; it is stored, so it is only ever added to, by a new file there.

mod owner;
mod problem;
mod reader;
mod row;
mod schema;
mod tables;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use self::owner::Owner;
use self::problem::Problems;
use self::reader::Readers;
use self::row::EventRow;
use self::tables::First;
use self::writer::Writer;
use super::{
    Append, Epoch, MessageId, RunFilter, RunRecord, Snapshot, Store, StoreError, StoreErrorKind, StoreMessage,
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
/// Beside the file `runs.db` lie `runs.db-wal` and `runs.db-shm`, which belong to it and are to be copied with it, and
/// one `runs.db-owner-..` for each process that executes runs. Put it on a local disk: over a network file system
/// SQLite's locks cannot be relied on.
///
/// Clones share the file. Dropping the last one waits until everything that was asked for is written.
///
/// Reading needs a tokio runtime around it. A paused tokio clock may run on while the file is waited for.
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
}

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
}

impl SqliteStoreBuilder {
    /// When a write counts as done. The default is [`Synchronous::Full`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.0.synchronous = synchronous;
        self
    }

    /// How long to wait for a file that another process has locked, before the error `locked`. The default is 5 seconds.
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

    /// Opens the file, makes it when it is not there, and brings one of an older release up to date.
    ///
    /// # Errors
    /// `newer_version` when a newer release wrote the file; `damaged` when it cannot be read or is no SQLite file;
    /// `locked`; `full`; `io` when its folder is missing, it is read-only or the database of another program. The file
    /// is then as it was before.
    pub async fn open(self) -> Result<SqliteStore, StoreError> {
        let (writer, problems) = Writer::start(self.0.clone()).await?;
        Ok(SqliteStore(Arc::new(Shared { readers: Readers::new(self.0, problems), writer })))
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
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let reading = tokio::task::spawn_blocking(move || shared.readers.with(read));
            reading.await.unwrap_or_else(|error| {
                Err(StoreError::new(StoreErrorKind::Io, "the store was not read to the end").caused_by(error))
            })
        })
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
        match EventRow::of(run, 0, &events) {
            Ok(rows) => {
                let first = First { record, rows };
                Box::pin(self.0.writer.submit(move |tables| tables.create(&first)))
            }
            Err(error) => refused(error),
        }
    }

    fn open(&self, run: &RunId) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        let run = run.clone();
        Box::pin(self.0.writer.submit(move |tables| tables.open(&run)))
    }

    fn close(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        let run = run.clone();
        Box::pin(self.0.writer.submit(move |tables| tables.close(&run, epoch)))
    }

    fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> BoxFuture<'static, Result<(), StoreError>> {
        // Encoded here, on the thread of the run, so that the one writer has less to do.
        match EventRow::of(run, append.after, &append.events) {
            Ok(rows) => {
                let run = run.clone();
                Box::pin(self.0.writer.submit(move |tables| tables.append(&run, epoch, &append, &rows)))
            }
            Err(error) => refused(error),
        }
    }

    fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> BoxFuture<'static, Result<(), StoreError>> {
        match EventRow::of(run, after, &events) {
            Ok(rows) => {
                let run = run.clone();
                Box::pin(self.0.writer.submit(move |tables| tables.amend(&run, after, &events, &rows)))
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
        match row::snapshot_body(&snapshot) {
            Ok(body) => {
                let (run, seq) = (run.clone(), row::number(snapshot.seq));
                Box::pin(self.0.writer.submit(move |tables| tables.put_snapshot(&run, epoch, seq, &body)))
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
        self.read_with(move |connection, problems| reader::list(connection, problems, &filter))
    }

    fn put_definition(&self, hash: &str, graph: String) -> BoxFuture<'static, Result<(), StoreError>> {
        let hash = hash.to_owned();
        Box::pin(self.0.writer.submit(move |tables| tables.put_definition(&hash, &graph)))
    }

    fn definition(&self, hash: &str) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        let hash = hash.to_owned();
        self.read_with(move |connection, problems| reader::definition(connection, problems, &hash))
    }

    fn identity(&self) -> Option<String> {
        Some(format!("sqlite:{}", self.path().display()))
    }

    fn holder(&self, run: &RunId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        let run = run.clone();
        // Within a write transaction: only there is a lock file that nobody holds one of a process that has ended.
        Box::pin(self.0.writer.submit(move |tables| tables.holder(&run)))
    }

    fn send(&self, run: &RunId, message: String) -> BoxFuture<'static, Result<MessageId, StoreError>> {
        let run = run.clone();
        Box::pin(self.0.writer.submit(move |tables| tables.send(&run, &message)))
    }

    fn receive(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        let run = run.clone();
        Box::pin(self.0.writer.submit(move |tables| tables.receive(&run, epoch)))
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
        Box::pin(self.0.writer.submit(move |tables| tables.withdraw(message)))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}
