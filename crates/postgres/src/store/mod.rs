//! Runs in a Postgres database: [`PostgresStore`] and its options.
//!
//! An operation is encoded on the caller's thread and executed on the thread of the store
//! (`io_thread.rs`), with a connection of the pool (`database.rs`). `run_writes.rs`,
//! `quick_append.rs` and `run_reads.rs` contain the statements for runs; `session_rows.rs`,
//! `message_rows.rs` and `state_rows.rs` the statements of the optional parts, which `parts.rs`
//! implements, and `documents.rs` the documents. `connect.rs` opens the store. `background.rs` renews the lease of the process
//! (`lease.rs`) and listens for notifications (`notices.rs`).
//!
//! The tables are defined in `schema/`, which `migrations.rs` executes.

mod background;
mod builder;
mod composed_query;
mod connect;
mod database;
mod documents;
mod event_row;
mod io_thread;
mod lease;
mod message_rows;
mod migrations;
mod notices;
mod parts;
mod postgres_error;
mod quick_append;
mod run_reads;
mod run_row;
mod run_writes;
mod session_rows;
mod state_rows;
mod text;
mod tls;

use std::fmt;
use std::sync::{Arc, PoisonError};

use agentflow_core::event::{Event, RunId};
use agentflow_core::store::{
    Append, ArtifactStore, DocumentStore, Epoch, EventFilter, LeaseStore, MessageStore, RunFilter,
    RunList, RunRecord, SessionStore, Snapshot, StateStore, Store, StoreError,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub use self::builder::PostgresStoreBuilder;
use self::connect::Shared;
use self::database::{AtOnce, Database, Session, WriteId, new_write_id};
use self::event_row::{EventRow, check_key, encode_snapshot, number};
use self::io_thread::ignore;
use self::postgres_error::{Failed, PostgresErrors};
use self::quick_append::{KnownRuns, QuickAppend};
use self::run_writes::WriteContext;
use self::state_rows::StateRows;

/// A store that keeps runs in a Postgres database, for programs on one or several machines. It
/// needs Postgres 13 or later and a database with the encoding UTF-8.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::Runtime;
/// use agentflow::store::PostgresStore;
///
/// let store = PostgresStore::connect("postgres://app:secret@db.internal/app").await?;
/// let runtime = Runtime::builder().store(store).build();
/// runtime.recover().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Tables
///
/// The first connection creates the schema `agentflow` with its tables, and a newer release
/// upgrades them, in one transaction. Processes may start at the same time. A store of a newer
/// release is refused. The view `journal` shows the events as text.
///
/// Artifacts are stored in the database. Deleting a run or a session deletes all of its rows. The
/// files of the database, its log and its backups contain their content until Postgres reuses the
/// space.
///
/// # Connections
///
/// The URL has the form `postgres://user:password@host:5432/database?sslmode=require`. Several
/// hosts are separated by commas; the store uses the host that accepts writes. `sslmode` is
/// `disable`, `prefer` (the default) or `require`. With `prefer`, a server without TLS is used
/// without TLS. Certificates are always verified, also with `prefer`, against the authorities of
/// the platform or of [`PostgresStoreBuilder::root_certificates`].
///
/// The connections are named `agentflow` in the views of the server, or as `application_name` in
/// the URL. The name of the connection for the lease and the notifications ends with ` listener`.
///
/// The store keeps settings and prepared statements in its connections and uses `LISTEN`. A pooler
/// between the store and the server must therefore work in the mode *session*.
///
/// # Durability
///
/// A write returns after its transaction is committed. With the server's default
/// `synchronous_commit = on`, it is then on the disk of the server. After a failover to a standby
/// without synchronous replication, the last writes may be missing: a run continues from the
/// events that the standby has.
///
/// # Processes
///
/// Any number of processes may use the store. A process has a lease, which it renews in the
/// background with the clock of the database; see [`PostgresStoreBuilder::lease`]. A run that is
/// open in a process with a valid lease is `busy` for the others. If the process ends normally, its
/// runs are free at once, otherwise when the lease has expired. A process that was only slow is
/// fenced at its next write: each transaction compares the epoch of the run and locks its row.
/// Within one process, opening a run again fences off the earlier writer.
///
/// # Lost connections
///
/// | operation | behaviour when the connection is lost or the server restarts |
/// | --- | --- |
/// | read | is attempted three times, with pauses of about 50 and 100 ms |
/// | write, before `COMMIT` was sent | has not happened; is repeated |
/// | write, while `COMMIT` was executed | may have happened; is repeated after a check |
/// | append that is one statement | may have happened; is repeated after a check |
///
/// An append is one statement, and thus one round trip, if the store has also written the append
/// before it. Appends that answer messages, change state or end the run, and all other writes, are
/// transactions of several statements.
///
/// A repeated write first looks for the mark of the earlier attempt. An append that finds its mark,
/// or its own events at their positions, has succeeded. If the position of the run is unchanged,
/// the append is executed. Otherwise another writer has opened the run, and the append fails as
/// `fenced`. Thus no event is written twice.
///
/// Writes are repeated for [`PostgresStoreBuilder::retry_writes`], with pauses that double from
/// 50 ms to one second. If the server stays away, the write fails with `unreachable`, and the
/// message states if it may have happened. The run stops in this process and can be resumed.
///
/// A write is executed even if its future is dropped after the first poll. The drop of the last
/// clone waits at most seven seconds for requested writes and for the end of the lease.
///
/// # Messages
///
/// A message for a run notifies the process that executes it (`NOTIFY`), and a run that becomes
/// claimable notifies all processes. The notification is sent by the transaction of the write. One
/// connection of each store listens; after it was lost, the store connects again, with pauses that
/// grow from 100 ms to 5 seconds. The inbox and the claimable runs are also read every 1.5 seconds,
/// so a lost notification only causes a delay, and every 500 milliseconds while the store does not
/// receive the notifications that it sends to itself.
///
/// # Threads
///
/// The store has one thread with a separate runtime, so it can be used from any number of tokio
/// runtimes. It does not depend on a paused tokio clock.
#[derive(Clone)]
pub struct PostgresStore(Arc<Shared>);

/// Maximum number of definition hashes that are remembered.
const DEFINITIONS: usize = 1024;

impl PostgresStore {
    /// Connects with the default options. See [`PostgresStoreBuilder::connect`].
    ///
    /// # Errors
    /// Same as [`PostgresStoreBuilder::connect`].
    pub async fn connect(url: impl Into<String>) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// Returns options for connecting.
    pub fn builder(url: impl Into<String>) -> PostgresStoreBuilder {
        PostgresStoreBuilder::new(url.into())
    }

    /// Executes a read on the thread of the store.
    async fn read_with<T, F>(
        &self,
        act: impl Fn(Session, PostgresErrors) -> F + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failed>> + Send + 'static,
    {
        let database = Arc::clone(&self.0.database);
        let read = async move {
            let errors = database.errors();
            database.read(|session| act(session, errors.clone())).await
        };
        self.0.thread.submit(read, ignore).await
    }

    /// Executes a write on the thread of the store, even if the future is dropped after its first
    /// poll.
    async fn write_with<T, F>(
        &self,
        act: impl Fn(OwnedContext) -> F + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failed>> + Send + 'static,
    {
        self.0.thread.submit(self.writer().write(act), ignore).await
    }

    /// Returns a writer, which the thread of the store can own.
    fn writer(&self) -> Writer {
        Writer {
            database: Arc::clone(&self.0.database),
            owner: Arc::clone(&self.0.owner),
            channel: Arc::clone(&self.0.channel),
        }
    }
}

/// Executes one write on the thread of the store.
struct Writer {
    database: Arc<Database>,
    owner: Arc<str>,
    channel: Arc<str>,
}

impl Writer {
    async fn write<T, F>(
        self,
        act: impl Fn(OwnedContext) -> F + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failed>> + Send + 'static,
    {
        let write_id = new_write_id();
        self.database
            .write(|session, repeated| act(self.context(session, &write_id, repeated)))
            .await
    }

    fn context(&self, session: Session, write_id: &WriteId, repeated: bool) -> OwnedContext {
        OwnedContext {
            session,
            errors: self.database.errors().clone(),
            owner: Arc::clone(&self.owner),
            channel: Arc::clone(&self.channel),
            write_id: Arc::clone(write_id),
            repeated,
        }
    }

    /// Appends in one round trip if the run is known, otherwise in a transaction.
    async fn append(
        self,
        known: Arc<KnownRuns>,
        commit: Arc<Commit>,
        quick: Option<QuickAppend>,
    ) -> Result<(), StoreError> {
        let (write_id, mut unknown) = (new_write_id(), false);
        if let Some(quick) = quick {
            let append = async |session: Session| {
                quick.execute(&session, &self.owner, &write_id, &commit.rows).await
            };
            match self.database.write_at_once(append).await {
                AtOnce::Done(true) => {
                    known.put(quick.run);
                    return Ok(());
                }
                AtOnce::Refused(error) => return Err(error),
                // The transaction finds the reason, or tries again.
                AtOnce::Done(false) | AtOnce::NotSent => {}
                AtOnce::Unknown => unknown = true,
            }
        }
        let append = |session, repeated| {
            let (commit, context) =
                (Arc::clone(&commit), self.context(session, &write_id, repeated));
            async move {
                let Commit { run, epoch, append, rows, state } = &*commit;
                run_writes::append(context.borrow(), run, *epoch, append, rows, state).await
            }
        };
        let appended = self.database.write_again(unknown, append).await?;
        if let Some(run) = appended.filter(|run| !run.record.status.has_ended()) {
            known.put(run);
        }
        Ok(())
    }
}

/// The parts of an append, ready to be written.
struct Commit {
    run: RunId,
    epoch: Epoch,
    append: Append,
    rows: Vec<EventRow>,
    state: StateRows,
}

/// The context of one attempt of a write.
struct OwnedContext {
    session: Session,
    errors: PostgresErrors,
    owner: Arc<str>,
    channel: Arc<str>,
    write_id: WriteId,
    repeated: bool,
}

impl OwnedContext {
    fn borrow(&self) -> WriteContext<'_> {
        WriteContext {
            session: &self.session,
            errors: &self.errors,
            owner: &self.owner,
            channel: &self.channel,
            write_id: &self.write_id,
            repeated: self.repeated,
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        let mut record =
            RunRecord::from_events(&events).ok_or_else(|| StoreError::not_a_start(run))?;
        record.run_id = run.clone();
        check_key(run.as_str(), "the id of the run")?;
        if let Some(place) = &record.session {
            check_key(&place.session, "the id of the session")?;
        }
        let rows = EventRow::encode_all(run, 0, &events, self.0.limits.event)?;
        let first = Arc::new((record, rows));
        self.write_with(move |context| {
            let first = Arc::clone(&first);
            async move { run_writes::create(context.borrow(), &first.0, &first.1).await }
        })
        .await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        let id = run.clone();
        let opening = self.writer().write(move |context| {
            let id = id.clone();
            async move { run_writes::open(context.borrow(), &id).await }
        });
        // If the future is dropped, the caller cannot close the run. It would stay `busy` for other
        // processes.
        let (writer, id) = (self.writer(), run.clone());
        let close = move |epoch: Epoch| {
            let closing = writer.write(move |context| {
                let id = id.clone();
                async move { run_writes::close(context.borrow(), &id, epoch).await }
            });
            async move {
                if let Err(error) = closing.await {
                    tracing::warn!(%error, "a run whose opening was cancelled could not be closed");
                }
            }
            .boxed()
        };
        self.0.thread.submit(opening, close).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        self.0.known.forget(run);
        let id = run.clone();
        self.write_with(move |context| {
            let id = id.clone();
            async move { run_writes::close(context.borrow(), &id, epoch).await }
        })
        .await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        // The events are encoded on the caller's thread, so that the thread of the store has less
        // work.
        let rows = EventRow::encode_all(run, append.after, &append.events, self.0.limits.event)?;
        let state = StateRows::encode(&append.state, self.0.limits.event)?;
        let quick = self.0.known.take(run, epoch, &append, &rows);
        let commit = Commit { run: run.clone(), epoch, append, rows, state };
        let appending = self.writer().append(Arc::clone(&self.0.known), Arc::new(commit), quick);
        self.0.thread.submit(appending, ignore).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        let rows = EventRow::encode_all(run, after, &events, self.0.limits.event)?;
        let amendment = Arc::new((run.clone(), events, rows));
        self.write_with(move |context| {
            let amendment = Arc::clone(&amendment);
            async move {
                let (run, events, rows) = &*amendment;
                run_writes::amend(context.borrow(), run, after, events, rows).await
            }
        })
        .await
    }

    async fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        let id = run.clone();
        self.write_with(move |context| {
            let id = id.clone();
            async move { run_writes::delete(context.borrow(), &id).await }
        })
        .await
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let id = run.clone();
        self.read_with(move |session, errors| {
            let id = id.clone();
            async move { run_reads::events(&session, &errors, &id, after, limit).await }
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
        let place = Arc::new((run.clone(), filter.clone()));
        self.read_with(move |session, errors| {
            let place = Arc::clone(&place);
            async move {
                let (run, filter) = &*place;
                run_reads::selected_events(&session, &errors, (run, filter), after, limit).await
            }
        })
        .await
    }

    async fn count(&self, filter: RunFilter) -> Result<u64, StoreError> {
        let filter = Arc::new(filter);
        self.read_with(move |session, _| {
            let filter = Arc::clone(&filter);
            async move { run_reads::count(&session, &filter).await }
        })
        .await
    }

    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        let id = run.clone();
        self.read_with(move |session, errors| {
            let id = id.clone();
            async move { run_reads::record(&session, &errors, &id).await }
        })
        .await
    }

    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        let RunList { runs, unreadable, .. } = self.list_with_unreadable(filter).await?;
        for (run, error) in unreadable {
            tracing::warn!(%run, %error, "a run cannot be read and is not in the list");
        }
        Ok(runs)
    }

    async fn claimable(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        let filter = Arc::new(filter);
        self.read_with(move |session, errors| {
            let filter = Arc::clone(&filter);
            async move { run_reads::claimable(&session, &errors, &filter).await }
        })
        .await
    }

    /// Completes when a run was released, changed at rest, or freed by the end of its process, in
    /// any process. Otherwise after 1.5 seconds, or 500 milliseconds while notifications may not
    /// arrive.
    fn runs_changed(&self) -> BoxFuture<'static, ()> {
        self.0.notices.runs_changed()
    }

    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        let filter = Arc::new(filter);
        self.read_with(move |session, errors| {
            let filter = Arc::clone(&filter);
            async move { run_reads::list(&session, &errors, &filter).await }
        })
        .await
    }

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        let body = encode_snapshot(run, &snapshot, self.0.limits.snapshot)?;
        let (saved, seq) = (Arc::new((run.clone(), body)), number(snapshot.seq));
        self.write_with(move |context| {
            let saved = Arc::clone(&saved);
            async move {
                run_writes::put_snapshot(&context.session, &saved.0, epoch, seq, &saved.1).await
            }
        })
        .await
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        let id = run.clone();
        self.read_with(move |session, errors| {
            let id = id.clone();
            async move { run_reads::snapshot(&session, &errors, &id).await }
        })
        .await
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        check_key(hash, "the hash of the definition")?;
        let known = || self.0.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(hash) {
            return Ok(());
        }
        let put = Arc::new((hash.to_owned(), graph));
        self.write_with(move |context| {
            let put = Arc::clone(&put);
            async move { run_writes::put_definition(&context.session, &put.0, &put.1).await }
        })
        .await?;
        let mut known = known();
        if known.len() >= DEFINITIONS {
            known.clear();
        }
        known.insert(hash.to_owned());
        Ok(())
    }

    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let hash = hash.to_owned();
        self.read_with(move |session, errors| {
            let hash = hash.clone();
            async move { run_reads::definition(&session, &errors, &hash).await }
        })
        .await
    }

    fn identity(&self) -> Option<String> {
        Some(self.0.identity.clone())
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

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("server", &self.0.server).finish_non_exhaustive()
    }
}
