//! What is read, each time on a connection of its own that can write nothing.

use std::sync::{Mutex, PoisonError};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::problem::Problems;
use super::{Settings, row, schema, tables};
use crate::event::{Event, RunId};
use crate::store::{MessageId, RunFilter, RunRecord, Snapshot, StoreError, StoreMessage};

/// The most connections that are kept while nobody reads.
const IDLE: usize = 8;

/// Connections for reading.
#[derive(Debug)]
pub(super) struct Readers {
    settings: Settings,
    problems: Problems,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(settings: Settings, problems: Problems) -> Self {
        Self { settings, problems, idle: Mutex::default() }
    }

    pub(super) fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Reads with a connection that nobody else has. It is kept for the next when nothing went wrong.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection, &Problems) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::open_reader(&self.settings, &self.problems)?,
        };
        let found = read(&connection, &self.problems)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(found)
    }
}

pub(super) fn events(
    connection: &Connection,
    problems: &Problems,
    run: &RunId,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let sql = |error| problems.sql(error);
    let (key, version) = connection
        .prepare_cached("SELECT key, version FROM runs WHERE run_id = ?1")
        .and_then(|mut select| {
            select.query_row([run.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?))).optional()
        })
        .map_err(sql)?
        .ok_or_else(|| StoreError::not_found(run))?;
    tables::check_version(run, version, problems)?;
    let Ok(after) = u32::try_from(after).map(i64::from) else { return Ok(Vec::new()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection
        .prepare_cached("SELECT id, time, path, body, sum FROM events WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3")
        .map_err(sql)?;
    let mut rows = select.query(params![row::event_id(key, after), row::end_id(key), limit]).map_err(sql)?;
    let mut events = Vec::new();
    for expected in after + 1.. {
        let Some(found) = rows.next().map_err(sql)? else { break };
        events.push(row::event(found, run, expected, problems)?);
    }
    Ok(events)
}

pub(super) fn snapshot(
    connection: &Connection,
    problems: &Problems,
    run: &RunId,
) -> Result<Option<Snapshot>, StoreError> {
    let found = connection
        .prepare_cached(
            "SELECT seq, body, sum, version FROM snapshots JOIN runs ON runs.key = snapshots.run WHERE runs.run_id = ?1",
        )
        .and_then(|mut select| {
            let columns = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?, row.get(3)?))
            };
            select.query_row([run.as_str()], columns).optional()
        })
        .map_err(|error| problems.sql(error))?;
    let Some((seq, body, sum, version)) = found else { return Ok(None) };
    tables::check_version(run, version, problems)?;
    if sum != row::sum(seq, 0, "", &body) {
        return Err(problems.damaged(format_args!("the snapshot of the run `{run}` is not as it was written")));
    }
    row::snapshot(seq, &body, run)
        .map(Some)
        .map_err(|error| problems.newer(format_args!("the snapshot of the run `{run}`")).caused_by(error))
}

pub(super) fn record(
    connection: &Connection,
    problems: &Problems,
    run: &RunId,
) -> Result<Option<RunRecord>, StoreError> {
    let sql = format!("SELECT {} WHERE runs.run_id = ?1", row::RECORD);
    Ok(records(connection, problems, &sql, [Value::Text(run.to_string())])?.pop())
}

pub(super) fn list(
    connection: &Connection,
    problems: &Problems,
    filter: &RunFilter,
) -> Result<Vec<RunRecord>, StoreError> {
    let mut sql = format!("SELECT {} WHERE TRUE", row::RECORD);
    let mut values: Vec<Value> = Vec::new();
    if !filter.status.is_empty() {
        let places = vec!["?"; filter.status.len()].join(", ");
        sql.push_str(&format!(" AND runs.status IN ({places})"));
        values.extend(filter.status.iter().map(|status| Value::Text(status.to_string())));
    }
    if let Some(name) = &filter.name {
        sql.push_str(" AND runs.name = ?");
        values.push(Value::Text(name.to_string()));
    }
    sql.push_str(" ORDER BY runs.created DESC, runs.run_id DESC LIMIT ?");
    values.push(Value::Integer(filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(-1))));
    records(connection, problems, &sql, values)
}

fn records(
    connection: &Connection,
    problems: &Problems,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
) -> Result<Vec<RunRecord>, StoreError> {
    let wrong = |error| problems.sql(error);
    let mut select = connection.prepare_cached(sql).map_err(wrong)?;
    let mut rows = select.query(params_from_iter(values)).map_err(wrong)?;
    let mut records = Vec::new();
    while let Some(found) = rows.next().map_err(wrong)? {
        records.push(row::record(found, problems)?);
    }
    Ok(records)
}

pub(super) fn definition(
    connection: &Connection,
    problems: &Problems,
    hash: &str,
) -> Result<Option<String>, StoreError> {
    connection
        .prepare_cached("SELECT graph FROM definitions WHERE hash = ?1")
        .and_then(|mut select| select.query_row([hash], |row| row.get(0)).optional())
        .map_err(|error| problems.sql(error))
}

/// The messages without an outcome for runs that a process has open.
pub(super) fn inbox(
    connection: &Connection,
    problems: &Problems,
    owner: &str,
) -> Result<Vec<StoreMessage>, StoreError> {
    connection
        .prepare_cached(
            "SELECT messages.id, runs.run_id, messages.body FROM messages JOIN runs ON runs.key = messages.run \
             WHERE messages.outcome IS NULL AND runs.owner = ?1 ORDER BY messages.id",
        )
        .and_then(|mut select| {
            let message = |row: &rusqlite::Row<'_>| {
                let id = MessageId(row.get::<_, i64>(0)?.unsigned_abs());
                Ok(StoreMessage::new(id, RunId::new(row.get::<_, String>(1)?), row.get::<_, String>(2)?))
            };
            select.query_map([owner], message)?.collect()
        })
        .map_err(|error| problems.sql(error))
}

/// The outcome of a message.
pub(super) fn outcome(
    connection: &Connection,
    problems: &Problems,
    message: MessageId,
) -> Result<Option<String>, StoreError> {
    connection
        .prepare_cached("SELECT outcome FROM messages WHERE id = ?1")
        .and_then(|mut select| select.query_row([row::number(message.0)], |row| row.get(0)).optional())
        .map(Option::flatten)
        .map_err(|error| problems.sql(error))
}
