//! The file: how it is opened, and how one of an older release is brought up to date. Knows no run.

use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::problem::Problems;
use super::{Settings, Synchronous};
use crate::store::StoreError;

/// What the file says of itself in its header: `agfw`.
const APPLICATION_ID: i64 = 0x6167_6677;

/// Each brings the tables from one version to the next.
const MIGRATIONS: [&str; 2] = [include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// The version of the tables that this release writes.
const VERSION: i64 = MIGRATIONS.len() as i64;

/// Opens the file for writing, creates or updates its tables.
///
/// A file that is not ours, or that is newer than this release, is left as it is.
pub(super) fn open_writer(settings: &Settings) -> Result<(Connection, Problems), StoreError> {
    let problems = Problems::new(real_path(settings)?, settings.busy_timeout);
    let sql = |error| problems.sql(error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(problems.path(), flags).map_err(sql)?;
    connection.busy_timeout(settings.busy_timeout).map_err(sql)?;
    let version = version(&connection, &problems)?;
    if connection.is_readonly("main").map_err(sql)? {
        return Err(problems.read_only());
    }
    prepare(&connection, settings).map_err(sql)?;
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(sql)?;
    if mode != "wal" {
        return Err(problems.io("lies where SQLite can keep no write-ahead log; put it on a local disk"));
    }
    if version < VERSION {
        migrate(&mut connection, &problems)?;
    }
    Ok((connection, problems))
}

/// Opens a file that [`open_writer`] has opened, for reading alone.
pub(super) fn open_reader(settings: &Settings, problems: &Problems) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(problems.path(), flags).map_err(|error| problems.sql(error))?;
    connection.busy_timeout(settings.busy_timeout).map_err(|error| problems.sql(error))?;
    Ok(connection)
}

/// The path without links, so that all processes call the file by one name.
fn real_path(settings: &Settings) -> Result<PathBuf, StoreError> {
    let given = Problems::new(settings.path.clone(), settings.busy_timeout);
    if settings.path.is_dir() {
        return Err(given.io("is a folder; give the path of a file in it"));
    }
    if let Ok(path) = settings.path.canonicalize() {
        return Ok(path);
    }
    let Some(file) = settings.path.file_name() else { return Err(given.io("is no path of a file")) };
    let folder = match settings.path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => ".".as_ref(),
    };
    match folder.canonicalize() {
        Ok(folder) => Ok(folder.join(file)),
        Err(error) => {
            let what = format!("cannot be created, since there is no folder `{}`; create the folder", folder.display());
            Err(given.io(what).caused_by(error))
        }
    }
}

/// The version of the tables in the file, 0 when it has none.
fn version(connection: &Connection, problems: &Problems) -> Result<i64, StoreError> {
    let number = |pragma| {
        connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(|error| problems.sql(error))
    };
    let (id, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| problems.sql(error))?;
    match id == APPLICATION_ID {
        true if version > VERSION => Err(problems.newer("the table layout")),
        true => Ok(version),
        false if tables == 0 && version == 0 => Ok(0),
        false => {
            Err(problems
                .io("is the database of another program, and was not changed; give the store a file of its own"))
        }
    }
}

fn prepare(connection: &Connection, settings: &Settings) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    match settings.synchronous {
        Synchronous::Full => {
            connection.pragma_update(None, "synchronous", "FULL")?;
            // macOS has a weaker sync by default; elsewhere this changes nothing.
            connection.pragma_update(None, "fullfsync", true)?;
        }
        Synchronous::Normal => connection.pragma_update(None, "synchronous", "NORMAL")?,
    }
    if let Some(bytes) = settings.max_bytes {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page;
        connection
            .pragma_update_and_check(None, "max_page_count", pages.clamp(1, i64::from(u32::MAX - 1)), |_| Ok(()))?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn migrate(connection: &mut Connection, problems: &Problems) -> Result<(), StoreError> {
    let sql = |error| problems.sql(error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    // Another process may have been faster.
    let version = version(&transaction, problems)?;
    for migration in &MIGRATIONS[usize::try_from(version).unwrap_or(0)..] {
        transaction.execute_batch(migration).map_err(sql)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(sql)?;
    transaction.commit().map_err(sql)
}
