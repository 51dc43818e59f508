//! The queries of the store, on a read-only connection.

use agentflow_core::event::{Event, RunId};
use agentflow_core::store::{
    EventFilter, MessageId, RunFilter, RunList, RunOrder, RunRecord, RunStatus, Snapshot,
    StoreError, StoreErrorKind, StoreMessage,
};
use agentflow_core::value::Encoded;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::listed_keys::ListedKeys;
use super::run_conditions::RunQuery;
use super::sqlite_error::StoreErrors;
use super::{row, tables};

pub(super) fn events(
    connection: &Connection,
    errors: &StoreErrors,
    run: &RunId,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let sql = |error| errors.sql(error);
    let key = readable_key(connection, errors, run)?;
    let Ok(after) = u32::try_from(after).map(i64::from) else { return Ok(Vec::new()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection
        .prepare_cached("SELECT id, time, path, body, sum FROM events WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3")
        .map_err(sql)?;
    let mut rows =
        select.query(params![row::event_id(key, after), row::end_id(key), limit]).map_err(sql)?;
    let mut events = Vec::new();
    // Sequence numbers have no gaps, so a different number means that an event is missing.
    for expected in after + 1.. {
        let Some(found) = rows.next().map_err(sql)? else { break };
        events.push(row::event(found, run, expected, errors)?);
    }
    Ok(events)
}

/// Returns the events that a filter selects. SQLite compares the paths and does not read the other
/// events, so a gap between the events is not noticed.
pub(super) fn selected_events(
    connection: &Connection,
    errors: &StoreErrors,
    (run, filter): (&RunId, &EventFilter),
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    if filter.is_empty() {
        return events(connection, errors, run, after, limit);
    }
    let sql = |error| errors.sql(error);
    let key = readable_key(connection, errors, run)?;
    let Ok(after) = u32::try_from(after).map(i64::from) else { return Ok(Vec::new()) };
    let mut values =
        vec![Value::Integer(row::event_id(key, after)), Value::Integer(row::end_id(key))];
    let mut conditions: Vec<String> = Vec::new();
    for path in filter.get_at() {
        conditions.push("path = ?".to_owned());
        values.push(Value::Text(path.to_string()));
    }
    for step in filter.get_steps() {
        // The path is the step itself, below it, or an item of it. Each range ends at the character
        // that follows its first one: `0` follows `/`, and `\` follows `[`.
        let step = step.to_string();
        conditions.push("path = ? OR path >= ? AND path < ? OR path >= ? AND path < ?".to_owned());
        let ends = ["", "/", "0", "[", "\\"];
        values.extend(ends.map(|end| Value::Text(format!("{step}{end}"))));
    }
    let select = format!(
        "SELECT id, time, path, body, sum FROM events WHERE id > ? AND id < ? AND ({}) ORDER BY id",
        conditions.join(" OR ")
    );
    let mut select = connection.prepare(&select).map_err(sql)?;
    let mut rows = select.query(params_from_iter(values)).map_err(sql)?;
    let mut events = Vec::new();
    while events.len() < limit
        && let Some(found) = rows.next().map_err(sql)?
    {
        let seq = row::seq_of(found.get(0).map_err(sql)?);
        let event = row::event(found, run, seq, errors)?;
        if filter.admits(&event) {
            events.push(event);
        }
    }
    Ok(events)
}

/// Returns the key of a run whose events this release can read.
fn readable_key(
    connection: &Connection,
    errors: &StoreErrors,
    run: &RunId,
) -> Result<i64, StoreError> {
    let (key, version) = connection
        .prepare_cached("SELECT key, version FROM runs WHERE run_id = ?1")
        .and_then(|mut select| {
            select.query_row([run.as_str()], |row| Ok((row::key(row, 0)?, row.get(1)?))).optional()
        })
        .map_err(|error| errors.sql(error))?
        .ok_or_else(|| StoreError::not_found(run))?;
    tables::check_version(run, version, errors)?;
    Ok(key)
}

/// Reads the snapshot of a run. A damaged snapshot is treated as missing, because the journal
/// contains the same events.
pub(super) fn snapshot(
    connection: &Connection,
    errors: &StoreErrors,
    run: &RunId,
) -> Result<Option<Snapshot>, StoreError> {
    whole_snapshot(connection, errors, run).or_else(|error| match error.kind() {
        StoreErrorKind::Damaged => {
            tracing::warn!(%run, %error, "the snapshot of a run cannot be read; its whole journal is read instead");
            Ok(None)
        }
        _ => Err(error),
    })
}

fn whole_snapshot(
    connection: &Connection,
    errors: &StoreErrors,
    run: &RunId,
) -> Result<Option<Snapshot>, StoreError> {
    let found = connection
        .prepare_cached(
            "SELECT seq, body, sum, version FROM snapshots JOIN runs ON runs.key = snapshots.run WHERE runs.run_id = ?1",
        )
        .and_then(|mut select| {
            let columns = |row: &Row<'_>| {
                Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?, row.get(3)?))
            };
            select.query_row([run.as_str()], columns).optional()
        })
        .map_err(|error| errors.sql(error))?;
    let Some((seq, body, sum, version)) = found else { return Ok(None) };
    tables::check_version(run, version, errors)?;
    if sum != row::sum(seq, 0, "", &body) {
        return Err(errors
            .damaged(format_args!("the snapshot of the run `{run}` is not as it was written")));
    }
    row::snapshot(seq, &body, run).map(Some).map_err(|error| {
        errors.newer(format_args!("the snapshot of the run `{run}`")).caused_by(error)
    })
}

/// Returns the values of an owner: the value of one key, or all values.
pub(super) fn state(
    connection: &Connection,
    errors: &StoreErrors,
    owner: &str,
    key: Option<&str>,
) -> Result<Vec<(String, Encoded)>, StoreError> {
    let sql = |error| errors.sql(error);
    let mut select = connection
        .prepare_cached("SELECT key, value FROM state WHERE owner = ?1 AND (?2 IS NULL OR key = ?2) ORDER BY key")
        .map_err(sql)?;
    let mut rows = select.query(params![owner, key]).map_err(sql)?;
    let mut values = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        let (key, value): (String, String) = (row.get(0).map_err(sql)?, row.get(1).map_err(sql)?);
        let value = Encoded::from_json(value).map_err(|error| {
            errors.damaged(format_args!("the value of `{key}` is not JSON")).caused_by(error)
        })?;
        values.push((key, value));
    }
    Ok(values)
}

pub(super) fn record(
    connection: &Connection,
    errors: &StoreErrors,
    run: &RunId,
) -> Result<Option<RunRecord>, StoreError> {
    let sql = format!("SELECT {} WHERE runs.run_id = ?1", row::RECORD);
    Ok(records(connection, errors, &sql, [Value::Text(run.to_string())])?.pop())
}

pub(super) fn list(
    connection: &Connection,
    errors: &StoreErrors,
    filter: &RunFilter,
) -> Result<RunList, StoreError> {
    // The fast path reads all records at once. It fails only if a record is damaged or from a newer
    // release.
    let found =
        has_unknown_status(connection).map_err(|error| errors.sql(error)).and_then(
            |any| match any {
                true => Ok(None),
                false => listed(connection, errors, filter).map(Some),
            },
        );
    match found {
        Ok(Some(runs)) => Ok(RunList::new(runs, Vec::new())),
        Err(error)
            if !matches!(error.kind(), StoreErrorKind::Damaged | StoreErrorKind::NewerVersion) =>
        {
            Err(error)
        }
        Ok(None) | Err(_) => list_one_by_one(connection, errors, filter),
    }
}

/// Reads the runs that a filter selects, in one transaction.
fn listed(
    connection: &Connection,
    errors: &StoreErrors,
    filter: &RunFilter,
) -> Result<Vec<RunRecord>, StoreError> {
    let sql = |error| errors.sql(error);
    let moment = connection.unchecked_transaction().map_err(sql)?;
    let ListedKeys { sql: select, values } = ListedKeys::new(filter);
    let mut select = moment.prepare_cached(&select).map_err(sql)?;
    let mut keys = select.query(params_from_iter(values)).map_err(sql)?;
    let mut one = moment
        .prepare_cached(&format!("SELECT {} WHERE runs.key = ?1", row::RECORD))
        .map_err(sql)?;
    let mut runs = Vec::new();
    while let Some(found) = keys.next().map_err(sql)? {
        let key: i64 = found.get(0).map_err(sql)?;
        let record =
            one.query_row([key], |row| Ok(row::record(row, errors))).optional().map_err(sql)?;
        runs.push(
            record
                .unwrap_or_else(|| Err(errors.damaged("an index names a run that is not there")))?,
        );
    }
    Ok(runs)
}

/// Returns true if a run has a status that this release does not know. A list that selects by
/// status would miss such a run.
fn has_unknown_status(connection: &Connection) -> rusqlite::Result<bool> {
    let mut known: Vec<&str> = RunStatus::ALL.iter().map(|status| status.as_str()).collect();
    known.sort_unstable();
    // Ranges between two known statuses, so that the query uses the index.
    let between: Vec<_> = known
        .windows(2)
        .map(|two| format!("status > '{}' AND status < '{}'", two[0], two[1]))
        .collect();
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE status < '{}' OR status > '{}' OR {})",
        known[0],
        known[known.len() - 1],
        between.join(" OR ")
    );
    connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}

/// Returns the same list, but reads each run separately, so that an unreadable run does not hide
/// the others. Unreadable runs are reported with their errors.
fn list_one_by_one(
    connection: &Connection,
    errors: &StoreErrors,
    filter: &RunFilter,
) -> Result<RunList, StoreError> {
    let sql = |error| errors.sql(error);
    // The keys come from the index alone, because the rows may be unreadable.
    let mut keys = connection
        .prepare_cached("SELECT key, run_id FROM runs INDEXED BY runs_by_age ORDER BY created DESC, run_id DESC")
        .map_err(sql)?;
    let mut keys = keys.query([]).map_err(sql)?;
    let one = format!("SELECT {} WHERE runs.key = ?1", row::RECORD);
    let mut one = connection.prepare_cached(&one).map_err(sql)?;
    let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
    // In another order, all runs are read before the first ones are known.
    let limit = match filter.get_order() {
        RunOrder::Created => filter.get_limit().unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    while runs.len() < limit
        && let Some(found) = keys.next().map_err(sql)?
    {
        let key: i64 = found.get(0).map_err(sql)?;
        let read = |row: &Row<'_>| Ok(row::record(row, errors));
        match one.query_row([key], read).map_err(sql).and_then(|record| record) {
            Ok(record) if filter.admits(&record) => runs.push(record),
            Ok(_) => {}
            // An unreadable run is not reported if its status proves that the filter excludes it.
            Err(_) if has_other_status(connection, key, filter) => {}
            Err(error) => {
                let run = found.get_ref(1).map_err(sql)?;
                let run = String::from_utf8_lossy(run.as_bytes().unwrap_or_default());
                unreadable.push((RunId::new(&*run), error));
            }
        }
    }
    Ok(RunList::new(filter.select(runs), unreadable))
}

/// Returns the number of the runs that a filter selects.
pub(super) fn count(
    connection: &Connection,
    errors: &StoreErrors,
    filter: &RunFilter,
) -> Result<u64, StoreError> {
    let RunQuery { sql, values } = RunQuery::count(filter);
    connection
        .prepare_cached(&sql)
        .and_then(|mut select| {
            select.query_row(params_from_iter(values), |row| row.get::<_, i64>(0))
        })
        .map(i64::unsigned_abs)
        .map_err(|error| errors.sql(error))
}

/// Returns true if the status of an unreadable run can be read and the filter does not
/// select it.
fn has_other_status(connection: &Connection, key: i64, filter: &RunFilter) -> bool {
    let status: rusqlite::Result<String> = connection
        .prepare_cached("SELECT status FROM runs WHERE key = ?1")
        .and_then(|mut select| select.query_row([key], |row| row.get(0)));
    let status = status.ok().and_then(|status| status.parse().ok());
    let wanted = filter.get_statuses();
    status.is_some_and(|status| !wanted.is_empty() && !wanted.contains(&status))
}

pub(super) fn records(
    connection: &Connection,
    errors: &StoreErrors,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
) -> Result<Vec<RunRecord>, StoreError> {
    let wrong = |error| errors.sql(error);
    let mut select = connection.prepare_cached(sql).map_err(wrong)?;
    let mut rows = select.query(params_from_iter(values)).map_err(wrong)?;
    let mut records = Vec::new();
    while let Some(found) = rows.next().map_err(wrong)? {
        records.push(row::record(found, errors)?);
    }
    Ok(records)
}

pub(super) fn definition(
    connection: &Connection,
    errors: &StoreErrors,
    hash: &str,
) -> Result<Option<String>, StoreError> {
    connection
        .prepare_cached("SELECT graph FROM definitions WHERE hash = ?1")
        .and_then(|mut select| select.query_row([hash], |row| row.get(0)).optional())
        .map_err(|error| errors.sql(error))
}

/// Returns the messages without an outcome for the runs that a process has open.
pub(super) fn inbox(
    connection: &Connection,
    errors: &StoreErrors,
    owner: &str,
) -> Result<Vec<StoreMessage>, StoreError> {
    connection
        .prepare_cached(
            "SELECT messages.id, runs.run_id, messages.body FROM messages JOIN runs ON runs.key = messages.run \
             WHERE messages.outcome IS NULL AND runs.owner = ?1 ORDER BY messages.id",
        )
        .and_then(|mut select| {
            let message = |row: &Row<'_>| {
                let id = MessageId(row.get::<_, i64>(0)?.unsigned_abs());
                Ok(StoreMessage::new(id, RunId::new(row.get::<_, String>(1)?), row.get::<_, String>(2)?))
            };
            select.query_map([owner], message)?.collect()
        })
        .map_err(|error| errors.sql(error))
}

/// Returns the outcome of a message, if it has one.
pub(super) fn outcome(
    connection: &Connection,
    errors: &StoreErrors,
    message: MessageId,
) -> Result<Option<String>, StoreError> {
    connection
        .prepare_cached("SELECT outcome FROM messages WHERE id = ?1")
        .and_then(|mut select| {
            select.query_row([row::number(message.0)], |row| row.get(0)).optional()
        })
        .map(Option::flatten)
        .map_err(|error| errors.sql(error))
}
