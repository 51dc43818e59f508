//! Messages between processes: the table `messages`.

use agentflow_core::event::RunId;
use agentflow_core::store::{Answered, Epoch, MessageId, StoreError, StoreMessage};
use tokio_postgres::{Error, Row};

use super::database::Session;
use super::event_row::number;
use super::postgres_error::{Failed, PostgresErrors};
use super::run_row::{self, RunRow};
use super::run_writes::WriteContext;
use super::text;

/// Sends a message, and notifies the process that has the run open.
pub(super) async fn send(
    context: WriteContext<'_>,
    run: &RunId,
    body: &str,
) -> Result<MessageId, Failed> {
    let WriteContext { session, errors, channel, write_id, repeated, .. } = context;
    // The lock makes a commit that ends the run wait, so that it removes this message.
    let sql = "SELECT key, status, version, owner FROM runs WHERE run_id = $1 FOR SHARE";
    let Some(row) = session.row(sql, &[&&*text::encode(run.as_str())]).await? else {
        return Err(StoreError::not_found(run).into());
    };
    if repeated && let Some(sent) = sent(session, write_id).await? {
        return Ok(sent);
    }
    let (key, status): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    run_row::check_version(run, row.try_get(2)?, errors)?;
    let status: agentflow_core::store::RunStatus = status.parse().map_err(|_| {
        errors.damaged(format_args!("the run `{run}` has the unknown status `{status}`"))
    })?;
    if status.has_ended() {
        return Err(StoreError::ended(run, status).into());
    }
    // Senders wait for seconds only. A sender that has not read its outcome by now has ended.
    let sql = "DELETE FROM messages WHERE answered < clock_timestamp() - interval '1 hour'";
    session.execute(sql, &[]).await?;
    let sql = "INSERT INTO messages (run, write_id, body) VALUES ($1, $2, $3) RETURNING id";
    let inserted = session.row(sql, &[&key, &write_id, &body.as_bytes()]).await?;
    let id: i64 = inserted.map_or(Ok(0), |row| row.try_get(0))?;
    if let Some(owner) = row.try_get::<_, Option<&str>>(3)? {
        session.row("SELECT pg_notify($1, $2)", &[&channel, &owner]).await?;
    }
    Ok(MessageId(id.unsigned_abs()))
}

/// Returns the message that an earlier attempt has sent.
async fn sent(session: &Session, write_id: &str) -> Result<Option<MessageId>, Failed> {
    let row = session.row("SELECT id FROM messages WHERE write_id = $1", &[&write_id]).await?;
    Ok(row.map(|row| row.try_get(0).map(id)).transpose()?)
}

fn id(id: i64) -> MessageId {
    MessageId(id.unsigned_abs())
}

/// Stores outcomes of messages that wait. A message that was withdrawn has no reader.
pub(super) async fn answer(session: &Session, answered: &[Answered]) -> Result<(), Error> {
    if answered.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = answered.iter().map(|answered| number(answered.message.0)).collect();
    let outcomes: Vec<&[u8]> =
        answered.iter().map(|answered| answered.outcome.as_bytes()).collect();
    let sql = "UPDATE messages SET outcome = answers.outcome, body = '', \
               answered = clock_timestamp() \
               FROM unnest($1::int8[], $2::bytea[]) AS answers (id, outcome) \
               WHERE messages.id = answers.id AND messages.outcome IS NULL";
    session.execute(sql, &[&ids, &outcomes]).await.map(drop)
}

/// Removes the messages of a run that has ended. They get no outcome.
pub(super) async fn delete_unanswered(session: &Session, run: i64) -> Result<(), Error> {
    let sql = "DELETE FROM messages WHERE run = $1 AND outcome IS NULL";
    session.execute(sql, &[&run]).await.map(drop)
}

/// Returns the messages of a run that have no outcome, oldest first.
pub(super) async fn receive(
    session: &Session,
    errors: &PostgresErrors,
    run: &RunId,
    epoch: Epoch,
) -> Result<Vec<StoreMessage>, Failed> {
    // One statement sees the epoch and the messages at the same moment.
    let sql = "SELECT runs.epoch, messages.id, messages.body, runs.version \
               FROM runs LEFT JOIN messages \
               ON messages.run = runs.key AND messages.outcome IS NULL \
               WHERE runs.run_id = $1 ORDER BY messages.id";
    let rows = session.rows(sql, &[&&*text::encode(run.as_str())]).await?;
    let Some(first) = rows.first() else { return Err(StoreError::not_found(run).into()) };
    run_row::check_version(run, first.try_get(3)?, errors)?;
    if first.try_get::<_, i64>(0)?.unsigned_abs() != epoch.0 {
        return Err(StoreError::fenced(run).into());
    }
    let mut messages = Vec::new();
    for row in &rows {
        // A run without messages has one row.
        if let Some(message) = row.try_get::<_, Option<i64>>(1)? {
            let body = body_text(row, 2, errors)?;
            messages.push(StoreMessage::new(id(message), run.clone(), body));
        }
    }
    Ok(messages)
}

/// Returns the messages without an outcome for the runs that a process has open.
pub(super) async fn inbox(
    session: &Session,
    errors: &PostgresErrors,
    owner: &str,
) -> Result<Vec<StoreMessage>, Failed> {
    let sql = "SELECT messages.id, runs.run_id, messages.body \
               FROM messages JOIN runs ON runs.key = messages.run \
               WHERE messages.outcome IS NULL AND runs.owner = $1 ORDER BY messages.id";
    let mut messages = Vec::new();
    for row in session.rows(sql, &[&owner]).await? {
        let run = RunId::new(text::decode(row.try_get(1)?));
        let body = body_text(&row, 2, errors)?;
        messages.push(StoreMessage::new(id(row.try_get(0)?), run, body));
    }
    Ok(messages)
}

/// Returns the outcome of a message, if it has one.
pub(super) async fn outcome(
    session: &Session,
    errors: &PostgresErrors,
    message: MessageId,
) -> Result<Option<String>, Failed> {
    let sql = "SELECT outcome FROM messages WHERE id = $1 AND outcome IS NOT NULL";
    let row = session.row(sql, &[&number(message.0)]).await?;
    row.map(|row| body_text(&row, 0, errors)).transpose()
}

/// Removes a message. Returns its outcome, if it has one.
pub(super) async fn withdraw(
    session: &Session,
    errors: &PostgresErrors,
    message: MessageId,
) -> Result<Option<String>, Failed> {
    let sql = "DELETE FROM messages WHERE id = $1 RETURNING outcome";
    let Some(row) = session.row(sql, &[&number(message.0)]).await? else { return Ok(None) };
    match row.try_get::<_, Option<&[u8]>>(0)? {
        Some(_) => body_text(&row, 0, errors).map(Some),
        None => Ok(None),
    }
}

/// Reads a payload that is text.
fn body_text(row: &Row, column: usize, errors: &PostgresErrors) -> Result<String, Failed> {
    let bytes: Vec<u8> = row.try_get(column)?;
    Ok(String::from_utf8(bytes)
        .map_err(|error| errors.damaged("a message is not UTF-8").caused_by(error))?)
}

/// Returns the owner of a run; `None` if it has no owner or does not exist.
pub(super) async fn owner(
    session: &Session,
    errors: &PostgresErrors,
    run: &RunId,
) -> Result<Option<String>, Failed> {
    Ok(RunRow::find(session, errors, run).await?.and_then(|row| row.owner))
}
