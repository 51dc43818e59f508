//! The writes of runs. Each function is executed within a transaction (`database.rs`), which it
//! neither begins nor ends. With `repeated`, an earlier attempt of the same write may have been
//! committed.

use agentflow_core::event::{Event, RunId, RunStarted};
use agentflow_core::store::{Append, Epoch, RunRecord, RunStatus, StoreError, StoreErrorKind};
use futures_util::future::try_join4;
use tokio_postgres::Error;

use super::database::{Param, Session};
use super::event_row::{EventRow, number};
use super::notices::RUNS;
use super::postgres_error::{Failed, PostgresErrors};
use super::quick_append::KnownRun;
use super::run_row::{MutableColumns, RunRow};
use super::state_rows::StateRows;
use super::{lease, message_rows, session_rows, text};

/// Size of the events that one statement inserts. Postgres limits a message to 1 GB.
pub(super) const BATCH: usize = 32 << 20;

/// Context of a write: its mark, the process that writes, and the errors of the store.
#[derive(Clone, Copy)]
pub(super) struct WriteContext<'a> {
    pub(super) session: &'a Session,
    pub(super) errors: &'a PostgresErrors,
    /// This process, as in the table `owners`.
    pub(super) owner: &'a str,
    /// The channel for notifications of the schema.
    pub(super) channel: &'a str,
    pub(super) write_id: &'a str,
    pub(super) repeated: bool,
}

/// Version of the events that this release writes.
pub(super) fn event_version() -> i32 {
    i32::try_from(RunStarted::VERSION).unwrap_or(i32::MAX)
}

/// Creates a run with its first events.
pub(super) async fn create(
    context: WriteContext<'_>,
    record: &RunRecord,
    rows: &[EventRow],
) -> Result<Epoch, Failed> {
    let (session, run) = (context.session, &record.run_id);
    let run_id = text::encode(run.as_str());
    if let Some(place) = &record.session {
        session_rows::lock(session, &place.session).await?;
    }
    let sql = "SELECT write_id FROM runs WHERE run_id = $1";
    if let Some(row) = session.row(sql, &[&&*run_id]).await? {
        return existing(context, run, row.try_get(0)?);
    }
    if let Some(place) = &record.session {
        session_rows::check_next(session, place).await?;
    }
    let place = record.session.as_deref();
    let columns = MutableColumns::new(record);
    let tags = serde_json::to_string(&record.tags).unwrap_or_default();
    let document =
        record.document.as_ref().and_then(|document| serde_json::to_string(document).ok());
    let sql = "INSERT INTO runs (run_id, version, name, definition, status, pause_reason, error, \
               created, updated, events, epoch, owner, caller, tags, session, session_number, \
               session_after, usage, document, write_id, questions, ended) VALUES ($1, $2, $3, $4, \
               $5, $6, $7, $8, $9, $10, 1, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) \
               ON CONFLICT (run_id) DO NOTHING RETURNING key";
    let inserted = session
        .row(
            sql,
            &[
                &&*run_id,
                &event_version(),
                &&*text::encode(&record.name),
                &columns.definition,
                &columns.status,
                &columns.pause_reason,
                &columns.error,
                &number(record.created.as_millis()),
                &number(record.updated.as_millis()),
                &number(record.events),
                &context.owner,
                &record.caller.as_deref().map(text::encode).as_deref(),
                &tags,
                &place.map(|place| text::encode(&place.session)).as_deref(),
                &place.map(|place| number(place.number)),
                &place
                    .and_then(|place| place.after.as_ref())
                    .map(|run| text::encode(run.as_str()))
                    .as_deref(),
                &columns.usage,
                &document,
                &context.write_id,
                &columns.questions,
                &columns.ended,
            ],
        )
        .await?;
    let Some(inserted) = inserted else {
        // Another transaction has created the run since the look above, and is committed now.
        let sql = "SELECT write_id FROM runs WHERE run_id = $1";
        let row = session.row(sql, &[&&*run_id]).await?;
        let write_id = row.map(|row| row.try_get(0)).transpose()?;
        return existing(context, run, write_id.unwrap_or_default());
    };
    let key: i64 = inserted.try_get(0)?;
    if !record.tags.is_empty() {
        let encode = |text: &String| text::encode(text).into_owned();
        let tags: Vec<String> = record.tags.keys().map(encode).collect();
        let values: Vec<String> = record.tags.values().map(encode).collect();
        let sql = "INSERT INTO tags (run, tag, value, created) \
                   SELECT $1, tag, value, $4 FROM unnest($2::text[], $3::text[]) AS t (tag, value)";
        let created = number(record.created.as_millis());
        session.execute(sql, &[&key, &tags, &values, &created]).await?;
    }
    insert_events(session, key, rows).await?;
    Ok(Epoch(1))
}

/// Returns the result of creating a run that exists: an earlier attempt of this write may have
/// created it.
fn existing(context: WriteContext<'_>, run: &RunId, write_id: String) -> Result<Epoch, Failed> {
    match context.repeated && write_id == context.write_id {
        true => Ok(Epoch(1)),
        false => Err(StoreError::exists(run).into()),
    }
}

async fn insert_events(session: &Session, key: i64, rows: &[EventRow]) -> Result<(), Error> {
    let sql = "INSERT INTO events (run, seq, time, path, body) SELECT $1, * \
               FROM unnest($2::int8[], $3::int8[], $4::text[], $5::bytea[])";
    let mut rest = rows;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |row: &&EventRow| {
            bytes += row.body.len() + row.path.len();
            bytes <= BATCH
        };
        // An event that is larger than a batch is inserted alone.
        let count = rest.iter().take_while(fits).count().max(1);
        let (batch, after) = rest.split_at(count);
        rest = after;
        let seqs: Vec<i64> = batch.iter().map(|row| row.seq).collect();
        let times: Vec<i64> = batch.iter().map(|row| row.time).collect();
        let paths: Vec<&str> = batch.iter().map(|row| &*row.path).collect();
        let bodies: Vec<&[u8]> = batch.iter().map(|row| &*row.body).collect();
        session.execute(sql, &[&key, &seqs, &times, &paths, &bodies]).await?;
    }
    Ok(())
}

/// Opens a run that no other living process has open.
pub(super) async fn open(context: WriteContext<'_>, run: &RunId) -> Result<Epoch, Failed> {
    let WriteContext { session, errors, owner, write_id, repeated, .. } = context;
    let row = RunRow::lock(session, errors, run).await?;
    if repeated && row.write_id == write_id {
        return Ok(Epoch(row.epoch.unsigned_abs()));
    }
    row.check_version(errors)?;
    let record = row.record()?;
    check_not_held(context, run, &row).await?;
    if record.status.has_ended() {
        return Err(StoreError::ended(run, record.status).into());
    }
    // The new epoch fences off the previous writer.
    let sql = "UPDATE runs SET epoch = epoch + 1, owner = $2, version = greatest(version, $3), \
               write_id = $4 WHERE key = $1";
    session.execute(sql, &[&row.key, &owner, &event_version(), &write_id]).await?;
    Ok(Epoch((row.epoch + 1).unsigned_abs()))
}

/// Returns an error if another living process has a run open.
async fn check_not_held(
    context: WriteContext<'_>,
    run: &RunId,
    row: &RunRow,
) -> Result<(), Failed> {
    let Some(holder) = row.owner.as_deref().filter(|holder| *holder != context.owner) else {
        return Ok(());
    };
    match lease::alive(context.session, holder).await? {
        Some(process) => Err(StoreError::busy(run, &process).into()),
        None => Ok(()),
    }
}

/// Appends events, with all other parts of the commit. Returns the run afterwards; `None` if an
/// earlier attempt has written it.
pub(super) async fn append(
    context: WriteContext<'_>,
    run: &RunId,
    epoch: Epoch,
    append: &Append,
    rows: &[EventRow],
    state: &StateRows,
) -> Result<Option<KnownRun>, Failed> {
    let WriteContext { session, errors, .. } = context;
    let row = RunRow::lock(session, errors, run).await?;
    if is_done(context, &row, rows).await? {
        return Ok(None);
    }
    row.check_version(errors)?;
    row.check_epoch(run, epoch)?;
    let mut record = row.record()?;
    if record.events != append.after {
        return Err(StoreError::fenced(run).into());
    }
    let had_ended = record.status.has_ended();
    append.events.iter().for_each(|event| record.apply(event));
    let has_ended = record.status.has_ended();
    // A run that has ended has no owner, so the next process need not check if this one is alive.
    let owner = (!has_ended).then_some(context.owner);
    let answered = async {
        message_rows::answer(session, &append.answered).await?;
        match has_ended && !had_ended {
            true => message_rows::delete_unanswered(session, row.key).await,
            false => Ok(()),
        }
    };
    // The statements are sent together and executed in this order.
    try_join4(
        insert_events(session, row.key, rows),
        update(context, row.key, &record, owner, 0),
        answered,
        state.write(session),
    )
    .await?;
    Ok(Some(KnownRun { key: row.key, epoch, record }))
}

/// Returns `true` if an earlier attempt of this write has been committed.
async fn is_done(
    context: WriteContext<'_>,
    row: &RunRow,
    rows: &[EventRow],
) -> Result<bool, Failed> {
    if !context.repeated {
        return Ok(false);
    }
    if row.write_id == context.write_id {
        return Ok(true);
    }
    // Another writer may have opened the run after the commit. The events show if they are there.
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(false) };
    let sql = "SELECT seq, time, path, body FROM events WHERE run = $1 AND seq BETWEEN $2 AND $3 \
               ORDER BY seq";
    let found = context.session.rows(sql, &[&row.key, &first.seq, &last.seq]).await?;
    let found: Vec<EventRow> = found.iter().map(EventRow::read).collect::<Result<_, _>>()?;
    Ok(found == rows)
}

/// Writes the columns that are derived from events, and the owner. `fence` is added to the epoch.
async fn update(
    context: WriteContext<'_>,
    key: i64,
    record: &RunRecord,
    owner: Option<&str>,
    fence: i64,
) -> Result<(), Error> {
    let columns = MutableColumns::new(record);
    let sql = "UPDATE runs SET status = $2, pause_reason = $3, error = $4, definition = $5, \
               usage = $6, updated = $7, events = $8, owner = $9, epoch = epoch + $10, \
               version = greatest(version, $11), write_id = $12, questions = $13, ended = $14 \
               WHERE key = $1";
    context
        .session
        .execute(
            sql,
            &[
                &key,
                &columns.status,
                &columns.pause_reason,
                &columns.error,
                &columns.definition,
                &columns.usage,
                &number(record.updated.as_millis()),
                &number(record.events),
                &owner,
                &fence,
                &event_version(),
                &context.write_id,
                &columns.questions,
                &columns.ended,
            ],
        )
        .await
        .map(drop)
}

/// Appends events to a run that no process executes.
pub(super) async fn amend(
    context: WriteContext<'_>,
    run: &RunId,
    after: u64,
    events: &[Event],
    rows: &[EventRow],
) -> Result<(), Failed> {
    let WriteContext { session, errors, .. } = context;
    // The lock of the session comes before the lock of the run, as when a run is created.
    if let Some(row) = RunRow::find(session, errors, run).await?
        && let Some(of) = row.session()
    {
        session_rows::lock(session, of).await?;
    }
    let row = RunRow::lock(session, errors, run).await?;
    if is_done(context, &row, rows).await? {
        return Ok(());
    }
    row.check_version(errors)?;
    check_not_held(context, run, &row).await?;
    let mut record = row.record()?;
    // The caller built the events on an outdated journal.
    if record.events != after {
        return Err(StoreError::fenced(run).into());
    }
    events.iter().for_each(|event| record.apply(event));
    session_rows::check_continues(session, &record).await?;
    insert_events(session, row.key, rows).await?;
    // The run is not executed, so it has no owner afterwards.
    update(context, row.key, &record, None, 1).await?;
    if !record.status.has_ended() {
        session.row("SELECT pg_notify($1, $2)", &[&context.channel, &RUNS]).await?;
    }
    Ok(())
}

/// Releases the right to write, and notifies the workers if the run is not at its end. Does nothing
/// if the epoch is outdated.
pub(super) async fn close(
    context: WriteContext<'_>,
    run: &RunId,
    epoch: Epoch,
) -> Result<(), Failed> {
    let sql = "WITH closed AS (UPDATE runs SET owner = NULL \
               WHERE run_id = $1 AND epoch = $2 AND owner = $3 RETURNING status) \
               SELECT pg_notify($4, $5) FROM closed WHERE status <> ALL ($6)";
    let (run, epoch) = (text::encode(run.as_str()), number(epoch.0));
    let ended = RunStatus::ALL.iter().filter(|status| status.has_ended());
    let ended: Vec<&str> = ended.map(|status| status.as_str()).collect();
    let params: [Param<'_>; 6] = [&&*run, &epoch, &context.owner, &context.channel, &RUNS, &ended];
    context.session.row(sql, &params).await?;
    Ok(())
}

/// Removes a run that has ended. The tables remove its other rows.
pub(super) async fn delete(context: WriteContext<'_>, run: &RunId) -> Result<(), Failed> {
    let WriteContext { session, errors, repeated, .. } = context;
    let row = match RunRow::lock(session, errors, run).await {
        // An earlier attempt has removed it.
        Err(Failed::Refused(_)) if repeated => return Ok(()),
        row => row?,
    };
    check_not_held(context, run, &row).await?;
    match row.record() {
        Ok(record) if !record.status.has_ended() => {
            return Err(StoreError::unfinished(run, record.status).into());
        }
        Err(error) if error.kind() == StoreErrorKind::NewerVersion => return Err(error.into()),
        // A damaged run may be removed, because it can be neither read nor ended.
        _ => {}
    }
    if let Some(of) = row.session() {
        return Err(StoreError::in_session(run, of).into());
    }
    session.execute("DELETE FROM runs WHERE key = $1", &[&row.key]).await?;
    Ok(())
}

/// Returns the key of a run that may be written with this epoch. The epoch cannot change before the
/// end of the transaction.
pub(super) async fn writable_key(
    session: &Session,
    run: &RunId,
    epoch: Epoch,
) -> Result<i64, Failed> {
    let sql = "SELECT key, epoch FROM runs WHERE run_id = $1 FOR SHARE";
    let Some(row) = session.row(sql, &[&&*text::encode(run.as_str())]).await? else {
        return Err(StoreError::not_found(run).into());
    };
    let (key, found): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    match found.unsigned_abs() == epoch.0 {
        true => Ok(key),
        false => Err(StoreError::fenced(run).into()),
    }
}

/// Stores a snapshot in place of the previous one.
pub(super) async fn put_snapshot(
    session: &Session,
    run: &RunId,
    epoch: Epoch,
    seq: i64,
    body: &[u8],
) -> Result<(), Failed> {
    let key = writable_key(session, run, epoch).await?;
    let sql = "INSERT INTO snapshots (run, seq, body) VALUES ($1, $2, $3) \
               ON CONFLICT (run) DO UPDATE SET seq = EXCLUDED.seq, body = EXCLUDED.body";
    session.execute(sql, &[&key, &seq, &body]).await?;
    Ok(())
}

/// Stores the bytes of an artifact under their hash.
pub(super) async fn put_artifact(
    session: &Session,
    run: &RunId,
    epoch: Epoch,
    hash: &str,
    bytes: &[u8],
) -> Result<(), Failed> {
    let key = writable_key(session, run, epoch).await?;
    let sql = "INSERT INTO artifacts (run, sha256, bytes) VALUES ($1, $2, $3) \
               ON CONFLICT DO NOTHING";
    session.execute(sql, &[&key, &&*text::encode(hash), &bytes]).await?;
    Ok(())
}

/// Stores the description of a workflow, unless it exists.
pub(super) async fn put_definition(
    session: &Session,
    hash: &str,
    graph: &str,
) -> Result<(), Failed> {
    let sql = "INSERT INTO definitions (hash, graph) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    session.execute(sql, &[&&*text::encode(hash), &graph.as_bytes()]).await?;
    Ok(())
}
