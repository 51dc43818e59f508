//! Runs in an SQLite file: [`SqliteStore`] and its options.
//!
//! An operation is encoded on the caller's thread and sent to the writer thread (`writer.rs`). The
//! writer executes the operations of all runs, several per transaction (`tables.rs`). If a single
//! run writes and the disk is fast, the caller's thread executes the write (`pace.rs`). Reads run
//! on a few other threads (`pool.rs`, `reader.rs`).
//!
//! `parts.rs` and `documents.rs` implement the optional parts of a store. `owner.rs` records which process has a run open, `files.rs` detects replaced files, and
//! `artifact_folder.rs` stores large artifacts.
//!
//! The tables are defined in `schema/`. Do not change the files there, because stores with these
//! tables exist: a new version of the tables adds a file.

mod artifact_folder;
mod artifact_rows;
mod claimable;
mod documents;
mod files;
mod listed_keys;
mod owner;
mod pace;
mod parts;
mod pool;
mod reader;
mod recent;
mod row;
mod run_conditions;
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
    Append, ArtifactStore, DocumentStore, Epoch, EventFilter, LeaseStore, MessageStore, RunFilter,
    RunList, RunRecord, SessionStore, Snapshot, StateStore, Store, StoreError,
};
use async_trait::async_trait;
use rusqlite::Connection;

pub use self::artifact_rows::ArtifactCheck;
use self::pool::Readers;
use self::recent::RecentCache;
use self::row::EventRow;
use self::sqlite_error::Failed;
pub(crate) use self::sqlite_error::StoreErrors;
use self::tables::{First, Tables};
use self::writer::{AbandonedPolicy, Writer};

/// A store that keeps runs in an SQLite file. The file is created if it does not exist.
///
/// # Processes
///
/// A write returns when it is on the disk. Simultaneous writes of all runs share one sync. Any
/// number of processes on one machine may use the file at the same time, and each run is executed
/// by one of them. A run that is open in a living process is `busy` for the others. It is free as
/// soon as that process ends, even after a crash. Within one process, opening a run again fences
/// off the earlier writer.
///
/// While another process has locked the file, for example for a backup, runs wait. They continue
/// when the lock is released; see [`SqliteStoreBuilder::busy_timeout`].
///
/// # Files
///
/// `runs.db` comes with `runs.db-wal` and `runs.db-shm`, which belong to the database and must be
/// copied with it, and with one `runs.db-owner-..` for each process that executes runs. On Unix,
/// new files have the mode 0600, and an existing file keeps its mode. Always open the file by the
/// same path: SQLite derives the path of the log from it, so a second path by a hard link is
/// refused.
///
/// Large [artifacts](agentflow_core::artifact) are files in the folder `runs.db-artifacts`, which
/// only the user of the process can read. To make a copy, copy the database first and this folder
/// second. [`check_artifacts`](Self::check_artifacts) verifies that the two match.
///
/// Put the file on a local disk, because SQLite's locks are unreliable on a network file system.
/// End the programs that use the file before you delete, move or restore it, and treat all of its
/// files as one unit: SQLite would apply a log that remains from another database. If the file is
/// removed from its path or replaced, the store stops reading and writing, and its operations fail
/// with `replaced`. (On Windows an open file cannot be removed.)
///
/// The content of a deleted run, its artifacts and a deleted session are overwritten in the file.
/// The log `runs.db-wal` contains the content until later writes replace it, at the latest until
/// the last process closes the file. Copies of the file keep the content.
///
/// Clones share the file. Dropping the last clone waits until all requested writes are done. If
/// another process has locked the file, it waits no longer than the busy time-out. A forked process
/// that does not execute another program must not use the store, and keeps the runs of its parent
/// `busy` as long as it lives.
///
/// # SQLite version
///
/// SQLite is compiled into the program. All crates of a program share one version of
/// `libsqlite3-sys`. The store works with rusqlite 0.29 to 0.41, so cargo finds a version that is
/// compatible with sqlx 0.7, 0.8 or 0.9.
///
/// # Threads
///
/// The store has one thread that writes and a few that read. If only one run writes, and the disk
/// completes a write in less than a quarter of a millisecond, the write is executed on the thread
/// that polls the run, because waking another thread costs more. This thread never waits for a lock
/// or for another write. A paused tokio clock may advance while the store waits for the file.
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
    // Dropped first: the writer's connection must close last, because closing it
    // copies the write-ahead log into the file.
    readers: Readers,
    writer: Writer,
    /// Hashes of graph definitions that are known to be in the file.
    definitions: Definitions,
    limits: SizeLimits,
}

type Definitions = Arc<Mutex<RecentCache<String, ()>>>;

/// Maximum sizes in bytes.
#[derive(Clone, Copy)]
struct SizeLimits {
    event: u64,
    snapshot: u64,
    /// Larger artifacts are stored as files.
    artifact: u64,
}

/// Minimum number of definition hashes that are remembered.
const DEFINITIONS: usize = 1024;

/// SQLite's limit for one row, minus room for the other columns.
const ROW: u64 = 999_000_000;

/// Maximum size of a snapshot, as a multiple of the maximum size of an event. A snapshot contains
/// many events.
const SNAPSHOT: u64 = 8;

/// The durability of a completed write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Synchronous {
    /// The write is on the disk. It survives a crash of the process and a power failure.
    #[default]
    Full,
    /// The operating system has the write. It survives a crash of the process. A power failure may
    /// lose the last writes, but never leaves a partial write. About ten times as fast as
    /// [`Full`](Self::Full) for one run at a time.
    Normal,
}

/// Options for opening a store. Created by [`SqliteStore::builder`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentflow::store::StoreError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("runs.db");
/// use std::time::Duration;
///
/// use agentflow::store::{RunFilter, SqliteStore, Store, Synchronous};
///
/// let builder = SqliteStore::builder(path).busy_timeout(Duration::from_secs(30));
/// let store = builder.synchronous(Synchronous::Normal).open().await?;
/// assert!(store.list(RunFilter::unfinished()).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteStoreBuilder(StoreSettings);

#[derive(Clone, Debug)]
struct StoreSettings {
    path: PathBuf,
    synchronous: Synchronous,
    busy_timeout: Duration,
    max_bytes: Option<u64>,
    max_event_bytes: u64,
    artifact_file_bytes: u64,
}

impl SqliteStoreBuilder {
    /// Sets the durability of a completed write. The default is [`Synchronous::Full`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.0.synchronous = synchronous;
        self
    }

    /// Sets the time to wait for a file that another process has locked. The default is 5 seconds.
    ///
    /// After this time, opening the file and reading fail with `locked`. A write continues to wait
    /// without a limit, because a run should not fail when another program locks its file. A
    /// warning (`tracing`) names the waiting runs, once after this time and then at increasing
    /// intervals. The end of the wait is logged at the level `info`. Dropping the future does not
    /// cancel the write.
    ///
    /// After all handles of the store are dropped, queued writes wait for this time. Then they are
    /// lost, and the store logs an error that names their runs.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.0.busy_timeout = timeout;
        self
    }

    /// Sets the maximum size of the file in bytes. A larger file is the error `full`. The
    /// write-ahead log and the artifact files are not counted. By default, only the disk limits the
    /// size.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.0.max_bytes = Some(bytes);
        self
    }

    /// Sets the maximum size of one event in bytes of its JSON form, such as the output of a step.
    /// A larger event fails with `too_large`, and its commit writes nothing.
    ///
    /// The default is 256 MiB, enough for the largest answer of a model. SQLite's limit is 999 MB.
    /// The limit also applies to a message for a run. A snapshot of a run may be eight times as
    /// large.
    pub fn max_event_bytes(mut self, bytes: u64) -> Self {
        self.0.max_event_bytes = bytes;
        self
    }

    /// Sets the size in bytes above which an [artifact](agentflow_core::artifact) is stored as a
    /// file, in the folder `runs.db-artifacts` next to `runs.db`. Smaller artifacts are stored in
    /// the database.
    ///
    /// The default is 100,000: below about 100 kB SQLite is faster than a file system, above it the
    /// file system is faster ([Internal Versus External
    /// BLOBs](https://sqlite.org/intern-v-extern-blob.html)). 0 stores every artifact as a file,
    /// [`u64::MAX`] stores none as a file. The setting applies to new artifacts. Existing artifacts
    /// are read from both places.
    pub fn artifact_file_bytes(mut self, bytes: u64) -> Self {
        self.0.artifact_file_bytes = bytes;
        self
    }

    /// Opens the file, creates it if it does not exist, and upgrades a file of an older release.
    ///
    /// # Errors
    /// - `newer_version`: a newer release wrote the file.
    /// - `damaged`: the file cannot be read or is not an SQLite file.
    /// - `locked`: another process has locked the file for longer than the busy time-out.
    /// - `full`: the disk or the file is full.
    /// - `io`: the folder is missing, the file is read-only, or the file is the database of another
    ///   program.
    ///
    /// The file is not changed then.
    pub async fn open(self) -> Result<SqliteStore, StoreError> {
        let (writer, errors, files, has_loose_files) = Writer::start(self.0.clone()).await?;
        if has_loose_files {
            // The cleanup runs in the background, before the operations of the first run.
            drop(writer.submit(None, AbandonedPolicy::Done, Tables::collect_files));
        }
        let event = self.0.max_event_bytes.min(ROW);
        let artifact = self.0.artifact_file_bytes;
        let limits =
            SizeLimits { event, snapshot: event.saturating_mul(SNAPSHOT).min(ROW), artifact };
        let readers = Readers::new(self.0, errors, files);
        let definitions = Arc::new(Mutex::new(RecentCache::new(DEFINITIONS)));
        Ok(SqliteStore(Arc::new(Shared { readers, writer, definitions, limits })))
    }
}

impl SqliteStore {
    /// Opens a file with the default options. See [`SqliteStoreBuilder::open`].
    ///
    /// # Errors
    /// Same as [`SqliteStoreBuilder::open`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::builder(path).open().await
    }

    /// Returns options for opening a file.
    pub fn builder(path: impl Into<PathBuf>) -> SqliteStoreBuilder {
        SqliteStoreBuilder(StoreSettings {
            path: path.into(),
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            max_bytes: None,
            max_event_bytes: 256 << 20,
            artifact_file_bytes: 100_000,
        })
    }

    /// Returns the path of the file, with links resolved.
    pub fn path(&self) -> &Path {
        self.0.readers.errors().path()
    }

    async fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &StoreErrors) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.readers.read(read).await
    }

    /// Queues a write. It is executed even if the future is dropped after its first poll.
    async fn write<T: Send + 'static>(
        &self,
        run: &RunId,
        act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.writer.submit(Some(run), AbandonedPolicy::Done, act).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a thread has ended. A thread cannot join itself, so a call from that thread returns
/// at once.
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        let mut record =
            RunRecord::from_events(&events).ok_or_else(|| StoreError::not_a_start(run))?;
        record.run_id = run.clone();
        let first =
            First { record, rows: EventRow::encode_all(run, 0, &events, self.0.limits.event)? };
        self.write(run, move |tables| tables.create(&first)).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        let id = run.clone();
        // If the future is dropped, the run must not be opened: without a handle, nothing would
        // close it, and it would stay `busy` for all processes.
        self.0.writer.submit(Some(run), AbandonedPolicy::Left, move |tables| tables.open(&id)).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        let id = run.clone();
        self.write(run, move |tables| tables.close(&id, epoch)).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        // The events are encoded on the caller's thread, so that the single writer thread has less
        // work.
        let rows = EventRow::encode_all(run, append.after, &append.events, self.0.limits.event)?;
        let id = run.clone();
        self.write(run, move |tables| tables.append(&id, epoch, &append, &rows)).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        let rows = EventRow::encode_all(run, after, &events, self.0.limits.event)?;
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
        self.read_with(move |connection, errors| {
            reader::events(connection, errors, &run, after, limit)
        })
        .await
    }

    async fn read_selected(
        &self,
        run: &RunId,
        filter: &EventFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let (run, filter) = (run.clone(), filter.clone());
        self.read_with(move |connection, errors| {
            reader::selected_events(connection, errors, (&run, &filter), after, limit)
        })
        .await
    }

    async fn count(&self, filter: RunFilter) -> Result<u64, StoreError> {
        self.read_with(move |connection, errors| reader::count(connection, errors, &filter)).await
    }

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
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

    async fn claimable(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.read_with(move |connection, errors| claimable::runs(connection, errors, filter)).await
    }

    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        self.read_with(move |connection, errors| reader::list(connection, errors, &filter)).await
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        let hash = hash.to_owned();
        if lock(&self.0.definitions).get(&hash).is_some() {
            return Ok(());
        }
        let put = hash.clone();
        self.0
            .writer
            .submit(None, AbandonedPolicy::Done, move |tables| tables.put_definition(&put, &graph))
            .await?;
        lock(&self.0.definitions).insert(hash, ());
        Ok(())
    }

    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let hash = hash.to_owned();
        self.read_with(move |connection, errors| reader::definition(connection, errors, &hash))
            .await
    }

    fn identity(&self) -> Option<String> {
        Some(format!("sqlite:{}", self.path().display()))
    }

    fn max_event_bytes(&self) -> Option<u64> {
        Some(self.0.limits.event)
    }

    fn sessions(&self) -> Option<&dyn SessionStore> {
        Some(self)
    }

    fn artifacts(&self) -> Option<&dyn ArtifactStore> {
        Some(self)
    }

    fn state(&self) -> Option<&dyn StateStore> {
        Some(self)
    }

    fn messages(&self) -> Option<&dyn MessageStore> {
        Some(self)
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        Some(self)
    }

    fn documents(&self) -> Option<&dyn DocumentStore> {
        Some(self)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}
