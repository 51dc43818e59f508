//! Sessions: the checks when a run of a session is written, the session records, and the deletion.
//! The queries use the columns of the runs and do not read journals.
//!
//! Transactions that create or continue a run of a session take an advisory lock of the session
//! first, so they are executed one after another.

use std::collections::HashMap;

use agentflow_core::__private::sha256;
use agentflow_core::event::{RunId, SessionPlace};
use agentflow_core::store::{RunRecord, SessionFilter, SessionRecord, StoreError};

use super::composed_query::ComposedQuery;
use super::database::Session;
use super::event_row::number;
use super::postgres_error::{Failed, PostgresErrors};
use super::run_row::{COLUMNS, RunRow};
use super::text;

/// Number of sessions that one query of a list reads.
const PAGE: usize = 500;

/// Waits for other transactions that create or continue a run of a session. The lock ends with the
/// transaction.
pub(super) async fn lock(session: &Session, id: &str) -> Result<(), Failed> {
    // Locks belong to the database, and stores in other schemas may have the same session. A lock
    // that is shared by chance only delays a transaction.
    let hash = sha256(format!("agentflow session {id}").as_bytes());
    let key = i64::from_str_radix(&hash[..15], 16).unwrap_or_default();
    session.row("SELECT pg_advisory_xact_lock($1)", &[&key]).await?;
    Ok(())
}

async fn unfinished(session: &Session, id: &str) -> Result<Option<RunId>, Failed> {
    let sql = "SELECT run_id FROM runs WHERE session = $1 \
               AND status NOT IN ('success', 'failed', 'cancelled') \
               ORDER BY session_number LIMIT 1";
    let row = session.row(sql, &[&&*text::encode(id)]).await?;
    Ok(row.map(|row| row.try_get(0).map(|run| RunId::new(text::decode(run)))).transpose()?)
}

/// Returns an error if a run must not start at this place of its session: another run of the
/// session has not ended, or the place is not the next one.
pub(super) async fn check_next(session: &Session, place: &SessionPlace) -> Result<(), Failed> {
    let id = &*place.session;
    if let Some(unfinished) = unfinished(session, id).await? {
        return Err(StoreError::session_busy(id, &unfinished).into());
    }
    // The caller chose the number from the session's record. Another run may have started since.
    let sql = "SELECT max(session_number) FROM runs WHERE session = $1";
    let row = session.row(sql, &[&&*text::encode(id)]).await?;
    let last: Option<i64> = row.map(|row| row.try_get(0)).transpose()?.flatten();
    match last.map_or(1, |number| number.unsigned_abs() + 1) == place.number {
        true => Ok(()),
        false => Err(StoreError::session_moved(id, place.number).into()),
    }
}

/// Returns an error if a run must not continue after its end, because another run of its session
/// has not ended.
pub(super) async fn check_continues(session: &Session, run: &RunRecord) -> Result<(), Failed> {
    let Some(place) = run.session.as_ref().filter(|_| !run.status.has_ended()) else {
        return Ok(());
    };
    let unfinished = unfinished(session, &place.session).await?;
    match unfinished.filter(|unfinished| *unfinished != run.run_id) {
        Some(unfinished) => Err(StoreError::session_busy(&place.session, &unfinished).into()),
        None => Ok(()),
    }
}

/// Returns the records of sessions, in the given order. Each needs at most four runs: the first,
/// the last, the last successful and the unfinished one.
async fn records(
    session: &Session,
    errors: &PostgresErrors,
    ids: &[String],
) -> Result<Vec<SessionRecord>, Failed> {
    let sql = format!(
        "SELECT {COLUMNS} FROM unnest($1::text[]) AS of (id), LATERAL (\
         (SELECT key FROM runs WHERE session = of.id ORDER BY session_number LIMIT 1) UNION \
         (SELECT key FROM runs WHERE session = of.id ORDER BY session_number DESC LIMIT 1) UNION \
         (SELECT key FROM runs WHERE session = of.id AND status = 'success' \
         ORDER BY session_number DESC LIMIT 1) UNION \
         (SELECT key FROM runs WHERE session = of.id \
         AND status NOT IN ('success', 'failed', 'cancelled'))) AS found \
         JOIN runs ON runs.key = found.key"
    );
    let mut by_id: HashMap<String, Vec<RunRecord>> = HashMap::new();
    for row in session.composed_rows(&sql, &[&ids]).await? {
        let record = RunRow::read(&row, errors)?.into_record()?;
        let Some(place) = &record.session else { continue };
        by_id.entry(text::encode(&place.session).into_owned()).or_default().push(record);
    }
    let runs = ids.iter().filter_map(|id| by_id.remove(id));
    Ok(runs.filter_map(SessionRecord::of).collect())
}

/// Returns the record of a session.
pub(super) async fn find(
    session: &Session,
    errors: &PostgresErrors,
    id: &str,
) -> Result<Option<SessionRecord>, Failed> {
    let ids = [text::encode(id).into_owned()];
    Ok(records(session, errors, &ids).await?.pop())
}

/// Returns the sessions that a filter selects.
pub(super) async fn list(
    session: &Session,
    errors: &PostgresErrors,
    filter: &SessionFilter,
) -> Result<Vec<SessionRecord>, Failed> {
    let limit = filter.get_limit().unwrap_or(usize::MAX);
    let mut after = filter
        .get_after()
        .map(|(created, id)| (number(created.as_millis()), text::encode(id).into_owned()));
    let mut sessions = Vec::new();
    while sessions.len() < limit {
        let mut query = ComposedQuery::new(
            "SELECT runs.created, runs.session FROM runs WHERE session_number = 1",
        );
        if let Some(caller) = filter.get_caller() {
            query.equal_text("runs.caller", caller);
        }
        for (tag, value) in filter.get_tags() {
            query.tag(tag, value);
        }
        if let Some((created, id)) = &after {
            query.before("(runs.created, runs.session)", *created, id);
        }
        query.push(" ORDER BY runs.created DESC, runs.session DESC");
        let page = limit.saturating_sub(sessions.len()).min(PAGE);
        query.limit(page);
        let rows = query.rows(session).await?;
        let mut ids = Vec::with_capacity(rows.len());
        for row in &rows {
            ids.push(row.try_get::<_, String>(1)?);
        }
        if let Some(last) = rows.last() {
            after = Some((last.try_get(0)?, last.try_get(1)?));
        }
        // The time of the last event is only known from the records.
        let found = records(session, errors, &ids).await?;
        sessions.extend(found.into_iter().filter(|session| filter.admits(session)));
        if rows.len() < page {
            break;
        }
    }
    Ok(sessions)
}

/// Removes a session with all of its runs. Returns their number.
pub(super) async fn delete(session: &Session, id: &str) -> Result<u64, Failed> {
    lock(session, id).await?;
    if let Some(unfinished) = unfinished(session, id).await? {
        return Err(StoreError::session_busy(id, &unfinished).into());
    }
    let sql = "DELETE FROM runs WHERE session = $1";
    match session.execute(sql, &[&&*text::encode(id)]).await? {
        0 => Err(StoreError::no_session(id).into()),
        runs => Ok(runs),
    }
}
