//! The writes of the store. `writer.rs` begins and ends the transactions. Each operation checks its
//! conditions before it writes, because operations share a transaction: a refused operation must
//! leave no changes in it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agentflow_core::event::{Event, RunId, RunStarted};
use agentflow_core::store::{
    Answered, Append, Epoch, MessageId, RunRecord, RunStatus, StateWrite, StoreError,
    StoreErrorKind, StoreMessage,
};
use agentflow_core::time::Timestamp;
use agentflow_core::value::Encoded;
use rusqlite::{Connection, OptionalExtension, params};

use super::files::OpenFiles;
use super::owner::{self, ProcessOwner};
use super::recent::RecentCache;
use super::row::{self, EventRow, MutableColumns, number};
use super::session_rows;
use super::sqlite_error::{Failed, StoreErrors};
use super::upgrade::Opened;

/// Length of the write-ahead log, in pages, at which SQLite copies it into the file. Same as
/// SQLite's default.
const LONG_LOG: i64 = 1000;

/// Time to keep an outcome that its sender has not read, as documented by
/// [`Store`](agentflow_core::store::Store).
const OUTCOMES_KEPT: Duration = Duration::from_secs(3600);

/// Minimum number of recently written runs that are cached.
const KNOWN: usize = 16_384;

pub(super) struct Tables {
    connection: Connection,
    errors: StoreErrors,
    files: Arc<OpenFiles>,
    /// This process as an owner, once it has had a run open.
    owner: Option<Arc<ProcessOwner>>,
    /// Cached rows of runs that are open in this process.
    known: RecentCache<RunId, Known>,
    /// SQLite's `data_version`. It changes when another connection has written to the file.
    version: i64,
    /// Number of changes of `version`. A cached row with a smaller number must be validated again.
    changes: u64,
    /// Maximum time to wait for a lock.
    wait: Duration,
    /// `true` if transactions wait for locks and copy a long write-ahead log into the file.
    patient: bool,
    /// `true` if this transaction has removed references to artifact files.
    removed_files: bool,
}

struct Known {
    key: i64,
    epoch: i64,
    owned: bool,
    /// The value of `changes` when the epoch was read.
    seen: u64,
    record: RunRecord,
}

/// The first events of a run, with the run's record.
pub(super) struct First {
    pub(super) record: RunRecord,
    pub(super) rows: Vec<EventRow>,
}

impl Tables {
    pub(super) fn new(opened: Opened) -> Self {
        let Opened { connection, errors, files, wait, .. } = opened;
        let known = RecentCache::new(KNOWN);
        Self {
            connection,
            errors,
            files,
            owner: None,
            known,
            version: 0,
            changes: 0,
            wait,
            patient: true,
            removed_files: false,
        }
    }

    /// Enables or disables two slow actions of the next transactions: waiting for locks, and
    /// copying a long write-ahead log into the file.
    pub(super) fn patient(&mut self, patient: bool) -> rusqlite::Result<()> {
        if self.patient != patient {
            let (wait, pages) = if patient { (self.wait, LONG_LOG) } else { (Duration::ZERO, 0) };
            self.connection.busy_timeout(wait)?;
            self.connection
                .pragma_update_and_check(None, "wal_autocheckpoint", pages, |_| Ok(()))?;
            self.patient = patient;
        }
        Ok(())
    }

    pub(super) fn errors(&self) -> &StoreErrors {
        &self.errors
    }

    /// Begins a write transaction, and checks that the file is still at its path.
    pub(super) fn begin(&mut self) -> Result<(), Failed> {
        self.removed_files = false;
        // The files are checked after the lock is taken. A replaced file is the more useful error,
        // so it is reported even if the transaction could not begin.
        let begun = self.run("BEGIN IMMEDIATE");
        if let Some(file) = self.files.replaced() {
            let replaced = self.errors.replaced(file);
            self.roll_back();
            return Err(replaced.into());
        }
        begun?;
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.version != version {
            self.version = version;
            self.changes += 1;
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> rusqlite::Result<()> {
        self.run("COMMIT")
    }

    /// Undoes the writes since [`begin`](Self::begin).
    pub(super) fn roll_back(&mut self) {
        self.known.clear();
        // SQLite rolls back automatically if the disk is full or fails.
        if !self.connection.is_autocommit() {
            let _ = self.run("ROLLBACK");
        }
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    pub(super) fn create(&mut self, first: &First) -> Result<Epoch, Failed> {
        let run = &first.record.run_id;
        if self.key(run)?.is_some() {
            return Err(StoreError::exists(run).into());
        }
        // Keys are a part of the row ids of events, so they must not exceed 31 bits.
        self.check_key_left()?;
        let owner = self.owner()?;
        let record = &first.record;
        if let Some(place) = &record.session {
            session_rows::check(&self.connection, place)?;
        }
        let (session, number_in_session, after) = session_rows::columns(record.session.as_deref());
        self.connection
            .prepare_cached(
                "INSERT INTO runs \
                 (run_id, version, name, definition, status, pause_reason, error, created, epoch, owner, caller, \
                 session, session_number, session_after, usage, questions, ended, document) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
                 ?17)",
            )?
            .execute(params![
                run.as_str(),
                RunStarted::VERSION,
                &record.name,
                &record.definition,
                record.status.as_str(),
                record.pause_reason.map(|reason| reason.to_string()),
                &record.error,
                number(record.created.as_millis()),
                owner.id(),
                &record.caller,
                session,
                number_in_session,
                after,
                row::usage(record),
                row::questions(record),
                row::ended(record),
                row::document(record),
            ])?;
        // SQLite assigned the key of the new run.
        let key = self.connection.last_insert_rowid();
        for (tag, value) in &record.tags {
            self.connection
                .prepare_cached(
                    "INSERT INTO tags (run, tag, value, created) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![key, tag, value, number(record.created.as_millis())])?;
        }
        self.insert(key, &first.rows)?;
        self.known.insert(
            run.clone(),
            Known { key, epoch: 1, owned: true, seen: self.changes, record: record.clone() },
        );
        Ok(Epoch(1))
    }

    pub(super) fn open(&mut self, run: &RunId) -> Result<Epoch, Failed> {
        let row = self.at_rest(run)?;
        if row.status.has_ended() {
            return Err(StoreError::ended(run, row.status).into());
        }
        let owner = self.owner()?;
        // The cached row has the old epoch.
        self.known.remove(run);
        self.connection
            // The new epoch fences off the previous writer.
            .prepare_cached("UPDATE runs SET epoch = epoch + 1, owner = ?2, version = max(version, ?3) WHERE key = ?1")?
            .execute(params![row.key, owner.id(), RunStarted::VERSION])?;
        Ok(Epoch((row.epoch + 1).unsigned_abs()))
    }

    pub(super) fn amend(
        &mut self,
        run: &RunId,
        after: u64,
        events: &[Event],
        rows: &[EventRow],
    ) -> Result<(), Failed> {
        self.at_rest(run)?;
        self.known.remove(run);
        let mut known = self.look_up(run)?;
        // The caller built the events on an outdated journal.
        if known.record.events != after {
            return Err(StoreError::fenced(run).into());
        }
        // The run is not executed, so it has no owner afterwards.
        known.owned = false;
        let key = known.key;
        events.iter().for_each(|event| known.record.apply(event));
        session_rows::check_again(&self.connection, &known.record)?;
        self.known.insert(run.clone(), known);
        self.insert(key, rows)?;
        self.connection
            .prepare_cached(
                "UPDATE runs SET epoch = epoch + 1, owner = NULL, version = max(version, ?2) WHERE key = ?1",
            )?
            .execute(params![key, RunStarted::VERSION])?;
        self.update(run, false)?;
        self.known.remove(run);
        Ok(())
    }

    /// Removes a run. Returns true if artifact files may now be unreferenced.
    pub(super) fn delete(&mut self, run: &RunId) -> Result<bool, Failed> {
        let row = self
            .connection
            .prepare_cached(
                "SELECT key, owner, version, status, session FROM runs WHERE run_id = ?1",
            )?
            .query_row([run.as_str()], |row| {
                let text = |column| row.get::<_, Option<String>>(column);
                Ok((row::key(row, 0)?, text(1)?, row.get(2)?, row.get::<_, String>(3)?, text(4)?))
            })
            .optional()?;
        let Some((key, holder, version, status, session)) = row else {
            return Err(StoreError::not_found(run).into());
        };
        check_version(run, version, &self.errors).or_else(|error| match error.kind() {
            StoreErrorKind::Damaged => Ok(()),
            _ => Err(error),
        })?;
        self.check_not_held(run, holder)?;
        // A damaged run may be removed, because it can be neither read nor ended.
        if let Some(status) = status.parse::<RunStatus>().ok().filter(|status| !status.has_ended())
            && self.look_up(run).is_ok()
        {
            return Err(StoreError::unfinished(run, status).into());
        }
        match session {
            Some(session) => Err(StoreError::in_session(run, &session).into()),
            None => self.remove(run, key),
        }
    }

    pub(super) fn note_removed_files(&mut self) {
        self.removed_files = true;
    }

    pub(super) fn has_removed_files(&self) -> bool {
        self.removed_files
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Removes a run with its events, messages, tags and artifacts. Returns true if artifact files
    /// may now be unreferenced.
    pub(super) fn remove(&mut self, run: &RunId, key: i64) -> Result<bool, Failed> {
        self.known.remove(run);
        let loose = self.remove_artifacts(key)?;
        let events = [row::event_id(key, 0), row::event_id(key + 1, 0)];
        self.connection
            .prepare_cached("DELETE FROM events WHERE id >= ?1 AND id < ?2")?
            .execute(events)?;
        for sql in [
            "DELETE FROM snapshots WHERE run = ?1",
            "DELETE FROM messages WHERE run = ?1",
            "DELETE FROM tags WHERE run = ?1",
            "DELETE FROM runs WHERE key = ?1",
        ] {
            self.connection.prepare_cached(sql)?.execute([key])?;
        }
        Ok(loose)
    }

    /// Returns a run that no other living process has open.
    fn at_rest(&mut self, run: &RunId) -> Result<AtRest, Failed> {
        let row = self
            .connection
            .prepare_cached(
                "SELECT key, epoch, owner, version, status FROM runs WHERE run_id = ?1",
            )?
            .query_row([run.as_str()], |row| {
                let columns =
                    (row::key(row, 0)?, row::epoch(row, 1)?, row.get::<_, Option<String>>(2)?);
                Ok((columns, row.get(3)?, row.get::<_, String>(4)?))
            })
            .optional()?;
        let Some(((key, epoch, holder), version, status)) = row else {
            return Err(StoreError::not_found(run).into());
        };
        check_version(run, version, &self.errors)?;
        let status = row::status(&status, version, run, &self.errors)?;
        self.check_not_held(run, holder)?;
        Ok(AtRest { key, epoch, status })
    }

    fn check_not_held(&mut self, run: &RunId, holder: Option<String>) -> Result<(), Failed> {
        let owner = self.owner()?;
        match holder.filter(|holder| holder != owner.id()) {
            Some(holder) => match self.alive(&holder)? {
                Some(process) => Err(StoreError::busy(run, &process).into()),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    pub(super) fn alive(&self, holder: &str) -> Result<Option<String>, Failed> {
        owner::alive(self.errors.path(), holder).map_err(|error| self.no_lock(error))
    }

    /// Returns the other living process that has a run open.
    pub(super) fn holder(&mut self, run: &RunId) -> Result<Option<String>, Failed> {
        let holder: Option<Option<String>> = self
            .connection
            .prepare_cached("SELECT owner FROM runs WHERE run_id = ?1")?
            .query_row([run.as_str()], |row| row.get(0))
            .optional()?;
        let own = self.owner.as_ref().map(|owner| owner.id());
        match holder.flatten().filter(|holder| Some(&**holder) != own) {
            Some(holder) => self.alive(&holder),
            None => Ok(None),
        }
    }

    pub(super) fn close(&mut self, run: &RunId, epoch: Epoch) -> Result<(), Failed> {
        let known = match self.writable(run, epoch) {
            Ok(known) => known,
            // A writer that was fenced off no longer has the run open.
            Err(Failed::Refused(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (key, owned) = (known.key, known.owned);
        if owned {
            self.connection
                .prepare_cached("UPDATE runs SET owner = NULL WHERE key = ?1")?
                .execute([key])?;
        }
        self.known.remove(run);
        Ok(())
    }

    pub(super) fn append(
        &mut self,
        run: &RunId,
        epoch: Epoch,
        Append { after, events, answered, state: writes, .. }: &Append,
        rows: &[EventRow],
    ) -> Result<(), Failed> {
        let known = self.writable(run, epoch)?;
        if known.record.events != *after {
            return Err(StoreError::fenced(run).into());
        }
        let (key, mut changed) = (known.key, false);
        for event in events {
            let before = MutableColumns::new(&known.record);
            known.record.apply(event);
            changed |= before != MutableColumns::new(&known.record);
        }
        let ended = known.record.status.has_ended();
        self.insert(key, rows)?;
        for Answered { message, outcome, .. } in answered {
            self.connection
                .prepare_cached(
                    "UPDATE messages SET outcome = ?2, body = '', answered = ?3 WHERE id = ?1 AND outcome IS NULL",
                )?
                .execute(params![number(message.0), outcome, millis_now()])?;
        }
        self.put_state(writes)?;
        // The time of an ended run changes with each event.
        if changed || ended && !rows.is_empty() {
            self.update(run, !ended)?;
        }
        // An ended run executes no more requests.
        if changed && ended {
            self.connection
                .prepare_cached("DELETE FROM messages WHERE run = ?1 AND outcome IS NULL")?
                .execute([key])?;
        }
        Ok(())
    }

    /// Writes the columns that are derived from events, and the owner. A run that has ended gets no
    /// owner, so a process that opens it again does not need to check if this process is alive.
    fn update(&mut self, run: &RunId, open: bool) -> Result<(), Failed> {
        let owner = self.owner.clone();
        let Some(Known { key, owned, record, .. }) = self.known.get(run) else { return Ok(()) };
        *owned = open;
        self.connection
            .prepare_cached(
                "UPDATE runs SET status = ?2, pause_reason = ?3, error = ?4, definition = ?5, owner = ?6, \
                 usage = ?7, questions = ?8, ended = ?9 WHERE key = ?1",
            )?
            .execute(params![
                &*key,
                record.status.as_str(),
                record.pause_reason.map(|reason| reason.to_string()),
                &record.error,
                &record.definition,
                owner.as_ref().filter(|_| *owned).map(|owner| owner.id()),
                row::usage(record),
                row::questions(record),
                row::ended(record),
            ])?;
        Ok(())
    }

    fn insert(&self, key: i64, rows: &[EventRow]) -> rusqlite::Result<()> {
        let sql = "INSERT INTO events (id, time, path, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut insert = self.connection.prepare_cached(sql)?;
        for row in rows {
            insert.execute(params![
                row::event_id(key, row.seq),
                row.time,
                row.path,
                row.body,
                row.sum
            ])?;
        }
        Ok(())
    }

    pub(super) fn put_snapshot(
        &mut self,
        run: &RunId,
        epoch: Epoch,
        seq: i64,
        body: &str,
    ) -> Result<(), Failed> {
        let key = self.writable(run, epoch)?.key;
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO snapshots (run, seq, body, sum) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![key, seq, body, row::sum(seq, 0, "", body)])?;
        Ok(())
    }

    /// Writes values of users or of the application, which outlive runs.
    pub(super) fn put_state(&self, writes: &[StateWrite]) -> rusqlite::Result<()> {
        for StateWrite { user, key, value, .. } in writes {
            let owner = owner_of_state(user.as_deref());
            let sql = match value {
                Some(_) => "INSERT OR REPLACE INTO state (owner, key, value) VALUES (?1, ?2, ?3)",
                None => "DELETE FROM state WHERE owner = ?1 AND key = ?2 AND ?3 IS NULL",
            };
            let value = value.as_ref().map(Encoded::as_str);
            self.connection.prepare_cached(sql)?.execute(params![owner, key, value])?;
        }
        Ok(())
    }

    pub(super) fn put_definition(&mut self, hash: &str, graph: &str) -> Result<(), Failed> {
        self.connection
            .prepare_cached(
                "INSERT INTO definitions (hash, graph) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute([hash, graph])?;
        Ok(())
    }

    pub(super) fn send(&mut self, run: &RunId, message: &str) -> Result<MessageId, Failed> {
        let row: Option<(i64, String, i64)> = self
            .connection
            .prepare_cached("SELECT key, status, version FROM runs WHERE run_id = ?1")?
            .query_row([run.as_str()], |row| Ok((row::key(row, 0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((key, status, version)) = row else {
            return Err(StoreError::not_found(run).into());
        };
        check_version(run, version, &self.errors)?;
        let status = row::status(&status, version, run, &self.errors)?;
        if status.has_ended() {
            return Err(StoreError::ended(run, status).into());
        }
        // Senders wait for seconds only. A sender that has not read its outcome by now has ended.
        self.connection
            .prepare_cached("DELETE FROM messages WHERE answered < ?1")?
            .execute([millis_now().saturating_sub(OUTCOMES_KEPT.as_millis() as i64)])?;
        self.connection
            .prepare_cached("INSERT INTO messages (run, body) VALUES (?1, ?2)")?
            .execute(params![key, message])?;
        Ok(MessageId(self.connection.last_insert_rowid().unsigned_abs()))
    }

    pub(super) fn receive(
        &mut self,
        run: &RunId,
        epoch: Epoch,
    ) -> Result<Vec<StoreMessage>, Failed> {
        let key = self.writable(run, epoch)?.key;
        let messages = self
            .connection
            .prepare_cached(
                "SELECT id, body FROM messages WHERE run = ?1 AND outcome IS NULL ORDER BY id",
            )?
            .query_map([key], |row| {
                let id = MessageId(row.get::<_, i64>(0)?.unsigned_abs());
                Ok(StoreMessage::new(id, run.clone(), row.get::<_, String>(1)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(messages)
    }

    pub(super) fn withdraw(&mut self, message: MessageId) -> Result<Option<String>, Failed> {
        let outcome: Option<Option<String>> = self
            .connection
            .prepare_cached("DELETE FROM messages WHERE id = ?1 RETURNING outcome")?
            .query_row([number(message.0)], |row| row.get(0))
            .optional()?;
        Ok(outcome.flatten())
    }

    fn key(&self, run: &RunId) -> rusqlite::Result<Option<i64>> {
        let mut select =
            self.connection.prepare_cached("SELECT key FROM runs WHERE run_id = ?1")?;
        select.query_row([run.as_str()], |row| row.get(0)).optional()
    }

    /// Returns the key of a run that may be written with this epoch.
    pub(super) fn writable_key(&mut self, run: &RunId, epoch: Epoch) -> Result<i64, Failed> {
        Ok(self.writable(run, epoch)?.key)
    }

    /// Returns the cached row of a run that may be written with this epoch.
    fn writable(&mut self, run: &RunId, epoch: Epoch) -> Result<&mut Known, Failed> {
        let valid = match self.known.get(run) {
            Some(known) if known.seen == self.changes => true,
            Some(known) => {
                // The run may have been deleted and its key reused by another run.
                let mut select = self
                    .connection
                    .prepare_cached("SELECT epoch FROM runs WHERE key = ?1 AND run_id = ?2")?;
                let epoch = select
                    .query_row(params![known.key, run.as_str()], |row| row.get::<_, i64>(0))
                    .optional()?;
                known.seen = self.changes;
                epoch == Some(known.epoch)
            }
            None => false,
        };
        if !valid {
            let known = self.look_up(run)?;
            self.known.insert(run.clone(), known);
        }
        match self.known.get(run) {
            Some(known) if known.epoch.unsigned_abs() == epoch.0 => Ok(known),
            _ => Err(StoreError::fenced(run).into()),
        }
    }

    fn look_up(&self, run: &RunId) -> Result<Known, Failed> {
        let sql = format!("SELECT {} WHERE runs.run_id = ?1", row::RECORD);
        let mut select = self.connection.prepare_cached(&sql)?;
        let mut rows = select.query([run.as_str()])?;
        let Some(row) = rows.next()? else { return Err(StoreError::not_found(run).into()) };
        check_version(run, row.get(12)?, &self.errors)?;
        Ok(Known {
            key: row::key(row, 9)?,
            epoch: row::epoch(row, 10)?,
            owned: row.get_ref(11)?.as_str_or_null().ok().flatten().is_some(),
            seen: self.changes,
            record: row::record(row, &self.errors)?,
        })
    }

    /// Returns an error if no key is left. SQLite gives a new run the highest key plus one.
    fn check_key_left(&self) -> Result<(), Failed> {
        let mut select =
            self.connection.prepare_cached("SELECT coalesce(max(key), 0) FROM runs")?;
        match select.query_row([], |row| row.get::<_, i64>(0))? {
            ..row::LAST_KEY => Ok(()),
            _ => Err(self.errors.damaged("a run has a number that no store gives").into()),
        }
    }

    /// Returns this process as an owner of runs.
    pub(super) fn owner(&mut self) -> Result<Arc<ProcessOwner>, Failed> {
        if let Some(owner) = &self.owner {
            return Ok(Arc::clone(owner));
        }
        let owner = ProcessOwner::for_this_process(self.errors.path())
            .map_err(|error| self.no_lock(error))?;
        self.owner = Some(Arc::clone(&owner));
        Ok(owner)
    }

    fn no_lock(&self, error: std::io::Error) -> Failed {
        let what = format!(
            "needs a lock file beside it, which cannot be opened ({error}); check the rights of its folder"
        );
        self.errors.io(what).caused_by(error).into()
    }
}

/// Returns the value of the column `owner`, for a user or for the application.
pub(super) fn owner_of_state(user: Option<&str>) -> String {
    user.map_or_else(|| "app".to_owned(), |user| format!("user:{user}"))
}

/// The row of a run that no other living process has open.
struct AtRest {
    key: i64,
    epoch: i64,
    status: RunStatus,
}

/// Returns an error if the run was written by a newer release, or if its version is invalid.
pub(super) fn check_version(
    run: &RunId,
    version: i64,
    errors: &StoreErrors,
) -> Result<(), StoreError> {
    let known = i64::from(RunStarted::VERSION);
    match (1..=known).contains(&version) {
        true => Ok(()),
        false => Err(errors.newer_or_damaged(version, known, format_args!("the run `{run}`"))),
    }
}

/// Returns the current time in milliseconds since the Unix epoch.
fn millis_now() -> i64 {
    number(Timestamp::from(SystemTime::now()).as_millis())
}
