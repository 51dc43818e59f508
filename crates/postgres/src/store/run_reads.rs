//! The queries of runs.

use agentflow_core::__private::sha256;
use agentflow_core::event::{Event, RunId};
use agentflow_core::path::StepPath;
use agentflow_core::store::{
    EventFilter, RunFilter, RunList, RunOrder, RunRecord, RunStatus, Snapshot, StoreError,
};
use agentflow_core::time::Timestamp;

use super::composed_query::ComposedQuery;
use super::database::{Param, Session};
use super::event_row::{self, EventRow, number};
use super::postgres_error::{Failed, PostgresErrors};
use super::run_row::{self, COLUMNS, RunRow};
use super::text;

/// Number of runs that one query of a list reads.
const PAGE: usize = 1000;

/// Returns the events of a run after the first `after` events.
pub(super) async fn events(
    session: &Session,
    errors: &PostgresErrors,
    run: &RunId,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, Failed> {
    // One statement: a run without matching events has one row, an unknown run none.
    let sql = "SELECT runs.version, found.seq, found.time, found.path, found.body FROM runs \
               LEFT JOIN LATERAL (SELECT seq, time, path, body FROM events \
               WHERE events.run = runs.key AND seq > $2 ORDER BY seq LIMIT $3) AS found ON TRUE \
               WHERE runs.run_id = $1 ORDER BY found.seq";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params = (text::encode(run.as_str()), number(after));
    let rows = session.rows(sql, &[&&*params.0, &params.1, &limit]).await?;
    let Some(first) = rows.first() else { return Err(StoreError::not_found(run).into()) };
    run_row::check_version(run, first.try_get(0)?, errors)?;
    if first.try_get::<_, Option<i64>>(1)?.is_none() {
        return Ok(Vec::new());
    }
    let mut events = Vec::with_capacity(rows.len());
    // Sequence numbers have no gaps, so a different number means that an event is missing.
    for (expected, row) in (number(after) + 1..).zip(&rows) {
        events.push(EventRow::read(row)?.decode(run, expected, errors)?);
    }
    Ok(events)
}

/// Returns the events that a filter selects. Postgres compares the paths and does not read the other
/// events, so a gap between the events is not noticed.
pub(super) async fn selected_events(
    session: &Session,
    errors: &PostgresErrors,
    (run, filter): (&RunId, &EventFilter),
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, Failed> {
    if filter.is_empty() {
        return events(session, errors, run, after, limit).await;
    }
    let sql = "SELECT key, version FROM runs WHERE run_id = $1";
    let Some(row) = session.row(sql, &[&&*text::encode(run.as_str())]).await? else {
        return Err(StoreError::not_found(run).into());
    };
    let key: i64 = row.try_get(0)?;
    run_row::check_version(run, row.try_get(1)?, errors)?;
    let encode = |path: &StepPath| text::encode(&path.to_string()).into_owned();
    let mut at: Vec<String> = filter.get_at().iter().map(encode).collect();
    // The path of an event is the step itself, below it, or an item of it. Each range ends at the
    // character that follows its first one: `0` follows `/`, and `\` follows `[`.
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for step in filter.get_steps().iter().map(encode) {
        from.extend([format!("{step}/"), format!("{step}[")]);
        to.extend([format!("{step}0"), format!("{step}\\")]);
        at.push(step);
    }
    let sql = "SELECT seq, time, path, body FROM events WHERE run = $1 AND seq > $2 \
               AND (path = ANY ($3::text[]) OR EXISTS (SELECT 1 \
               FROM unnest($4::text[], $5::text[]) AS below (first, last) \
               WHERE path >= below.first AND path < below.last)) ORDER BY seq LIMIT $6";
    let (after, limit) = (number(after), i64::try_from(limit).unwrap_or(i64::MAX));
    let params: [Param<'_>; 6] = [&key, &after, &at, &from, &to, &limit];
    let mut events = Vec::new();
    for row in session.rows(sql, &params).await? {
        let seq: i64 = row.try_get(0)?;
        let event = EventRow::read(&row)?.decode(run, seq, errors)?;
        if filter.admits(&event) {
            events.push(event);
        }
    }
    Ok(events)
}

/// Returns the record of a run.
pub(super) async fn record(
    session: &Session,
    errors: &PostgresErrors,
    run: &RunId,
) -> Result<Option<RunRecord>, Failed> {
    let row = RunRow::find(session, errors, run).await?;
    Ok(row.map(RunRow::into_record).transpose()?)
}

/// Returns the snapshot of a run. A damaged snapshot is treated as missing, because the journal
/// contains the same events.
pub(super) async fn snapshot(
    session: &Session,
    errors: &PostgresErrors,
    run: &RunId,
) -> Result<Option<Snapshot>, Failed> {
    let sql = "SELECT seq, body, version FROM snapshots JOIN runs ON runs.key = snapshots.run \
               WHERE runs.run_id = $1";
    let row = session.row(sql, &[&&*text::encode(run.as_str())]).await?;
    let Some(row) = row else { return Ok(None) };
    run_row::check_version(run, row.try_get(2)?, errors)?;
    match event_row::decode_snapshot(run, row.try_get(0)?, row.try_get(1)?) {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(error) => {
            tracing::warn!(%run, %error, "the snapshot of a run cannot be read; using its journal");
            Ok(None)
        }
    }
}

/// Returns the bytes of an artifact, after comparing them with the hash.
pub(super) async fn artifact(
    session: &Session,
    errors: &PostgresErrors,
    run: &RunId,
    hash: &str,
) -> Result<Option<Vec<u8>>, Failed> {
    let sql = "SELECT bytes FROM artifacts JOIN runs ON runs.key = artifacts.run \
               WHERE runs.run_id = $1 AND sha256 = $2";
    let (run_id, encoded) = (text::encode(run.as_str()), text::encode(hash));
    let Some(row) = session.row(sql, &[&&*run_id, &&*encoded]).await? else { return Ok(None) };
    let bytes: Vec<u8> = row.try_get(0)?;
    match sha256(&bytes) == hash {
        true => Ok(Some(bytes)),
        false => {
            let what = format_args!("an artifact of the run `{run}` is not as it was saved");
            Err(errors.damaged(what).into())
        }
    }
}

/// Returns the description of a workflow.
pub(super) async fn definition(
    session: &Session,
    errors: &PostgresErrors,
    hash: &str,
) -> Result<Option<String>, Failed> {
    let sql = "SELECT graph FROM definitions WHERE hash = $1";
    let Some(row) = session.row(sql, &[&&*text::encode(hash)]).await? else { return Ok(None) };
    let graph = String::from_utf8(row.try_get(0)?).map_err(|error| {
        errors.damaged(format_args!("the definition `{hash}` is not UTF-8")).caused_by(error)
    })?;
    Ok(Some(graph))
}

/// Returns the runs that a filter selects, and those that cannot be read and may belong to the
/// list.
pub(super) async fn list(
    session: &Session,
    errors: &PostgresErrors,
    filter: &RunFilter,
) -> Result<RunList, Failed> {
    let limit = filter.get_limit().unwrap_or(usize::MAX);
    let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
    let mut after = filter.get_after().map(|(time, run)| (time, run.clone()));
    while runs.len() < limit {
        let page = limit.saturating_sub(runs.len()).min(PAGE);
        let query = match filter.get_order() {
            RunOrder::Changed => last_changed(filter, after.as_ref(), page),
            _ => newest(filter, after.as_ref(), page),
        };
        let rows = query.rows(session).await?;
        let is_last = rows.len() < page;
        for row in rows {
            let row = RunRow::read(&row, errors)?;
            let run = row.run_id.clone();
            after = match filter.get_order() {
                RunOrder::Changed => Some((row.changed, run.clone())),
                _ => Some((row.created, run.clone())),
            };
            match row.into_record() {
                Ok(record) if filter.admits(&record) => runs.push(record),
                Ok(_) => {}
                Err(error) => unreadable.push((run, error)),
            }
        }
        // Unreadable runs do not count as runs of the list, so that another page may be needed.
        if is_last {
            break;
        }
    }
    // A run of a newer release may have a status that this release does not know.
    if !filter.get_statuses().is_empty() {
        let mut query = conditions(filter);
        query.push(&unknown_status());
        query.push(" ORDER BY runs.created DESC, runs.run_id DESC");
        query.limit(PAGE);
        for row in query.rows(session).await? {
            let row = RunRow::read(&row, errors)?;
            let run = row.run_id.clone();
            unreadable.extend(row.into_record().err().map(|error| (run, error)));
        }
    }
    Ok(RunList::new(runs, unreadable))
}

/// Returns the runs of a filter that no living process has open, oldest first. Runs that cannot be
/// read are omitted.
pub(super) async fn claimable(
    session: &Session,
    errors: &PostgresErrors,
    filter: &RunFilter,
) -> Result<Vec<RunRecord>, Failed> {
    let mut query = conditions(filter);
    with_statuses(&mut query, filter);
    query.push(
        " AND NOT EXISTS (SELECT 1 FROM owners \
         WHERE owners.id = runs.owner AND owners.expires > clock_timestamp())",
    );
    query.push(" ORDER BY runs.created, runs.run_id");
    query.limit(filter.get_limit().unwrap_or(usize::MAX));
    let mut runs = Vec::new();
    for row in query.rows(session).await? {
        match RunRow::read(&row, errors)?.into_record() {
            Ok(record) => runs.push(record),
            Err(error) => tracing::debug!(%error, "a run cannot be read and is not claimable"),
        }
    }
    Ok(runs)
}

/// Returns the query for one page of a list in the order of creation, after the run at a position.
fn newest(filter: &RunFilter, after: Option<&(Timestamp, RunId)>, page: usize) -> ComposedQuery {
    let mut query = conditions(filter);
    with_statuses(&mut query, filter);
    before(&mut query, "(runs.created, runs.run_id)", after);
    query.push(" ORDER BY runs.created DESC, runs.run_id DESC");
    query.limit(page);
    query
}

/// Returns the query for one page of a list in the order of the last change, after the run at a
/// position.
///
/// Ended runs are read in the order of an index. Unfinished runs have no such index, because it would
/// change with each event. They are few, so all of them are read and sorted.
fn last_changed(
    filter: &RunFilter,
    after: Option<&(Timestamp, RunId)>,
    page: usize,
) -> ComposedQuery {
    let mut query =
        ComposedQuery::new(&format!("SELECT * FROM ((SELECT {COLUMNS} FROM runs WHERE TRUE"));
    with_conditions(&mut query, filter);
    with_statuses(&mut query, filter);
    query.push(" AND runs.ended IS NOT NULL");
    before(&mut query, "(runs.ended, runs.run_id)", after);
    query.push(" ORDER BY runs.ended DESC, runs.run_id DESC");
    query.limit(page);
    query.push(&format!(") UNION ALL (SELECT {COLUMNS} FROM runs WHERE TRUE"));
    with_conditions(&mut query, filter);
    with_statuses(&mut query, filter);
    query.push(" AND runs.ended IS NULL");
    before(&mut query, "(runs.updated, runs.run_id)", after);
    query.push(" ORDER BY runs.updated DESC, runs.run_id DESC");
    query.limit(page);
    query.push(")) AS runs ORDER BY runs.updated DESC, runs.run_id DESC");
    query.limit(page);
    query
}

/// Returns the number of the runs that a filter selects.
pub(super) async fn count(session: &Session, filter: &RunFilter) -> Result<u64, Failed> {
    let mut query = ComposedQuery::new("SELECT count(*) FROM runs WHERE TRUE");
    with_conditions(&mut query, filter);
    with_statuses(&mut query, filter);
    let rows = query.rows(session).await?;
    let count: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
    Ok(count.unsigned_abs())
}

fn with_statuses(query: &mut ComposedQuery, filter: &RunFilter) {
    if !filter.get_statuses().is_empty() {
        let statuses = filter.get_statuses().iter().map(|status| status.as_str());
        query.one_of("runs.status", statuses.collect());
    }
}

fn before(query: &mut ComposedQuery, columns: &str, after: Option<&(Timestamp, RunId)>) {
    if let Some((time, run)) = after {
        query.before(columns, number(time.as_millis()), &text::encode(run.as_str()));
    }
}

/// Returns the condition for runs with a status that this release does not know: ranges between the
/// known words, so that the query uses the index.
fn unknown_status() -> String {
    let mut known: Vec<&str> = RunStatus::ALL.iter().map(|status| status.as_str()).collect();
    known.sort_unstable();
    let between = known
        .windows(2)
        .map(|two| format!("runs.status > '{}' AND runs.status < '{}'", two[0], two[1]));
    let mut ranges: Vec<String> = between.collect();
    ranges.push(format!("runs.status < '{}'", known[0]));
    ranges.push(format!("runs.status > '{}'", known[known.len() - 1]));
    format!(" AND ({})", ranges.join(" OR "))
}

/// Returns the query for the runs of a filter, regardless of their status, without the order.
fn conditions(filter: &RunFilter) -> ComposedQuery {
    let mut query = ComposedQuery::new(&format!("SELECT {COLUMNS} FROM runs WHERE TRUE"));
    with_conditions(&mut query, filter);
    query
}

/// Adds the conditions of a filter, except status and position.
fn with_conditions(query: &mut ComposedQuery, filter: &RunFilter) {
    if let Some(name) = filter.get_name() {
        query.equal_text("runs.name", name);
    }
    if let Some(caller) = filter.get_caller() {
        query.equal_text("runs.caller", caller);
    }
    for (tag, value) in filter.get_tags() {
        query.tag(tag, value);
    }
    if let Some(session) = filter.get_session() {
        query.equal_key("runs.session", session);
    }
    if let Some(since) = filter.get_since() {
        query.compare("runs.created >=", number(since.as_millis()));
    }
    if let Some(until) = filter.get_until() {
        query.compare("runs.created <", number(until.as_millis()));
    }
    if let Some(since) = filter.get_changed_since() {
        query.compare("runs.updated >=", number(since.as_millis()));
    }
}
