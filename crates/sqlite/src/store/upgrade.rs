//! Opens the file and upgrades the tables of an older release. It does not access runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agentflow_core::store::{StoreError, StoreErrorKind};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::files::OpenFiles;
use super::sqlite_error::{StoreErrors, is_locked};
use super::{StoreSettings, Synchronous, artifact_rows};
use crate::private_file::create_for_sqlite;

/// The `application_id` in the header of the file: `agfw`.
const APPLICATION_ID: i64 = 0x6167_6677;

/// Migration scripts. Each upgrades the tables by one version.
pub(super) const MIGRATIONS: [&str; 10] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
];

/// Version of the tables that this release writes.
const VERSION: i64 = MIGRATIONS.len() as i64;

/// Longest wait of one attempt to get a lock. Between attempts, the writer checks if the store is
/// still in use.
const ATTEMPT: Duration = Duration::from_millis(500);

/// Pause after a lock conflict for which SQLite does not wait.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// A file that is open for writing.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) errors: StoreErrors,
    pub(super) files: Arc<OpenFiles>,
    /// Time that the connection waits for a lock.
    pub(super) wait: Duration,
    /// `true` if a crash may have left artifact files.
    pub(super) has_loose_files: bool,
}

/// Opens the file for writing, and creates or upgrades its tables.
///
/// A file of another program or of a newer release is not changed. If the file is locked, this
/// function waits up to the busy time-out, or until `unwanted` is set.
pub(super) fn open_writer(
    settings: &StoreSettings,
    unwanted: &AtomicBool,
) -> Result<Opened, StoreError> {
    let begun = Instant::now();
    loop {
        match try_open(settings) {
            // SQLite does not wait for all locks: if two processes switch a new file to write-ahead
            // logging, one of them fails at once.
            Err(error)
                if error.kind() == StoreErrorKind::Locked
                    && begun.elapsed() < settings.busy_timeout
                    && !unwanted.load(Ordering::Relaxed) =>
            {
                thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

fn try_open(settings: &StoreSettings) -> Result<Opened, StoreError> {
    let errors = StoreErrors::new(settings, real_path(settings)?);
    let sql = |error| errors.sql(error);
    errors.check_only_path()?;
    create_for_sqlite(errors.path());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(errors.path(), flags).map_err(sql)?;
    // If the path is a link to a missing file, its target exists only now, so the path is resolved
    // again.
    let errors = StoreErrors::new(settings, real_path(settings)?);
    let sql = |error| errors.sql(error);
    let wait = settings.busy_timeout.min(ATTEMPT);
    connection.busy_timeout(wait).map_err(sql)?;
    let version = version_in_transaction(&connection, &errors)?;
    if version > 0 {
        // This statement changes nothing, but SQLite reports an error if the file is read-only. A
        // lock conflict proves that the file is writable.
        connection.busy_timeout(Duration::ZERO).map_err(sql)?;
        match connection.execute_batch("DELETE FROM definitions WHERE FALSE") {
            Err(error) if !is_locked(&error) => return Err(sql(error)),
            _ => connection.busy_timeout(wait).map_err(sql)?,
        }
    }
    prepare(&connection, settings).map_err(sql)?;
    let mode: String =
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(sql)?;
    // SQLite keeps the old mode if the file system does not support shared memory.
    if mode != "wal" {
        return Err(
            errors.io("lies where SQLite can keep no write-ahead log; put it on a local disk")
        );
    }
    if version < VERSION {
        migrate(&mut connection, &errors)?;
    }
    let has_loose_files =
        artifact_rows::has_loose_files(&connection).map_err(|error| errors.sql(error))?;
    let files = Arc::new(OpenFiles::for_store(errors.path()));
    Ok(Opened { connection, errors, files, wait, has_loose_files })
}

/// Opens a file for reading, after [`open_writer`] has opened it.
pub(super) fn open_reader(
    settings: &StoreSettings,
    errors: &StoreErrors,
) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(errors.path(), flags).map_err(|error| errors.sql(error))?;
    // SQLite stores the time-out as milliseconds in 32 bits.
    let timeout = settings.busy_timeout.min(Duration::from_millis(i32::MAX as u64));
    connection.busy_timeout(timeout).map_err(|error| errors.sql(error))?;
    Ok(connection)
}

/// Resolves links, so that all processes use the same path for the file.
fn real_path(settings: &StoreSettings) -> Result<PathBuf, StoreError> {
    let given = StoreErrors::new(settings, settings.path.clone());
    if settings.path.is_dir() {
        return Err(given.io("is a folder; give the path of a file in it"));
    }
    if let Ok(path) = settings.path.canonicalize() {
        return Ok(path);
    }
    let Some(file) = settings.path.file_name() else {
        return Err(given.io("is not the path of a file"));
    };
    let folder = match settings.path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => ".".as_ref(),
    };
    match folder.canonicalize() {
        Ok(folder) => Ok(folder.join(file)),
        Err(error) => {
            let what = format!(
                "cannot be created, since there is no folder `{}`; create the folder",
                folder.display()
            );
            Err(given.io(what).caused_by(error))
        }
    }
}

/// Returns the version of the tables, read in one transaction. Another process may be creating the
/// tables.
fn version_in_transaction(
    connection: &Connection,
    errors: &StoreErrors,
) -> Result<i64, StoreError> {
    let moment = connection.unchecked_transaction().map_err(|error| errors.sql(error))?;
    version(&moment, errors)
}

/// Returns the version of the tables, or 0 for an empty file. Call it within a transaction.
fn version(connection: &Connection, errors: &StoreErrors) -> Result<i64, StoreError> {
    let number = |pragma| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(|error| errors.sql(error))
    };
    let (id, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| errors.sql(error))?;
    match id == APPLICATION_ID {
        true => match version {
            1..=VERSION => Ok(version),
            _ => Err(errors.newer_or_damaged(version, VERSION, "the table layout")),
        },
        false if tables == 0 && version == 0 && id == 0 => Ok(0),
        false => {
            Err(errors.io("is the database of another program, and was not changed; give the store a file of its own"))
        }
    }
}

fn prepare(connection: &Connection, settings: &StoreSettings) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // Overwrite deleted content in the file instead of only unlinking it.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    match settings.synchronous {
        Synchronous::Full => {
            connection.pragma_update(None, "synchronous", "FULL")?;
            // By default, macOS syncs without flushing the disk's cache. This has no effect
            // elsewhere.
            connection.pragma_update(None, "fullfsync", true)?;
        }
        Synchronous::Normal => connection.pragma_update(None, "synchronous", "NORMAL")?,
    }
    if let Some(bytes) = settings.max_bytes {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page;
        connection.pragma_update_and_check(
            None,
            "max_page_count",
            pages.clamp(1, i64::from(u32::MAX - 1)),
            |_| Ok(()),
        )?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn migrate(connection: &mut Connection, errors: &StoreErrors) -> Result<(), StoreError> {
    let sql = |error| errors.sql(error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    // Another process may have migrated the tables in the meantime.
    let version = version(&transaction, errors)?;
    for migration in &MIGRATIONS[usize::try_from(version).unwrap_or(0)..] {
        transaction.execute_batch(migration).map_err(sql)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(sql)?;
    transaction.commit().map_err(sql)
}
