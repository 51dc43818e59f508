//! Converts errors of the driver to `StoreError`s with a message that explains the fix.

use std::error::Error as _;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

use agentflow_core::store::{StoreError, StoreErrorKind};
use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The reasons why an operation failed.
pub(super) enum Failed {
    /// The operation is not allowed. It has written nothing.
    Refused(StoreError),
    /// The server or the connection failed.
    Sql(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Errors of the server after which the same statement may succeed on a new connection: a server
/// that starts or stops, too many connections, a server that became a standby, and conflicts.
const TRANSIENT: [SqlState; 7] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::READ_ONLY_SQL_TRANSACTION,
];

/// Returns `true` if an operation that failed with this error can be repeated.
pub(super) fn is_transient(error: &Error) -> bool {
    match error.code() {
        Some(code) => TRANSIENT.contains(code) || code.code().starts_with("08"),
        None => is_connection_lost(error),
    }
}

/// Returns `true` if the connection failed, so that the server may or may not have executed the
/// statement.
pub(super) fn is_connection_lost(error: &Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    // A certificate that is not trusted is an `InvalidData`. Trying again does not help.
    error.is_closed() || cause.is_some_and(|cause| cause.kind() != io::ErrorKind::InvalidData)
}

/// Returns `true` if a `COMMIT` that failed with this error may have happened: the connection was
/// lost, or the server ended the connection, for example while it waited for a standby.
pub(super) fn is_outcome_unknown(error: &Error) -> bool {
    match error.code() {
        Some(code) => code.code().starts_with("57") || code.code().starts_with("08"),
        None => true,
    }
}

/// Returns `true` if the server refused a statement, and executing it again does not help.
pub(super) fn is_refused(error: &Error) -> bool {
    let is_cancelled = error.code() == Some(&SqlState::QUERY_CANCELED);
    is_cancelled || (!is_transient(error) && !is_outcome_unknown(error))
}

/// Creates the errors of one store. Their messages contain the server, but not the password.
#[derive(Clone, Debug)]
pub(super) struct PostgresErrors(Arc<str>);

impl PostgresErrors {
    /// Creates the errors for a server, such as `db.internal:5432/app`.
    pub(super) fn new(server: impl Into<Arc<str>>) -> Self {
        Self(server.into())
    }

    /// Converts an error of a connection or a statement.
    pub(super) fn sql(&self, error: Error) -> StoreError {
        let server = &self.0;
        let Some(database) = error.as_db_error() else {
            let text = with_sources(&error);
            return match is_connection_lost(&error) {
                true => self.unreachable(text),
                false => self.io(text),
            }
            .caused_by(error);
        };
        let (code, text) = (database.code(), database.message());
        let (kind, what) = match *code {
            SqlState::DISK_FULL => (
                StoreErrorKind::Full,
                format!("the disk of {server} is full ({text}); make room, then resume the run"),
            ),
            SqlState::PROGRAM_LIMIT_EXCEEDED => (
                StoreErrorKind::TooLarge,
                format!("a value is too large for {server} ({text}); nothing was written"),
            ),
            SqlState::LOCK_NOT_AVAILABLE => (
                StoreErrorKind::Locked,
                format!("{server} has locked the rows for too long ({text}); nothing was written"),
            ),
            SqlState::QUERY_CANCELED => (
                StoreErrorKind::Locked,
                format!(
                    "a statement on {server} exceeded the statement timeout ({text}); nothing was \
                     written; find the query that holds the lock, or set a longer \
                     `statement_timeout`"
                ),
            ),
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
                return self.damaged(text).caused_by(error);
            }
            SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => (
                StoreErrorKind::Replaced,
                format!("the tables on {server} were deleted while the store was open ({text})"),
            ),
            SqlState::READ_ONLY_SQL_TRANSACTION => (
                StoreErrorKind::Unreachable,
                format!("{server} is read-only ({text}); connect to the primary server"),
            ),
            _ if is_transient(&error) => {
                return self.unreachable(text).caused_by(error);
            }
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => (
                StoreErrorKind::Io,
                format!("{server} refuses the user or the password ({text}); correct the URL"),
            ),
            SqlState::INSUFFICIENT_PRIVILEGE => (
                StoreErrorKind::Io,
                format!(
                    "the user has no right for this on {server} ({text}); grant it the rights on \
                     the schema of the store"
                ),
            ),
            _ => (StoreErrorKind::Io, format!("{server}: {text} (SQLSTATE {})", code.code())),
        };
        StoreError::new(kind, what).caused_by(error)
    }

    /// Converts an error of the pool. The flag is `true` if the operation can be repeated.
    pub(super) fn pool(&self, error: PoolError) -> (StoreError, bool) {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                let again = is_transient(&error);
                (self.sql(error), again)
            }
            PoolError::Timeout(TimeoutType::Wait) => {
                let text = format!(
                    "all connections to {} are in use; set a larger `pool_size`, or start fewer \
                     runs at once",
                    self.0
                );
                (StoreError::new(StoreErrorKind::Locked, text), false)
            }
            PoolError::Timeout(_) => (self.unreachable("connecting took too long"), true),
            error => (self.io(&error), false),
        }
    }

    /// Returns the error for a server that cannot be reached.
    pub(super) fn unreachable(&self, what: impl Display) -> StoreError {
        StoreError::new(
            StoreErrorKind::Unreachable,
            format!("{} cannot be reached ({what}); nothing was written; try again", self.0),
        )
    }

    /// Returns the error for an operation whose answer did not arrive in time.
    pub(super) fn no_answer(&self) -> StoreError {
        self.unreachable("it did not answer in time")
    }

    /// Returns the error for a write that may have happened.
    pub(super) fn unknown_outcome(&self, error: &StoreError) -> StoreError {
        StoreError::new(
            StoreErrorKind::Unreachable,
            format!(
                "the connection to {} was lost while a write was committed, and its outcome could \
                 not be read back ({}); the write happened completely or not at all; resume the \
                 run when the server is available",
                self.0,
                error.kind()
            ),
        )
        .caused_by(error.clone())
    }

    /// Returns the error for data that is not as it was written.
    pub(super) fn damaged(&self, what: impl Display) -> StoreError {
        StoreError::new(
            StoreErrorKind::Damaged,
            format!("the store on {} is damaged: {what}; restore it from a backup", self.0),
        )
    }

    /// Returns the error for data of a newer release.
    pub(super) fn newer(&self, what: impl Display) -> StoreError {
        StoreError::new(
            StoreErrorKind::NewerVersion,
            format!(
                "{what} on {} was written by a newer release of agentflow; nothing was changed; \
                 update this program",
                self.0
            ),
        )
    }

    /// Returns an `io` error.
    pub(super) fn io(&self, what: impl Display) -> StoreError {
        StoreError::new(StoreErrorKind::Io, format!("{}: {what}", self.0))
    }
}

/// Returns the message of an error, followed by the messages of its sources.
fn with_sources(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
