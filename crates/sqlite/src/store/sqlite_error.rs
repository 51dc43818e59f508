//! Converts SQLite errors to `StoreError`s with a message that explains the fix. It repairs
//! nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentflow_core::store::{StoreError, StoreErrorKind};
use rusqlite::ErrorCode;

use super::{StoreSettings, files};

/// The reasons why an operation failed.
pub(super) enum Failed {
    /// The operation is not allowed. It has written nothing.
    Refused(StoreError),
    /// SQLite failed. The caller must roll back the transaction.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Maximum plausible distance to a newer version. A larger version number is treated as damage.
const PLAUSIBLE: i64 = 1_000;

/// Returns true if another connection holds a lock. A retry may succeed.
pub(super) fn is_locked(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed)
    )
}

/// Creates the errors of one store. Their messages contain the path of the file.
#[derive(Clone, Debug)]
pub(crate) struct StoreErrors {
    path: Arc<PathBuf>,
    busy_timeout: Duration,
}

impl StoreErrors {
    pub(super) fn new(settings: &StoreSettings, path: PathBuf) -> Self {
        Self::for_path(path, settings.busy_timeout)
    }

    /// Creates the errors for a file that is not a store, with the given busy time-out.
    pub(crate) fn for_path(path: PathBuf, busy_timeout: Duration) -> Self {
        Self { path: Arc::new(path), busy_timeout }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an error if SQLite's log belongs to another hard link of the file. SQLite derives
    /// the path of the log from the path of the database.
    pub(crate) fn check_only_path(&self) -> Result<(), StoreError> {
        match files::path_with_log(&self.path) {
            Some(other) => Err(self.io(format_args!(
                "is the same file as `{0}`, beside which its log lies; open it as `{0}`",
                other.display()
            ))),
            None => Ok(()),
        }
    }

    /// Converts the error of a statement.
    pub(crate) fn sql(&self, error: rusqlite::Error) -> StoreError {
        let path = self.path.display();
        let (kind, text) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => {
                return self.damaged("SQLite finds it malformed").caused_by(error);
            }
            Some(ErrorCode::NotADatabase) => (
                StoreErrorKind::Damaged,
                format!(
                    "`{path}` is not an SQLite database, and nothing in it was changed; give the path of a store, or of a \
                     file that does not exist yet"
                ),
            ),
            Some(ErrorCode::DiskFull) => (
                StoreErrorKind::Full,
                format!(
                    "there is no room left for `{path}`; this was not written, and what was written before is kept; make room, then resume the run"
                ),
            ),
            Some(ErrorCode::TooBig) => (
                StoreErrorKind::TooLarge,
                format!(
                    "something is too large for `{path}`, where a row has at most 1,000,000,000 bytes; it was not written"
                ),
            ),
            _ if is_locked(&error) => (
                StoreErrorKind::Locked,
                format!(
                    "another process has `{path}` locked for longer than {:?}; nothing was written; end that process, or set a longer `busy_timeout`",
                    self.busy_timeout
                ),
            ),
            Some(ErrorCode::ReadOnly) => return self.read_only().caused_by(error),
            Some(ErrorCode::CannotOpen) => (
                StoreErrorKind::Io,
                format!(
                    "`{path}` cannot be opened; check that it is a file, and that this user may read and write it and its folder"
                ),
            ),
            // A likely cause: the file is also open by its other path, with another log.
            Some(ErrorCode::SystemIoFailure) if files::has_other_path(&self.path) => {
                let what = "has another path, a hard link, by which it may be open; open it by one of its paths only";
                return self.io(what).caused_by(error);
            }
            Some(ErrorCode::SystemIoFailure) => (
                StoreErrorKind::Io,
                format!(
                    "the disk does not read or write `{path}` ({error}); what was written before is kept as far as the disk has it; check the disk, then resume the run"
                ),
            ),
            // These errors mean that a column has an unexpected type or value.
            None if matches!(
                error,
                rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
                    | rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::Utf8Error(..)
            ) =>
            {
                return self.damaged("a row has other values than were written").caused_by(error);
            }
            _ => (StoreErrorKind::Io, format!("`{path}`: {error}")),
        };
        StoreError::new(kind, text).caused_by(error)
    }

    /// Returns the error for data that is not as it was written.
    pub(super) fn damaged(&self, what: impl std::fmt::Display) -> StoreError {
        StoreError::new(
            StoreErrorKind::Damaged,
            format!(
                "`{}` is damaged: {what}; nothing in it was changed; restore it from a backup, or copy out what can be read with `sqlite3 FILE .recover`",
                self.path.display()
            ),
        )
    }

    /// Returns the error for data of a newer release.
    pub(super) fn newer(&self, what: impl std::fmt::Display) -> StoreError {
        StoreError::new(
            StoreErrorKind::NewerVersion,
            format!(
                "{what} in `{}` was written by a newer release of agentflow; nothing was changed; update this program",
                self.path.display()
            ),
        )
    }

    /// Returns the error for an unknown version number: a newer release, or damage.
    pub(crate) fn newer_or_damaged(
        &self,
        version: i64,
        known: i64,
        what: impl std::fmt::Display,
    ) -> StoreError {
        match version {
            version if version > known && version - known <= PLAUSIBLE => self.newer(what),
            _ => self
                .damaged(format_args!("{what} has the version {version}, which no release writes")),
        }
    }

    /// Returns the error for a file that is no longer at its path.
    pub(super) fn replaced(&self, file: &Path) -> StoreError {
        StoreError::new(
            StoreErrorKind::Replaced,
            format!(
                "`{}` was deleted, moved or replaced while the store had it open; nothing was written since; put it back, or open the store again",
                file.display()
            ),
        )
    }

    /// Returns the error for a write that was lost because the store was dropped while another
    /// process had locked the file.
    pub(super) fn given_up(&self) -> StoreError {
        StoreError::new(
            StoreErrorKind::Locked,
            format!(
                "the store was dropped while another process had `{}` locked; this was not written",
                self.path.display()
            ),
        )
    }

    pub(super) fn read_only(&self) -> StoreError {
        self.io("is read-only; give this user the right to write it and its folder")
    }

    /// Returns an `io` error. `what` continues a sentence that starts with the path.
    pub(crate) fn io(&self, what: impl std::fmt::Display) -> StoreError {
        StoreError::new(StoreErrorKind::Io, format!("`{}` {what}", self.path.display()))
    }
}
