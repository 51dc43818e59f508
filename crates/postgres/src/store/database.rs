//! The pool of connections, and the rules for repeating an operation after a lost connection.
//!
//! A read is attempted three times. A write is a transaction. It is repeated if it is known not to
//! have happened: the connection was lost before `COMMIT` was sent, or the server refused the
//! transaction. If the connection is lost while `COMMIT` is executed, the outcome is unknown. The
//! write is then repeated with the flag `repeated`, and its first statement looks for the traces
//! of the earlier attempt: each write stores a random [`WriteId`]. A transaction of the lost
//! connection that the server still executes holds its row locks, so the repeated write waits for
//! its end and sees its outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agentflow_core::store::StoreError;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolConfig, RecyclingMethod, Runtime,
    Timeouts,
};
use futures_util::future;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Row};

use super::builder::Settings;
use super::postgres_error::{Failed, PostgresErrors, is_outcome_unknown, is_refused, is_transient};
use super::tls::Connector;

/// Number of attempts of a read.
const READS: u32 = 3;

/// First pause between two attempts. It doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(50);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time that the client waits for the server beyond the statement timeout, which the server
/// enforces. It only matters if the server does not answer at all.
const GRACE: Duration = Duration::from_secs(5);

/// Time limit for opening a connection to one of the hosts.
pub(super) const CONNECT: Duration = Duration::from_secs(20);

/// Parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// A random text that marks the rows of one write.
pub(super) type WriteId = Arc<str>;

pub(super) fn new_write_id() -> WriteId {
    format!("{:032x}", fastrand::u128(..)).into()
}

/// The database of a store.
pub(super) struct Database {
    pool: Pool,
    errors: PostgresErrors,
    statement_timeout: Duration,
    retry_writes: Duration,
}

impl Database {
    pub(super) fn new(
        settings: &Settings,
        config: &Config,
        connector: Connector,
        errors: PostgresErrors,
    ) -> Result<Self, StoreError> {
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(config.clone(), connector, manager_config);
        let mut pool = PoolConfig::new(settings.pool_size);
        pool.timeouts = Timeouts {
            wait: Some(settings.statement_timeout),
            create: Some(CONNECT),
            recycle: None,
        };
        let setup = session_setup(settings);
        let pool = Pool::builder(manager)
            .config(pool)
            .runtime(Runtime::Tokio1)
            .post_create(Hook::async_fn(move |client, _| {
                let setup = setup.clone();
                Box::pin(
                    async move { client.batch_execute(&setup).await.map_err(HookError::Backend) },
                )
            }))
            .build()
            .map_err(|error| errors.io(error))?;
        let (statement_timeout, retry_writes) = (settings.statement_timeout, settings.retry_writes);
        Ok(Self { pool, errors, statement_timeout, retry_writes })
    }

    pub(super) fn errors(&self) -> &PostgresErrors {
        &self.errors
    }

    /// Executes statements that change nothing, up to three times.
    pub(super) async fn read<T, F>(&self, act: impl Fn(Session) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let mut pause = PAUSE;
        for _ in 1..READS {
            match self.read_once(&act).await {
                Err(Attempt { again: true, .. }) => pause = wait(pause).await,
                done => return done.map_err(|failed| failed.error),
            }
        }
        self.read_once(&act).await.map_err(|failed| failed.error)
    }

    async fn read_once<T, F>(&self, act: &impl Fn(Session) -> F) -> Result<T, Attempt>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let session = self.session().await?;
        match timeout(self.statement_timeout + GRACE, act(session.clone())).await {
            Ok(Ok(value)) => {
                session.is_clean();
                Ok(value)
            }
            Ok(Err(failed)) => {
                if !matches!(&failed, Failed::Sql(error) if is_transient(error)) {
                    session.is_clean();
                }
                Err(self.failed(failed))
            }
            Err(_) => Err(Attempt::again(self.errors.no_answer())),
        }
    }

    /// Executes one statement without `BEGIN` and `COMMIT`.
    pub(super) async fn write_at_once<T, F>(&self, act: impl Fn(Session) -> F) -> AtOnce<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let Ok(session) = self.session().await else { return AtOnce::NotSent };
        match timeout(self.statement_timeout + GRACE, act(session.clone())).await {
            Ok(Ok(value)) => {
                session.is_clean();
                AtOnce::Done(value)
            }
            Ok(Err(error)) if is_refused(&error) => {
                session.is_clean();
                AtOnce::Refused(self.errors.sql(error))
            }
            _ => AtOnce::Unknown,
        }
    }

    /// Executes a write in a transaction, and repeats it as the page of the module describes.
    ///
    /// `act` is called with `true` if an earlier attempt may have been committed.
    pub(super) async fn write<T, F>(
        &self,
        act: impl Fn(Session, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        self.write_within(self.statement_timeout, act).await
    }

    /// Like [`write`](Self::write). With `unknown`, an earlier attempt may have been committed.
    pub(super) async fn write_again<T, F>(
        &self,
        unknown: bool,
        act: impl Fn(Session, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        self.repeat_write(self.statement_timeout, unknown, act).await
    }

    /// Like [`write`](Self::write), for a write that may take longer than the statement timeout.
    pub(super) async fn write_within<T, F>(
        &self,
        limit: Duration,
        act: impl Fn(Session, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        self.repeat_write(limit, false, act).await
    }

    async fn repeat_write<T, F>(
        &self,
        limit: Duration,
        mut unknown: bool,
        act: impl Fn(Session, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let (begun, mut pause) = (Instant::now(), PAUSE);
        loop {
            let failed = match self.write_once(limit, &act, unknown).await {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            unknown |= failed.unknown;
            if !failed.again || begun.elapsed() >= self.retry_writes {
                return Err(match unknown && !failed.refused {
                    true => self.errors.unknown_outcome(&failed.error),
                    false => failed.error,
                });
            }
            pause = wait(pause).await;
        }
    }

    async fn write_once<T, F>(
        &self,
        limit: Duration,
        act: &impl Fn(Session, bool) -> F,
        repeated: bool,
    ) -> Result<T, Attempt>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let session = self.session().await?;
        // `BEGIN` is sent together with the first statement, which saves a round trip.
        let begin = async { Ok(session.client().batch_execute("BEGIN").await?) };
        let acted = future::try_join(begin, act(session.clone(), repeated));
        let value = match timeout(limit + GRACE, acted).await {
            Ok(Ok(((), value))) => value,
            // The transaction was not committed. A connection that is dropped rolls it back.
            Ok(Err(failed)) => {
                if !matches!(&failed, Failed::Sql(error) if error.code().is_none()) {
                    session.roll_back().await;
                }
                return Err(self.failed(failed));
            }
            Err(_) => return Err(Attempt::again(self.errors.no_answer())),
        };
        let commit = session.client().batch_execute("COMMIT");
        match timeout(self.statement_timeout + GRACE, commit).await {
            Ok(Ok(())) => {
                session.is_clean();
                Ok(value)
            }
            Ok(Err(error)) => {
                let (unknown, again) = (is_outcome_unknown(&error), is_transient(&error));
                let error = self.errors.sql(error);
                Err(Attempt { error, again: again || unknown, unknown, refused: false })
            }
            Err(_) => Err(Attempt {
                error: self.errors.no_answer(),
                again: true,
                unknown: true,
                refused: false,
            }),
        }
    }

    fn failed(&self, failed: Failed) -> Attempt {
        match failed {
            Failed::Refused(error) => {
                Attempt { error, again: false, unknown: false, refused: true }
            }
            Failed::Sql(error) => {
                let again = is_transient(&error);
                Attempt { error: self.errors.sql(error), again, unknown: false, refused: false }
            }
        }
    }

    async fn session(&self) -> Result<Session, Attempt> {
        match self.pool.get().await {
            Ok(client) => {
                Ok(Session(Arc::new(Checkout { client: Some(client), clean: false.into() })))
            }
            Err(error) => {
                let (error, again) = self.errors.pool(error);
                Err(Attempt { error, again, unknown: false, refused: false })
            }
        }
    }
}

/// Returns the statements that prepare a new connection.
pub(super) fn session_setup(settings: &Settings) -> String {
    let limit = settings.statement_timeout.as_millis().clamp(1, i32::MAX as u128);
    // The schema is a valid identifier. A transaction whose client has gone must not keep its
    // locks, so the server ends it after the same time.
    format!(
        "SET search_path TO \"{}\"; SET statement_timeout = {limit}; \
         SET idle_in_transaction_session_timeout = {limit}; \
         SET default_transaction_isolation = 'read committed'",
        settings.schema
    )
}

/// The outcome of [`Database::write_at_once`].
pub(super) enum AtOnce<T> {
    Done(T),
    /// There was no connection, so nothing was written.
    NotSent,
    /// The server refused the statement, so nothing was written.
    Refused(StoreError),
    /// The statement may have been executed.
    Unknown,
}

/// An attempt that failed.
struct Attempt {
    error: StoreError,
    /// `true` if another attempt may succeed.
    again: bool,
    /// `true` if the write may have happened.
    unknown: bool,
    /// `true` if the operation is not allowed, as the rows of the database show.
    refused: bool,
}

impl Attempt {
    fn again(error: StoreError) -> Self {
        Self { error, again: true, unknown: false, refused: false }
    }
}

/// Waits between two attempts, at random between half of the pause and the whole pause. Returns the
/// next pause.
async fn wait(pause: Duration) -> Duration {
    sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    (pause * 2).min(LONGEST_PAUSE)
}

/// A connection of the pool, for one operation.
#[derive(Clone)]
pub(super) struct Session(Arc<Checkout>);

struct Checkout {
    /// `None` only during the drop.
    client: Option<Object>,
    /// `true` if no transaction is open and no answer is outstanding.
    clean: AtomicBool,
}

impl Drop for Checkout {
    fn drop(&mut self) {
        // The next operation must not find an open transaction: the connection is closed.
        if !*self.clean.get_mut() {
            drop(self.client.take().map(Object::take));
        }
    }
}

impl Session {
    fn client(&self) -> &Object {
        self.0.client.as_ref().expect("the connection is only removed during the drop")
    }

    /// Marks the connection as reusable.
    fn is_clean(&self) {
        self.0.clean.store(true, Ordering::Relaxed);
    }

    async fn roll_back(&self) {
        let rolled_back = self.client().batch_execute("ROLLBACK");
        if let Ok(Ok(())) = timeout(GRACE, rolled_back).await {
            self.is_clean();
        }
    }

    /// Returns all rows of a statement, which is prepared once per connection.
    pub(super) async fn rows(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let statement = self.client().prepare_cached(sql).await?;
        self.client().query(&statement, params).await
    }

    /// Returns all rows of a statement that was composed for this call.
    pub(super) async fn composed_rows(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.client().query(sql, params).await
    }

    /// Returns the first row of a statement.
    pub(super) async fn row(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// Executes a statement and returns the number of rows.
    pub(super) async fn execute(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, Error> {
        let statement = self.client().prepare_cached(sql).await?;
        self.client().execute(&statement, params).await
    }

    /// Executes several statements without parameters.
    pub(super) async fn script(&self, sql: &str) -> Result<(), Error> {
        let client: &Client = self.client();
        client.batch_execute(sql).await
    }
}
