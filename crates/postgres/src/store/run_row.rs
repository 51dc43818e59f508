//! Converts run records to rows of the table `runs` and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentflow_core::event::{PauseReason, RunId, RunStarted, SessionPlace};
use agentflow_core::store::{Epoch, RunRecord, RunStatus, StoreError};
use agentflow_core::time::Timestamp;
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use tokio_postgres::{Error, Row};

use super::database::Session;
use super::event_row::number;
use super::postgres_error::{Failed, PostgresErrors};
use super::text;

/// Columns that [`RunRow::read`] reads, of the table `runs`.
pub(super) const COLUMNS: &str = "runs.key, runs.run_id, runs.version, runs.name, \
     runs.definition, runs.status, runs.pause_reason, runs.error, runs.created, runs.updated, \
     runs.events, runs.epoch, runs.owner, runs.caller, runs.tags, runs.session, \
     runs.session_number, runs.session_after, runs.usage, runs.questions, runs.document, \
     runs.write_id";

/// Statement that reads a run.
const SELECT: &str = "SELECT runs.key, runs.run_id, runs.version, runs.name, runs.definition, \
     runs.status, runs.pause_reason, runs.error, runs.created, runs.updated, runs.events, \
     runs.epoch, runs.owner, runs.caller, runs.tags, runs.session, runs.session_number, \
     runs.session_after, runs.usage, runs.questions, runs.document, runs.write_id FROM runs \
     WHERE run_id = $1";

/// Statement that reads a run and locks it until the end of the transaction. Other writers wait.
const LOCK: &str = "SELECT runs.key, runs.run_id, runs.version, runs.name, runs.definition, \
     runs.status, runs.pause_reason, runs.error, runs.created, runs.updated, runs.events, \
     runs.epoch, runs.owner, runs.caller, runs.tags, runs.session, runs.session_number, \
     runs.session_after, runs.usage, runs.questions, runs.document, runs.write_id FROM runs \
     WHERE run_id = $1 FOR NO KEY UPDATE";

/// A row of the table `runs`.
pub(super) struct RunRow {
    pub(super) key: i64,
    pub(super) epoch: i64,
    pub(super) owner: Option<String>,
    pub(super) write_id: String,
    pub(super) run_id: RunId,
    pub(super) created: Timestamp,
    /// Time of the last event, also if the record cannot be read.
    pub(super) changed: Timestamp,
    version: i32,
    session: Option<String>,
    record: Result<RunRecord, StoreError>,
}

impl RunRow {
    /// Reads the row of a run.
    pub(super) async fn find(
        session: &Session,
        errors: &PostgresErrors,
        run: &RunId,
    ) -> Result<Option<Self>, Failed> {
        let row = session.row(SELECT, &[&&*text::encode(run.as_str())]).await?;
        Ok(row.map(|row| Self::read(&row, errors)).transpose()?)
    }

    /// Reads the row of a run and locks it until the end of the transaction.
    pub(super) async fn lock(
        session: &Session,
        errors: &PostgresErrors,
        run: &RunId,
    ) -> Result<Self, Failed> {
        let row = session.row(LOCK, &[&&*text::encode(run.as_str())]).await?;
        match row {
            Some(row) => Ok(Self::read(&row, errors)?),
            None => Err(StoreError::not_found(run).into()),
        }
    }

    /// Reads the columns of [`COLUMNS`].
    pub(super) fn read(row: &Row, errors: &PostgresErrors) -> Result<Self, Error> {
        let text = |column| Ok::<_, Error>(text::decode(row.try_get(column)?));
        let maybe =
            |column| Ok::<_, Error>(row.try_get::<_, Option<&str>>(column)?.map(text::decode));
        let time = |column| {
            let millis: i64 = row.try_get(column)?;
            Ok::<_, Error>(Timestamp::from_millis(millis.unsigned_abs()))
        };
        let number: Option<i64> = row.try_get("session_number")?;
        let events: i64 = row.try_get("events")?;
        let tags: &str = row.try_get("tags")?;
        let usage: Option<&str> = row.try_get("usage")?;
        let questions: Option<&str> = row.try_get("questions")?;
        let (run_id, created) = (RunId::new(text("run_id")?), time("created")?);
        let (status, version): (String, i32) = (text("status")?, row.try_get("version")?);
        let session = maybe("session")?;
        let mut record =
            RunRecord::from_stored(run_id.clone(), text("name")?, RunStatus::Queued, created);
        let changed = time("updated")?;
        record.updated = changed;
        record.events = events.unsigned_abs();
        record.definition = maybe("definition")?.map(Arc::from);
        record.error = maybe("error")?;
        record.caller = maybe("caller")?.map(Arc::from);
        // A damaged usage is treated as missing and is then computed from the journal.
        record.usage = usage.and_then(|usage| serde_json::from_str(usage).ok());
        // So are damaged questions.
        record.questions = questions.and_then(|questions| serde_json::from_str(questions).ok());
        let document: Option<&str> = row.try_get("document")?;
        record.document = document.and_then(|document| serde_json::from_str(document).ok());
        record.session = place(session.clone(), number, maybe("session_after")?);
        record.pause_reason = maybe("pause_reason")?.map(|reason| {
            PauseReason::deserialize(StrDeserializer::<ValueError>::new(&reason))
                .unwrap_or(PauseReason::Other)
        });
        let record = checked(record, &status, version, tags, errors);
        Ok(Self {
            key: row.try_get("key")?,
            epoch: row.try_get("epoch")?,
            owner: maybe("owner")?,
            write_id: row.try_get("write_id")?,
            run_id,
            created,
            changed,
            version,
            session,
            record,
        })
    }

    /// Returns an error if the run was written by a newer release, or if its version is invalid.
    pub(super) fn check_version(&self, errors: &PostgresErrors) -> Result<(), StoreError> {
        check_version(&self.run_id, self.version, errors)
    }

    /// Returns the record of the run.
    ///
    /// # Errors
    /// `damaged` or `newer_version` if it cannot be read.
    pub(super) fn into_record(self) -> Result<RunRecord, StoreError> {
        self.record
    }

    /// Returns a copy of the record.
    pub(super) fn record(&self) -> Result<RunRecord, StoreError> {
        self.record.clone()
    }

    /// Session of the run, also if the record cannot be read.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns an error if a writer with this epoch does not own the run.
    pub(super) fn check_epoch(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        match self.epoch.unsigned_abs() == epoch.0 {
            true => Ok(()),
            false => Err(StoreError::fenced(run)),
        }
    }
}

/// Returns an error if a run was written by a newer release, or if its version is invalid.
pub(super) fn check_version(
    run: &RunId,
    version: i32,
    errors: &PostgresErrors,
) -> Result<(), StoreError> {
    let known = i32::try_from(RunStarted::VERSION).unwrap_or(i32::MAX);
    match version {
        _ if (1..=known).contains(&version) => Ok(()),
        _ if version > known => Err(errors.newer(format_args!("the run `{run}`"))),
        _ => Err(errors.damaged(format_args!("the run `{run}` has the version {version}"))),
    }
}

/// Adds the columns that may contain values of a newer release.
fn checked(
    mut record: RunRecord,
    status: &str,
    version: i32,
    tags: &str,
    errors: &PostgresErrors,
) -> Result<RunRecord, StoreError> {
    let run = &record.run_id;
    check_version(run, version, errors)?;
    record.status = status.parse().map_err(|_| {
        errors.damaged(format_args!("the run `{run}` has the unknown status `{status}`"))
    })?;
    let tags: BTreeMap<String, String> = serde_json::from_str(tags).map_err(|error| {
        errors.damaged(format_args!("the tags of the run `{run}` cannot be read")).caused_by(error)
    })?;
    record.tags = tags;
    Ok(record)
}

/// Returns the place of a run in its session from the columns.
fn place(
    session: Option<String>,
    number: Option<i64>,
    after: Option<String>,
) -> Option<Box<SessionPlace>> {
    let (session, number) = (session?, number?.unsigned_abs());
    Some(Box::new(SessionPlace::new(session, number, after.map(RunId::new))))
}

/// The columns of a record that change while the run is executed, as parameters.
pub(super) struct MutableColumns {
    pub(super) status: &'static str,
    pub(super) pause_reason: Option<String>,
    pub(super) error: Option<String>,
    pub(super) definition: Option<String>,
    pub(super) usage: Option<String>,
    pub(super) questions: Option<String>,
    /// Time of the last event of a run that has ended.
    pub(super) ended: Option<i64>,
}

impl MutableColumns {
    pub(super) fn new(record: &RunRecord) -> Self {
        let encode = |text: &str| text::encode(text).into_owned();
        Self {
            status: record.status.as_str(),
            pause_reason: record.pause_reason.map(|reason| reason.to_string()),
            error: record.error.as_deref().map(encode),
            definition: record.definition.as_deref().map(encode),
            usage: record.usage.as_ref().and_then(|usage| serde_json::to_string(usage).ok()),
            questions: record
                .questions
                .as_ref()
                .and_then(|questions| serde_json::to_string(questions).ok()),
            ended: record.status.has_ended().then(|| number(record.updated.as_millis())),
        }
    }
}
