//! Stores memories in an SQLite file and finds them by words, with SQLite's full-text search.
//!
//! [`SqliteMemory`] implements the trait `Memory`. The table `memories` contains the entries, and
//! the full-text table `memory_words` contains their words (`schema.sql`). All queries run on
//! tokio's blocking threads, with one connection per opened file.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentflow_core::__private::{MOST_WORDS, sha256, words};
use agentflow_core::event::RunId;
use agentflow_core::memory::{Memory, MemoryEntry, MemoryQuery};
use agentflow_core::store::{StoreError, StoreErrorKind};
use agentflow_core::time::Timestamp;
use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use crate::private_file::create_for_sqlite;
use crate::store::StoreErrors;

/// The `application_id` in the header of the file: `agfm`.
const APPLICATION_ID: i64 = 0x6167_666d;

/// Version of the tables that this release writes.
const VERSION: i64 = 1;

/// SQLite 3.42, the first release whose full-text index can overwrite deleted words.
const SECURE_WORDS: i32 = 3_042_000;

/// Time to wait for a file that another process has locked.
const BUSY: Duration = Duration::from_secs(5);

/// A memory in an SQLite file. Entries are found by their words, with SQLite's full-text search
/// (FTS5).
///
/// An entry matches a query if it contains at least one word of the query. Entries with more and
/// rarer matching words rank higher (BM25). English words are compared by their stems, so that
/// `seats` finds `seat`, and accents are ignored. The search compares words and not meanings; to
/// search by meaning, implement [`Memory`] with embeddings.
///
/// Any number of processes on one machine may use the file at the same time. The file must be a
/// separate one: the file of a [`SqliteStore`](crate::SqliteStore) is refused. Clones share the
/// file. Queries and writes run on tokio's blocking threads, and a write returns when it is on the
/// disk. Deleted content is overwritten in the file and in its full-text index. Because of this
/// setting, other programs need SQLite 3.42 or newer to read the file. The compiled-in version is
/// new enough.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("memory.db");
/// use agentflow::Runtime;
/// use agentflow::memory::SqliteMemory;
///
/// let runtime = Runtime::builder().memory(SqliteMemory::open(path).await?).build();
/// runtime.memories().user("ada")?.save("Prefers window seats.").await?;
/// assert_eq!(runtime.memories().user("ada")?.search("seat").await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteMemory {
    file: Arc<File>,
    app: Arc<str>,
    max_entries: usize,
}

struct File {
    connection: Mutex<Connection>,
    errors: StoreErrors,
}

impl SqliteMemory {
    /// Default of [`max_entries`](Self::max_entries): the maximum number of entries per user.
    pub const MAX_ENTRIES: usize = 10_000;

    /// Opens a file, and creates it if it does not exist. On Unix a new file has the mode 0600, so
    /// that only the user of the process can read it. An existing file keeps its mode.
    ///
    /// # Errors
    /// - `newer_version`: a newer release wrote the file.
    /// - `damaged`: the file is not an SQLite file.
    /// - `locked`: another process has locked the file for more than 5 seconds.
    /// - `io`: the folder is missing, the file is read-only, or the file is the database of another
    ///   program, such as a store.
    ///
    /// The file is not changed then.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let file = blocking(move || File::open(path)).await?;
        Ok(Self { file: Arc::new(file), app: "".into(), max_entries: Self::MAX_ENTRIES })
    }

    /// Selects one of several applications that share the file. The memories of a user in one
    /// application are not found in another. Default: the application with the empty name.
    #[must_use]
    pub fn of_app(mut self, app: impl Into<Arc<str>>) -> Self {
        self.app = app.into();
        self
    }

    /// Sets the maximum number of entries per user. Saving another entry fails with `full`.
    /// Default: [`MAX_ENTRIES`](Self::MAX_ENTRIES).
    #[must_use]
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// Removes the entries of all users of the application that were saved before `time`, in one
    /// transaction. Returns the number of removed entries.
    ///
    /// # Errors
    /// `locked`, `damaged` or `io`.
    pub async fn delete_before(&self, time: Timestamp) -> Result<u64, StoreError> {
        let app = Arc::clone(&self.app);
        self.write(move |tables| {
            remove(tables, "app = ?1 AND time < ?2", params![app, millis(time)])
        })
        .await
    }

    async fn write<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, MemoryFailure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = Arc::clone(&self.file);
        blocking(move || {
            let mut connection = file.connection.lock().unwrap_or_else(PoisonError::into_inner);
            let done = (|| {
                let transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let done = act(&transaction)?;
                transaction.commit()?;
                Ok(done)
            })();
            done.map_err(|failed| file.error(failed))
        })
        .await
    }
}

/// The reasons why a transaction failed.
enum MemoryFailure {
    Refused(StoreError),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for MemoryFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl File {
    fn open(path: PathBuf) -> Result<Self, StoreError> {
        let errors = StoreErrors::for_path(path, BUSY);
        errors.check_only_path()?;
        create_for_sqlite(errors.path());
        let connection = Connection::open(errors.path()).map_err(|error| errors.sql(error))?;
        let file = Self { connection: Mutex::new(connection), errors };
        {
            let mut connection = file.connection.lock().unwrap_or_else(PoisonError::into_inner);
            file.prepare(&mut connection)?;
        }
        Ok(file)
    }

    fn prepare(&self, connection: &mut Connection) -> Result<(), StoreError> {
        let sql = |error| self.errors.sql(error);
        connection.busy_timeout(BUSY).map_err(sql)?;
        {
            // One transaction for the check and the creation: another process may be creating the
            // tables.
            let transaction = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(sql)?;
            if self.is_empty(&transaction)? {
                transaction.execute_batch(include_str!("schema.sql")).map_err(sql)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
                transaction.pragma_update(None, "user_version", VERSION).map_err(sql)?;
                transaction.commit().map_err(sql)?;
            }
        }
        // Overwrite deleted content in the file instead of only unlinking it.
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).map_err(sql)?;
        self.overwrite_deleted_words(connection)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(sql)
    }

    /// Makes the full-text index overwrite deleted words. By default, FTS5 only marks a word as
    /// deleted. The setting is stored in the file.
    fn overwrite_deleted_words(&self, connection: &Connection) -> Result<(), StoreError> {
        let sql = |error| self.errors.sql(error);
        let set = "SELECT count(*) FROM memory_words_config WHERE k = 'secure-delete' AND v = 1";
        if connection.query_row(set, [], |row| row.get::<_, i64>(0)).map_err(sql)? == 0
            && rusqlite::version_number() >= SECURE_WORDS
        {
            let set = "INSERT INTO memory_words (memory_words, rank) VALUES ('secure-delete', 1)";
            connection.execute(set, []).map_err(sql)?;
        }
        Ok(())
    }

    /// Returns true if the file is empty.
    ///
    /// # Errors
    /// Returns an error if the file is not a memory file, or if a newer release wrote it.
    fn is_empty(&self, connection: &Connection) -> Result<bool, StoreError> {
        let sql = |error| self.errors.sql(error);
        let number = |pragma| {
            connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(sql)
        };
        let (id, version) = (number("application_id")?, number("user_version")?);
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(sql)?;
        match (id, version) {
            (APPLICATION_ID, VERSION) => Ok(false),
            (APPLICATION_ID, version) => Err(self.errors.newer_or_damaged(version, VERSION, "the table layout")),
            (0, 0) if tables == 0 => Ok(true),
            _ => Err(self
                .errors
                .io("is the database of another program, and was not changed; give the memory a file of its own")),
        }
    }

    fn error(&self, failed: MemoryFailure) -> StoreError {
        match failed {
            MemoryFailure::Refused(error) => error,
            MemoryFailure::Sql(error) => self.errors.sql(error),
        }
    }
}

/// Runs work that waits for a disk. If the runtime shuts down, the work may not have been executed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            Err(StoreError::new(StoreErrorKind::Io, format!("the memory was not asked: {error}")))
        }
    }
}

/// Converts a time to the integer that is stored in SQLite.
fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the word that identifies the owner of an entry in the full-text index. It narrows a
/// search. The comparison of the columns `app` and `user` decides.
fn owner(app: &str, user: &str) -> String {
    sha256(format!("{}\0{app}\0{user}", app.len()).as_bytes())
}

/// Removes the entries that match a condition, and their words in the index.
fn remove(
    tables: &Connection,
    condition: &str,
    of: &[&dyn rusqlite::ToSql],
) -> Result<u64, MemoryFailure> {
    let rows = format!("SELECT number FROM memories WHERE {condition}");
    tables.execute(&format!("DELETE FROM memory_words WHERE rowid IN ({rows})"), of)?;
    Ok(tables.execute(&format!("DELETE FROM memories WHERE {condition}"), of)? as u64)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<MemoryEntry> {
    let tags: String = row.get("tags")?;
    let tags = serde_json::from_str(&tags).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })?;
    let id: String = row.get("id")?;
    let time = Timestamp::from_millis(row.get::<_, i64>("time")?.try_into().unwrap_or_default());
    let mut entry = MemoryEntry::new(id, row.get::<_, String>("text")?, time);
    entry.tags = tags;
    entry.run = row.get::<_, Option<String>>("run")?.map(RunId::new);
    Ok(entry)
}

#[async_trait]
impl Memory for SqliteMemory {
    async fn save(&self, user: &str, entry: MemoryEntry) -> Result<(), StoreError> {
        let (app, user, most) = (Arc::clone(&self.app), user.to_owned(), self.max_entries);
        self.write(move |tables| {
            let mine = "SELECT number FROM memories WHERE app = ?1 AND user = ?2 AND id = ?3";
            let known: Option<i64> =
                tables.query_row(mine, params![app, user, entry.id], |row| row.get(0)).optional()?;
            // Replacing an existing entry does not increase the count, so it is allowed at the
            // limit.
            if known.is_none() {
                let count = "SELECT count(*) FROM memories WHERE app = ?1 AND user = ?2";
                let count: i64 = tables.query_row(count, params![app, user], |row| row.get(0))?;
                if usize::try_from(count).unwrap_or(usize::MAX) >= most {
                    return Err(MemoryFailure::Refused(StoreError::too_many_memories(most)));
                }
            }
            let tags = serde_json::to_string(&entry.tags).unwrap_or_else(|_| "{}".to_owned());
            let run = entry.run.as_ref().map(RunId::as_str);
            tables.execute(
                "INSERT INTO memories (number, app, user, id, time, run, text, tags) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
                 ON CONFLICT (app, user, id) DO UPDATE SET time = ?5, run = ?6, text = ?7, tags = ?8",
                params![known, app, user, entry.id, millis(entry.time), run, entry.text, tags],
            )?;
            let number = known.unwrap_or_else(|| tables.last_insert_rowid());
            // The full-text table has no unique key besides the rowid, so the old words are deleted
            // first.
            tables.execute("DELETE FROM memory_words WHERE rowid = ?1", [number])?;
            let words = words(&entry.text).collect::<Vec<_>>().join(" ");
            tables.execute(
                "INSERT INTO memory_words (rowid, owner, words) VALUES (?1, ?2, ?3)",
                params![number, owner(&app, &user), words],
            )?;
            Ok(())
        })
        .await
    }

    async fn search(
        &self,
        user: &str,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryEntry>, StoreError> {
        let (app, user, query) = (Arc::clone(&self.app), user.to_owned(), query.clone());
        let file = Arc::clone(&self.file);
        blocking(move || {
            let wanted = match query.get_text() {
                None => None,
                Some(text) => {
                    // Each word is quoted, so that no part of the text is read as query syntax.
                    // `words` yields no quotes.
                    let wanted: Vec<String> = words(text).take(MOST_WORDS).map(|word| format!("\"{word}\"")).collect();
                    if wanted.is_empty() {
                        return Ok(Vec::new());
                    }
                    Some(format!("owner:\"{}\" AND words:({})", owner(&app, &user), wanted.join(" OR ")))
                }
            };
            let sql = match wanted {
                None => {
                    "SELECT * FROM memories WHERE app = ?1 AND user = ?2 AND ?3 IS NULL ORDER BY time DESC, id DESC"
                }
                Some(_) => {
                    "SELECT memories.* FROM memory_words JOIN memories ON memories.number = memory_words.rowid \
                     WHERE memory_words MATCH ?3 AND app = ?1 AND user = ?2 \
                     ORDER BY bm25(memory_words, 0.0, 1.0), time DESC, id DESC"
                }
            };
            let found = || {
                let connection = file.connection.lock().unwrap_or_else(PoisonError::into_inner);
                let mut statement = connection.prepare_cached(sql)?;
                let rows = statement.query_map(params![app, user, wanted], entry)?;
                let admitted = rows.filter(|row| row.as_ref().map_or(true, |entry| query.admits(entry)));
                admitted.skip(query.get_skip()).take(query.get_limit()).collect::<Result<_, _>>()
            };
            found().map_err(|error| file.errors.sql(error))
        })
        .await
    }

    async fn delete(&self, user: &str, id: &str) -> Result<bool, StoreError> {
        let (app, user, id) = (Arc::clone(&self.app), user.to_owned(), id.to_owned());
        self.write(move |tables| {
            remove(tables, "app = ?1 AND user = ?2 AND id = ?3", params![app, user, id])
        })
        .await
        .map(|removed| removed > 0)
    }

    async fn delete_user(&self, user: &str) -> Result<u64, StoreError> {
        let (app, user) = (Arc::clone(&self.app), user.to_owned());
        self.write(move |tables| remove(tables, "app = ?1 AND user = ?2", params![app, user])).await
    }
}

impl fmt::Debug for SqliteMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, app, max_entries } = self;
        f.debug_struct("SqliteMemory")
            .field("path", &file.errors.path())
            .field("app", app)
            .field("max_entries", max_entries)
            .finish()
    }
}
