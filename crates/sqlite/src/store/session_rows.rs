//! Session operations: the check when a run of a session is written, the session records, and the
//! deletion. The queries use the columns of the runs and do not read journals.

use std::sync::Arc;

use agentflow_core::event::{RunId, SessionPlace};
use agentflow_core::store::{RunRecord, SessionFilter, SessionRecord, StoreError};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::sqlite_error::{Failed, StoreErrors};
use super::tables::Tables;
use super::{reader, row};

/// Returns the columns for the place of a run in its session.
pub(super) fn columns(place: Option<&SessionPlace>) -> (Option<&str>, Option<i64>, Option<&str>) {
    let number = place.map(|place| row::number(place.number));
    (
        place.map(|place| &*place.session),
        number,
        place.and_then(|place| place.after.as_ref()).map(RunId::as_str),
    )
}

/// Returns the place of a run in its session from the columns.
pub(super) fn place(
    session: Option<String>,
    number: Option<i64>,
    after: Option<String>,
) -> Option<Box<SessionPlace>> {
    let (session, number) = (session?, number?.unsigned_abs());
    Some(Box::new(SessionPlace::new(session, number, after.map(RunId::new))))
}

/// SQL condition for runs that have not ended. It must match the condition of the index
/// `unfinished_runs_by_session`, so that SQLite uses the index.
const UNFINISHED: &str = "status NOT IN ('success', 'failed', 'cancelled')";

fn unfinished(connection: &Connection, session: &str) -> rusqlite::Result<Option<RunId>> {
    let sql = format!(
        "SELECT run_id FROM runs WHERE session = ?1 AND session IS NOT NULL AND {UNFINISHED}"
    );
    let mut select = connection.prepare_cached(&sql)?;
    select
        .query_row([session], |row| row.get::<_, String>(0))
        .optional()
        .map(|run| run.map(RunId::new))
}

/// Returns an error if a run must not start at this place of its session: another run of the
/// session has not ended, or the place is not the next one.
pub(super) fn check(connection: &Connection, place: &SessionPlace) -> Result<(), Failed> {
    let session = &*place.session;
    if let Some(unfinished) = unfinished(connection, session)? {
        return Err(StoreError::session_busy(session, &unfinished).into());
    }
    // The caller chose the number from the session's record. Another run may have started since.
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(session_number) FROM runs WHERE session = ?1")?
        .query_row([session], |row| row.get(0))?;
    match last.map_or(1, |number| number.unsigned_abs() + 1) == place.number {
        true => Ok(()),
        false => Err(StoreError::session_moved(session, place.number).into()),
    }
}

/// Returns an error if a run must not continue after its end, because another run of its session
/// has not ended.
pub(super) fn check_again(connection: &Connection, run: &RunRecord) -> Result<(), Failed> {
    let Some(place) = run.session.as_ref().filter(|_| !run.status.has_ended()) else {
        return Ok(());
    };
    match unfinished(connection, &place.session)?.filter(|unfinished| *unfinished != run.run_id) {
        Some(unfinished) => Err(StoreError::session_busy(&place.session, &unfinished).into()),
        None => Ok(()),
    }
}

/// Returns the record of a session. It needs at most four runs: the first, the last, the last
/// successful and the unfinished one.
pub(super) fn session(
    connection: &Connection,
    errors: &StoreErrors,
    session: &str,
) -> Result<Option<SessionRecord>, StoreError> {
    let sql = format!(
        "SELECT {} WHERE runs.key IN (\
         (SELECT key FROM runs WHERE session = ?1 ORDER BY session_number LIMIT 1), \
         (SELECT key FROM runs WHERE session = ?1 ORDER BY session_number DESC LIMIT 1), \
         (SELECT key FROM runs WHERE session = ?1 AND status = 'success' ORDER BY session_number DESC LIMIT 1), \
         (SELECT key FROM runs WHERE session = ?1 AND session IS NOT NULL AND {UNFINISHED}))",
        row::RECORD
    );
    reader::records(connection, errors, &sql, [Value::Text(session.to_owned())])
        .map(SessionRecord::of)
}

/// Returns the sessions that a filter selects.
pub(super) fn sessions(
    connection: &Connection,
    errors: &StoreErrors,
    filter: &SessionFilter,
) -> Result<Vec<SessionRecord>, StoreError> {
    let wrong = |error| errors.sql(error);
    // The transaction makes all queries see the same state.
    let moment = connection.unchecked_transaction().map_err(wrong)?;
    let mut sql = "SELECT session FROM runs WHERE session_number = 1".to_owned();
    let mut values: Vec<Value> = Vec::new();
    if let Some(caller) = filter.get_caller() {
        sql.push_str(" AND caller = ?");
        values.push(Value::Text(caller.to_owned()));
    }
    for (tag, value) in filter.get_tags() {
        sql.push_str(" AND key IN (SELECT run FROM tags WHERE tag = ? AND value = ?)");
        values.extend([Value::Text(tag.clone()), Value::Text(value.clone())]);
    }
    if let Some((created, session)) = filter.get_after() {
        sql.push_str(" AND (created, session) < (?, ?)");
        values.extend([
            Value::Integer(row::number(created.as_millis())),
            Value::Text(session.to_owned()),
        ]);
    }
    sql.push_str(" ORDER BY created DESC, session DESC");
    let mut select = moment.prepare_cached(&sql).map_err(wrong)?;
    let mut found = select.query(params_from_iter(values)).map_err(wrong)?;
    let mut sessions = Vec::new();
    while sessions.len() < filter.get_limit().unwrap_or(usize::MAX)
        && let Some(row) = found.next().map_err(wrong)?
    {
        let id: Arc<str> = row.get::<_, String>(0).map_err(wrong)?.into();
        sessions.extend(session(&moment, errors, &id)?.filter(|session| filter.admits(session)));
    }
    Ok(sessions)
}

impl Tables {
    /// Removes a session with all of its runs. Returns the number of runs, and `true` if artifact
    /// files may now be unreferenced.
    pub(super) fn delete_session(&mut self, session: &str) -> Result<(u64, bool), Failed> {
        let connection = self.connection();
        if let Some(unfinished) = unfinished(connection, session)? {
            return Err(StoreError::session_busy(session, &unfinished).into());
        }
        let runs: Vec<(String, i64)> = connection
            .prepare_cached("SELECT run_id, key FROM runs WHERE session = ?1")?
            .query_map(params![session], |row| Ok((row.get(0)?, row::key(row, 1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        if runs.is_empty() {
            return Err(StoreError::no_session(session).into());
        }
        let mut loose = false;
        for (run, key) in &runs {
            loose |= self.remove(&RunId::new(run.as_str()), *key)?;
        }
        Ok((runs.len() as u64, loose))
    }
}
