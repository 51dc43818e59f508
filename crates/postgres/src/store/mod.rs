//! Runs in a Postgres database: [`PostgresStore`] and its options.
//!
//! An operation is encoded on the caller's thread and executed on the thread of the store
//! (`io_thread.rs`), with a connection of the pool (`database.rs`). `run_writes.rs` and
//! `run_reads.rs` contain the statements for runs; `session_rows.rs`, `message_rows.rs` and
//! `state_rows.rs` those of the optional parts, which `parts.rs` implements. `background.rs` renews
//! the lease of the process (`lease.rs`) and listens for messages.
//!
//! The tables are defined in `schema/`, which `migrations.rs` executes.

mod background;
mod builder;
mod composed_query;
mod database;
mod event_row;
mod io_thread;
mod lease;
mod message_rows;
mod migrations;
mod parts;
mod postgres_error;
mod run_reads;
mod run_row;
mod run_writes;
mod session_rows;
mod state_rows;
mod text;
mod tls;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use agentflow_core::event::{Event, RunId};
use agentflow_core::store::{
    Append, ArtifactStore, Epoch, LeaseStore, MessageStore, RunFilter, RunList, RunRecord,
    SessionStore, Snapshot, StateStore, Store, StoreError, StoreErrorKind,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::watch;

use self::background::Background;
pub use self::builder::PostgresStoreBuilder;
use self::builder::{Settings, server_name};
use self::database::{Database, Session, WriteId, new_write_id, session_setup};
use self::event_row::{EventRow, check_key, encode_snapshot, number};
use self::io_thread::{IoThread, ignore};
use self::lease::ProcessOwner;
use self::postgres_error::{Failed, PostgresErrors};
use self::run_writes::WriteContext;
use self::state_rows::StateRows;
use self::tls::Connector;

/// A store that keeps runs in a Postgres database, for programs on one or several machines. It needs
/// Postgres 13 or later and a database with the encoding UTF-8.
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
/// The first connection creates the schema `agentflow` with its tables, and a newer release upgrades
/// them, in one transaction. Processes may start at the same time. A store of a newer release is
/// refused. The view `journal` shows the events as text.
///
/// Artifacts are stored in the database. Deleting a run or a session deletes all of its rows; the
/// pages of the database, its log and its backups contain them until Postgres reuses the space.
///
/// # Connections
///
/// The URL has the form `postgres://user:password@host:5432/database?sslmode=require`. Several hosts
/// are separated by commas; the store uses the one that accepts writes. `sslmode` is `disable`,
/// `prefer` (the default) or `require`. Certificates are always verified, also with `prefer`, against
/// the authorities of the platform or of [`PostgresStoreBuilder::root_certificates`].
///
/// The store keeps settings and prepared statements in its connections and uses `LISTEN`. A pooler
/// between the store and the server must therefore work in the mode *session*.
///
/// # Durability
///
/// A write returns after its transaction is committed. With the server's default
/// `synchronous_commit = on`, it is then on the disk of the server. After a failover to a standby
/// without synchronous replication, the last writes may be missing: a run continues from the events
/// that the standby has.
///
/// # Processes
///
/// Any number of processes may use the store. A process has a lease, which it renews in the
/// background with the clock of the database; see [`PostgresStoreBuilder::lease`]. A run that is open
/// in a process with a valid lease is `busy` for the others. If the process ends normally, its runs
/// are free at once, otherwise when the lease has expired. A process that was only slow is fenced at
/// its next write: each transaction compares the epoch of the run and locks its row. Within one
/// process, opening a run again fences off the earlier writer.
///
/// # Lost connections
///
/// | operation | behaviour when the connection is lost or the server restarts |
/// | --- | --- |
/// | read | is attempted three times, with pauses of about 50 and 100 ms |
/// | write, before `COMMIT` was sent | has not happened; is repeated for [`PostgresStoreBuilder::retry_writes`] |
/// | write, while `COMMIT` was executed | may have happened; is repeated, and the repeated transaction first looks for the mark of the earlier one |
///
/// In the last case, an append that finds its mark, or its own events at their positions, has
/// succeeded. If the position of the run is unchanged, the append is executed. Otherwise another
/// writer has opened the run, and the append fails as `fenced`. Thus no event is written twice. If the
/// server stays away, the write fails with `unreachable`, and the message states if it may have
/// happened. The run stops in this process and can be resumed.
///
/// A write is executed even if its future is dropped after the first poll. The drop of the last
/// clone waits at most seven seconds for requested writes and for the end of the lease.
///
/// # Messages
///
/// A message for a run notifies the process that executes it (`NOTIFY`). The inbox is also read
/// every 500 milliseconds, so a lost notification only causes a delay.
///
/// # Threads
///
/// The store has one thread with a runtime of its own, so it can be used from any number of tokio
/// runtimes. It does not depend on a paused tokio clock.
#[derive(Clone)]
pub struct PostgresStore(Arc<Shared>);

struct Shared {
    thread: IoThread,
    database: Arc<Database>,
    owner: Arc<str>,
    /// Counts the messages to this process.
    messages: watch::Receiver<u64>,
    /// Hashes of graph definitions that are known to be in the database.
    definitions: Mutex<HashSet<String>>,
    identity: String,
    channel: Arc<str>,
    server: String,
    limits: Limits,
    process: Arc<ProcessOwner>,
}

/// Maximum sizes in bytes.
#[derive(Clone, Copy)]
struct Limits {
    event: u64,
    snapshot: u64,
}

/// Maximum number of definition hashes that are remembered.
const DEFINITIONS: usize = 1024;

impl Drop for Shared {
    fn drop(&mut self) {
        let is_last = self.process.release();
        let (database, owner) = (Arc::clone(&self.database), Arc::clone(&self.owner));
        self.thread.shut_down(Box::pin(async move {
            if is_last {
                lease::end(&database, &owner).await;
            }
        }));
    }
}

impl PostgresStoreBuilder {
    /// Connects to the database, and creates or upgrades the tables.
    ///
    /// # Errors
    /// - `unreachable`: the server cannot be reached.
    /// - `newer_version`: a newer release upgraded the tables.
    /// - `io`: the URL, the schema name or a certificate is invalid; the server refuses the user, is
    ///   too old or has another encoding; the user has no right to create the tables; or the schema
    ///   contains tables of another program.
    ///
    /// The database is not changed then.
    pub async fn connect(self) -> Result<PostgresStore, StoreError> {
        let settings = self.0;
        let config = settings.config()?;
        let server = server_name(&config);
        let errors = PostgresErrors::new(server.as_str());
        let connector = Connector::new(&config, settings.roots.as_deref())?;
        let thread = IoThread::start().map_err(|error| {
            StoreError::new(StoreErrorKind::Io, "no thread can be started for the store")
                .caused_by(error)
        })?;
        let database =
            Arc::new(Database::new(&settings, &config, connector.clone(), errors.clone())?);
        let migrated = {
            let (database, schema) = (Arc::clone(&database), settings.schema.clone());
            async move { migrations::migrate(&database, &schema).await }
        };
        let store = thread.submit(migrated, ignore).await?;
        let identity =
            format!("postgres:{store}:{}:{}", config.get_dbname().unwrap_or(""), settings.schema);
        let process = Arc::new(ProcessOwner::acquire(&identity));
        let owner: Arc<str> = process.id().into();
        let (sender, messages) = watch::channel(0);
        let channel: Arc<str> = background::channel(&settings.schema).into();
        let limits =
            Limits { event: settings.max_event_bytes, snapshot: settings.max_snapshot_bytes() };
        let shared = Shared {
            thread,
            database,
            owner,
            messages,
            definitions: Mutex::default(),
            identity,
            channel,
            server,
            limits,
            process,
        };
        // From here, the drop of `shared` ends the lease.
        shared.start(settings, config, connector, errors, sender).await?;
        Ok(PostgresStore(Arc::new(shared)))
    }
}

impl Shared {
    /// Creates the lease and starts the background task.
    async fn start(
        &self,
        settings: Settings,
        config: tokio_postgres::Config,
        connector: Connector,
        errors: PostgresErrors,
        messages: watch::Sender<u64>,
    ) -> Result<(), StoreError> {
        let (database, owner) = (Arc::clone(&self.database), Arc::clone(&self.owner));
        let lease = settings.lease;
        let created = async move { lease::create(&database, &owner, lease).await };
        self.thread.submit(created, ignore).await?;
        let background = Background {
            setup: session_setup(&settings),
            config,
            connector,
            channel: self.channel.to_string(),
            owner: Arc::clone(&self.owner),
            lease,
            errors,
            messages,
        };
        self.thread.spawn(background.run());
        Ok(())
    }
}

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
        self.0.thread.submit(self.writing(act), ignore).await
    }

    /// Returns the future of a write, for the thread of the store.
    fn writing<T, F>(
        &self,
        act: impl Fn(OwnedContext) -> F + Send + Sync + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failed>> + Send + 'static,
    {
        let (database, owner) = (Arc::clone(&self.0.database), Arc::clone(&self.0.owner));
        let write_id = new_write_id();
        async move {
            let write = |session, repeated| {
                act(OwnedContext {
                    session,
                    errors: database.errors().clone(),
                    owner: Arc::clone(&owner),
                    write_id: Arc::clone(&write_id),
                    repeated,
                })
            };
            database.write(write).await
        }
    }
}

/// The context of one attempt of a write.
struct OwnedContext {
    session: Session,
    errors: PostgresErrors,
    owner: Arc<str>,
    write_id: WriteId,
    repeated: bool,
}

impl OwnedContext {
    fn borrow(&self) -> WriteContext<'_> {
        WriteContext {
            session: &self.session,
            errors: &self.errors,
            owner: &self.owner,
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
        let opening = self.writing(move |context| {
            let id = id.clone();
            async move { run_writes::open(context.borrow(), &id).await }
        });
        // If the future is dropped, nobody would close the run, and it would stay `busy` for other
        // processes.
        let (database, owner, id) =
            (Arc::clone(&self.0.database), Arc::clone(&self.0.owner), run.clone());
        let close = move |epoch: Epoch| {
            async move {
                let closed = database.write(|session, repeated| {
                    let (errors, owner) = (database.errors().clone(), Arc::clone(&owner));
                    let (write_id, id) = (new_write_id(), id.clone());
                    async move {
                        let context = OwnedContext { session, errors, owner, write_id, repeated };
                        run_writes::close(context.borrow(), &id, epoch).await
                    }
                });
                if let Err(error) = closed.await {
                    tracing::warn!(%error, "a run that nobody waits for could not be closed");
                }
            }
            .boxed()
        };
        self.0.thread.submit(opening, close).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
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
        let commit = Arc::new((run.clone(), append, rows, state));
        self.write_with(move |context| {
            let commit = Arc::clone(&commit);
            async move {
                let (run, append, rows, state) = &*commit;
                run_writes::append(context.borrow(), run, epoch, append, rows, state).await
            }
        })
        .await
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
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("server", &self.0.server).finish_non_exhaustive()
    }
}
