//! Runs in an SQLite file: the handle and its options. One thread writes, a few others read. The caller's thread waits for
//! the disk only when its run is the only one that writes and the disk is quick.
//!
//! The layout of the file is in `schema/`; it is stored, so it is only ever added to, by a new file there.

mod artifact_folder;
mod artifact_rows;
mod files;
mod listed_keys;
mod owner;
mod pace;
mod pool;
mod reader;
mod recent;
mod row;
mod session_rows;
mod sqlite_error;
mod tables;
mod upgrade;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use agentflow_core::event::{Event, RunId};
use agentflow_core::store::{
    Append, Epoch, MessageId, RunFilter, RunList, RunRecord, SessionFilter, SessionRecord, Snapshot, StateWrite, Store,
    StoreError, StoreMessage,
};
use agentflow_core::value::Encoded;
use async_trait::async_trait;
use rusqlite::Connection;

use self::artifact_folder::FileHash;
pub use self::artifact_rows::ArtifactCheck;
use self::owner::Owner;
use self::pool::Readers;
use self::recent::Recent;
use self::row::EventRow;
use self::sqlite_error::Failed;
pub(crate) use self::sqlite_error::StoreErrors;
use self::tables::{First, Tables};
use self::writer::{Abandoned, Writer};

/// Keeps runs in an SQLite file, which is made when it is not there.
///
/// A write is answered when it is on the disk; writes that come at the same time, of all runs, share one sync. Any
/// number of processes of one machine may use the file at the same time, and a run is executed by one of them: a run
/// that is open in a living process is `busy` for the others, and free the moment that process ends, however it ends.
/// Within one process, opening a run again fences off the writer before.
///
/// While another process has the file locked, as a backup does, runs wait and continue when it is free; see
/// [`SqliteStoreBuilder::busy_timeout`].
///
/// Beside the file `runs.db` lie `runs.db-wal` and `runs.db-shm`, which belong to it and are to be copied with it, and
/// one `runs.db-owner-..` for each process that executes runs. On Unix they are created with the mode 0600; a file that exists
/// keeps its mode. Open the file always by the same path: SQLite derives the path of the log from it, so a second path by a
/// hard link is refused. Large [artifacts](agentflow_core::artifact) are files in the folder
/// `runs.db-artifacts`, which only the user of the process can read; a copy has the database first and this folder after it,
/// and [`check_artifacts`](Self::check_artifacts) says whether the two go together. Put it on a local disk: over a network file system
/// SQLite's locks cannot be relied on. To delete, move or restore it, end the programs that use it first, and treat all
/// of its files as one: SQLite takes a log that another file has left there for its own. A store whose file is no
/// longer at its path, or is another one there, writes and reads nothing more and fails as `replaced`. (On Windows an
/// open file cannot be removed.)
///
/// What is deleted, a run with its artifacts or a session, is overwritten in the file. The log `runs.db-wal` has it until what is
/// written later takes its place, at the latest until the last process closes the file; copies have what they have.
///
/// Clones share the file. Dropping the last one waits until everything that was asked for is written, or, when another
/// process has the file locked, as long as the busy time-out. A process that is forked, and does not become another
/// program, must not use the store, and keeps runs of its parent `busy` as long as it lives.
///
/// SQLite is compiled into the program, once for all who use it there: the version of `libsqlite3-sys` is shared. The
/// store works with rusqlite 0.29 to 0.41, so cargo finds one that goes with sqlx 0.7, 0.8 or 0.9.
///
/// It writes on one thread and reads on a few, all of its own. A run that is the only one to write is written on the
/// thread that polls it while the disk takes less than a quarter of a millisecond for a write: there, waking another thread
/// costs more. Neither a lock nor another write is waited for on that thread. A paused tokio clock may run on while the
/// file is waited for.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentflow::store::StoreError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("runs.db");
/// use agentflow::store::{RunFilter, SqliteStore, Store};
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
    /// Artifacts of more bytes are files.
    artifact: u64,
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
    /// When the operating system has it: it survives the end of the process. The loss of power may take the last
    /// writes, and never leaves half of one. Some ten times the rate of [`Full`](Self::Full) for one run at a time.
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
    artifact_file_bytes: u64,
}

impl SqliteStoreBuilder {
    /// When a write counts as done. The default is [`Synchronous::Full`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.0.synchronous = synchronous;
        self
    }

    /// How long to wait for a file that another process has locked. The default is 5 seconds.
    ///
    /// Opening the file and reading then fail as `locked`. A write waits on, for as long as it takes, since a run
    /// should not end because another program locks its file: a warning names the runs that wait (`tracing`), once
    /// after this time and then at growing distances, and the end of the wait is logged as information. Dropping the
    /// future does not take the write back. Once all handles of the store are gone, writes that are still queued wait
    /// this long; then they are lost, and an error is logged that names their runs.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.0.busy_timeout = timeout;
        self
    }

    /// The most bytes that the file may have, before the error `full`. The write-ahead log and the files of artifacts beside
    /// it are not counted.
    /// Without it the disk is the limit.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.0.max_bytes = Some(bytes);
        self
    }

    /// The most bytes that one event may have in its JSON form, such as the output of a step; a larger one fails as
    /// `too_large`, and nothing of its commit is written. The default is 256 MiB, room for the largest answer of a
    /// model, and SQLite takes 999 MB at most. A message for a run may be as large, and a snapshot of a run eight times
    /// as large.
    pub fn max_event_bytes(mut self, bytes: u64) -> Self {
        self.0.max_event_bytes = bytes;
        self
    }

    /// An [artifact](agentflow_core::artifact) of more bytes than these is stored as a separate file, in the folder `runs.db-artifacts` beside
    /// `runs.db`; a smaller one is in the database. The default is 100,000: below some 100 kB SQLite reads and writes bytes
    /// faster than a file system, above it the file system is faster
    /// ([Internal Versus External BLOBs](https://sqlite.org/intern-v-extern-blob.html)). 0 makes each artifact a file, and
    /// [`u64::MAX`] none. What is saved already stays where it is and is read wherever it is.
    pub fn artifact_file_bytes(mut self, bytes: u64) -> Self {
        self.0.artifact_file_bytes = bytes;
        self
    }

    /// Opens the file, makes it when it is not there, and brings one of an older release up to date.
    ///
    /// # Errors
    /// `newer_version` when a newer release wrote the file; `damaged` when it cannot be read or is not an SQLite file;
    /// `locked`; `full`; `io` when its folder is missing, it is read-only or the database of another program. The file
    /// is then as it was before.
    pub async fn open(self) -> Result<SqliteStore, StoreError> {
        let (writer, errors, files, has_loose_files) = Writer::start(self.0.clone()).await?;
        if has_loose_files {
            // Nobody waits for it; its turn comes before that of the first run.
            drop(writer.submit(None, Abandoned::Done, Tables::collect_files));
        }
        let event = self.0.max_event_bytes.min(ROW);
        let artifact = self.0.artifact_file_bytes;
        let limits = Limits { event, snapshot: event.saturating_mul(SNAPSHOT).min(ROW), artifact };
        let readers = Readers::new(self.0, errors, files);
        let definitions = Arc::new(Mutex::new(Recent::new(DEFINITIONS)));
        Ok(SqliteStore(Arc::new(Shared { readers, writer, definitions, limits })))
    }
}

impl SqliteStore {
    /// Opens a file with the defaults; see [`SqliteStoreBuilder::open`].
    ///
    /// # Errors
    /// As [`SqliteStoreBuilder::open`].
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
            artifact_file_bytes: 100_000,
        })
    }

    /// The file, without links in its path.
    pub fn path(&self) -> &Path {
        self.0.readers.errors().path()
    }

    async fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &StoreErrors) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.readers.read(read).await
    }

    /// A write that is done in its turn, even when the future is dropped after its first poll.
    async fn write<T: Send + 'static>(
        &self,
        run: &RunId,
        act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.writer.submit(Some(run), Abandoned::Done, act).await
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

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        let mut record = RunRecord::from_events(&events).ok_or_else(|| StoreError::not_a_start(run))?;
        record.run_id = run.clone();
        let first = First { record, rows: EventRow::of(run, 0, &events, self.0.limits.event)? };
        self.write(run, move |tables| tables.create(&first)).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        let id = run.clone();
        // A run that is open for nobody would be in everybody's way.
        self.0.writer.submit(Some(run), Abandoned::Left, move |tables| tables.open(&id)).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        let id = run.clone();
        self.write(run, move |tables| tables.close(&id, epoch)).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        // Encoded here, on the thread of the run, so that the one writer has less to do.
        let rows = EventRow::of(run, append.after, &append.events, self.0.limits.event)?;
        let id = run.clone();
        self.write(run, move |tables| tables.append(&id, epoch, &append, &rows)).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        let rows = EventRow::of(run, after, &events, self.0.limits.event)?;
        let id = run.clone();
        self.write(run, move |tables| tables.amend(&id, after, &events, &rows)).await
    }

    async fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        let id = run.clone();
        if self.write(run, move |tables| tables.delete(&id)).await? {
            self.collect_files().await;
        }
        Ok(())
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let run = run.clone();
        self.read_with(move |connection, errors| reader::events(connection, errors, &run, after, limit)).await
    }

    async fn put_snapshot(&self, run: &RunId, epoch: Epoch, snapshot: Snapshot) -> Result<(), StoreError> {
        let body = row::snapshot_body(run, &snapshot, self.0.limits.snapshot)?;
        let (id, seq) = (run.clone(), row::number(snapshot.seq));
        self.write(run, move |tables| tables.put_snapshot(&id, epoch, seq, &body)).await
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        let run = run.clone();
        self.read_with(move |connection, errors| reader::snapshot(connection, errors, &run)).await
    }

    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        let run = run.clone();
        self.read_with(move |connection, errors| reader::record(connection, errors, &run)).await
    }

    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        let RunList { runs, unreadable, .. } = self.list_with_unreadable(filter).await?;
        for (run, error) in unreadable {
            tracing::warn!(%run, %error, "a run cannot be read and is not in the list");
        }
        Ok(runs)
    }

    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        self.read_with(move |connection, errors| reader::list(connection, errors, &filter)).await
    }

    fn keeps_state(&self) -> bool {
        true
    }

    async fn put_state(&self, writes: Vec<StateWrite>) -> Result<(), StoreError> {
        let size = |write: &StateWrite| write.value.as_ref().map_or(0, |value| value.as_str().len());
        let largest = writes.iter().map(size).max().unwrap_or_default();
        row::check_size(largest, self.0.limits.event, format_args!("a value"))?;
        self.0.writer.submit(None, Abandoned::Done, move |tables| Ok(tables.put_state(&writes)?)).await
    }

    async fn state(&self, user: Option<&str>, key: Option<&str>) -> Result<Vec<(String, Encoded)>, StoreError> {
        let (owner, key) = (tables::owner_of_state(user), key.map(ToOwned::to_owned));
        self.read_with(move |connection, errors| reader::state(connection, errors, &owner, key.as_deref())).await
    }

    fn keeps_artifacts(&self) -> bool {
        true
    }

    async fn put_artifact(&self, run: &RunId, epoch: Epoch, sha256: &str, bytes: Arc<[u8]>) -> Result<(), StoreError> {
        // Under what is not a hash nothing becomes a file: its name is in no path.
        if let Some(hash) = FileHash::parse(sha256).filter(|_| bytes.len() as u64 > self.0.limits.artifact) {
            return self.put_file(run, epoch, hash, bytes).await;
        }
        row::check_size(bytes.len(), self.0.limits.event, format_args!("an artifact of the run `{run}`"))?;
        let (id, sha256) = (run.clone(), sha256.to_owned());
        self.write(run, move |tables| tables.put_artifact(&id, epoch, &sha256, &bytes)).await
    }

    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        let (run, sha256) = (run.clone(), sha256.to_owned());
        self.read_with(move |connection, errors| artifact_rows::artifact(connection, errors, &run, &sha256)).await
    }

    fn keeps_sessions(&self) -> bool {
        true
    }

    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError> {
        let session = session.to_owned();
        self.read_with(move |connection, errors| session_rows::session(connection, errors, &session)).await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError> {
        self.read_with(move |connection, errors| session_rows::sessions(connection, errors, &filter)).await
    }

    async fn delete_session(&self, session: &str) -> Result<u64, StoreError> {
        let session = session.to_owned();
        let (runs, loose) =
            self.0.writer.submit(None, Abandoned::Done, move |tables| tables.delete_session(&session)).await?;
        if loose {
            self.collect_files().await;
        }
        Ok(runs)
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        let hash = hash.to_owned();
        if lock(&self.0.definitions).get(&hash).is_some() {
            return Ok(());
        }
        let put = hash.clone();
        self.0.writer.submit(None, Abandoned::Done, move |tables| tables.put_definition(&put, &graph)).await?;
        lock(&self.0.definitions).insert(hash, ());
        Ok(())
    }

    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let hash = hash.to_owned();
        self.read_with(move |connection, errors| reader::definition(connection, errors, &hash)).await
    }

    fn identity(&self) -> Option<String> {
        Some(format!("sqlite:{}", self.path().display()))
    }

    async fn holder(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let id = run.clone();
        // In a write transaction: only there does a lock file that nobody holds mean that its process has ended.
        self.write(run, move |tables| tables.holder(&id)).await
    }

    fn knows_holders(&self) -> bool {
        true
    }

    fn max_event_bytes(&self) -> Option<u64> {
        Some(self.0.limits.event)
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        row::check_size(message.len(), self.0.limits.event, format_args!("a message for the run `{run}`"))?;
        let id = run.clone();
        self.write(run, move |tables| tables.send(&id, &message)).await
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        let id = run.clone();
        self.write(run, move |tables| tables.receive(&id, epoch)).await
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        // A process that has had no run open is sent nothing.
        let Some(owner) = Owner::existing(self.path()) else { return Ok(Vec::new()) };
        self.read_with(move |connection, errors| reader::inbox(connection, errors, owner.id())).await
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.read_with(move |connection, errors| reader::outcome(connection, errors, message)).await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.0.writer.submit(None, Abandoned::Done, move |tables| tables.withdraw(message)).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}
