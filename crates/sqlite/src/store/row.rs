//! Converts events and run records to table rows and back. It contains no SQL except column lists.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;

use agentflow_core::event::{Event, PauseReason, RunId, RunStarted};
use agentflow_core::model::Usage;
use agentflow_core::path::StepPath;
use agentflow_core::store::{
    RecordedQuestions, RunRecord, RunStatus, Snapshot, StoreError, StoreErrorKind,
};
use agentflow_core::time::Timestamp;
use rusqlite::Row;
use serde::de::Error as _;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::session_rows;
use super::sqlite_error::StoreErrors;

/// Maximum number of events of one run: the sequence number has 32 bits in a row id.
const MOST: u64 = u32::MAX as u64;

/// An encoded event, ready to be written.
pub(super) struct EventRow {
    pub(super) seq: i64,
    pub(super) time: i64,
    pub(super) path: String,
    pub(super) body: String,
    pub(super) sum: i64,
}

impl EventRow {
    /// Encodes the events that follow the event number `after`. Each may have at most `limit`
    /// bytes.
    pub(super) fn encode_all(
        run: &RunId,
        after: u64,
        events: &[Event],
        limit: u64,
    ) -> Result<Vec<Self>, StoreError> {
        let wrong = |text: String| StoreError::new(StoreErrorKind::Io, text);
        if after > MOST {
            // A journal cannot have this many events, so the caller's position is wrong.
            return Err(StoreError::fenced(run));
        }
        if after + events.len() as u64 > MOST {
            return Err(wrong(format!(
                "the run `{run}` has {after} events, and {MOST} are the most that a store keeps"
            )));
        }
        // Events that are only shown live, such as model deltas, must not be recorded.
        let row = |(seq, event): (u64, &Event)| {
            if event.seq != seq || !event.is_recorded() {
                let text = format!(
                    "event {} of the run `{run}` cannot be written as its event {seq}",
                    event.id()
                );
                return Err(wrong(text));
            }
            let body = serde_json::to_string(&event.kind).map_err(|error| {
                wrong(format!("event {} has no JSON form", event.id())).caused_by(error)
            })?;
            let bytes = body.len() as u64;
            if bytes > limit {
                return Err(StoreError::too_large(run, &event.path, bytes, limit));
            }
            let (time, path) = (number(event.time.as_millis()), event.path.to_string());
            let seq = number(seq);
            let sum = sum(seq, time, &path, &body);
            Ok(Self { seq, time, path, body, sum })
        };
        (after + 1..).zip(events).map(row).collect()
    }
}

/// The highest key of a run: it has 31 bits in a row id.
pub(super) const LAST_KEY: i64 = i32::MAX as i64;

/// Reads the key of a run.
pub(super) fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<i64> {
    within(row, column, 1..=LAST_KEY)
}

/// Reads the epoch of a run. It must be less than `i64::MAX`, so that the next epoch exists.
pub(super) fn epoch(row: &Row<'_>, column: usize) -> rusqlite::Result<i64> {
    within(row, column, 0..=i64::MAX - 1)
}

fn within(row: &Row<'_>, column: usize, range: RangeInclusive<i64>) -> rusqlite::Result<i64> {
    let number = row.get(column)?;
    match range.contains(&number) {
        true => Ok(number),
        false => Err(rusqlite::Error::IntegralValueOutOfRange(column, number)),
    }
}

/// Returns the row id of an event. With `seq` 0, it is just before the first event of the run.
pub(super) fn event_id(key: i64, seq: i64) -> i64 {
    key << 32 | seq
}

/// Returns the first row id after the events of a run.
pub(super) fn end_id(key: i64) -> i64 {
    (key + 1) << 32
}

/// Returns the sequence number that a row id contains.
pub(super) fn seq_of(id: i64) -> i64 {
    id & 0xffff_ffff
}

pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Computes the checksum of a row. SQLite does not check that the bytes of a row are the bytes that
/// were written.
///
/// The function is part of the file format and must not change.
pub(super) fn sum(seq: i64, time: i64, path: &str, body: &str) -> i64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let text = |sum: u64, text: &str| {
        let chunks = text.as_bytes().chunks_exact(8);
        let mut rest = [0; 8];
        rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        let words = chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        mix(mix(words.fold(sum, mix), u64::from_le_bytes(rest)), text.len() as u64)
    };
    let sum = mix(mix(0, seq.cast_unsigned()), time.cast_unsigned());
    text(text(sum, path), body).cast_signed()
}

/// Reads the columns `id, time, path, body, sum`, and checks that the event has the sequence number
/// `expected`.
pub(super) fn event(
    row: &Row<'_>,
    run: &RunId,
    expected: i64,
    errors: &StoreErrors,
) -> Result<Event, StoreError> {
    let sql = |error| errors.sql(error);
    let damaged = |what: &str| {
        errors.damaged(format_args!(
            "event {expected} of the run `{run}` {what}, and the {} before it can be read",
            expected - 1
        ))
    };
    let text = |column| {
        let value = row.get_ref(column).map_err(sql)?;
        value.as_str().map_err(|error| damaged("is not a text").caused_by(error))
    };
    let (id, time): (i64, i64) = (row.get(0).map_err(sql)?, row.get(1).map_err(sql)?);
    let (path, body) = (text(2)?, text(3)?);
    if seq_of(id) != expected {
        return Err(damaged("is missing"));
    }
    if sum(expected, time, path, body) != row.get::<_, i64>(4).map_err(sql)? {
        return Err(damaged("is not as it was written"));
    }
    // The checksum matches, so the bytes are as written. If this release cannot read them, another
    // release wrote them.
    let newer = || errors.newer(format_args!("event {expected} of the run `{run}`"));
    let path: StepPath = path.parse().map_err(|error| newer().caused_by(error))?;
    let time = Timestamp::from_millis(time.unsigned_abs());
    Event::from_stored(run.clone(), expected.unsigned_abs(), time, path, body).map_err(|error| {
        match is_event(body) {
            true => newer().caused_by(error),
            false => damaged("is not an event").caused_by(error),
        }
    })
}

/// Returns true if a string has the form that the events of all releases have.
fn is_event(body: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "name")]
        _name: String,
    }
    serde_json::from_str::<Named>(body).is_ok()
}

/// An event in the body of a snapshot. `K` is the event, or its raw JSON when the snapshot is read.
#[derive(Serialize, Deserialize)]
struct SnapshotEvent<P, K> {
    seq: u64,
    time: Timestamp,
    path: P,
    event: K,
}

/// Encodes a snapshot as JSON of at most `limit` bytes.
pub(super) fn snapshot_body(
    run: &RunId,
    snapshot: &Snapshot,
    limit: u64,
) -> Result<String, StoreError> {
    let kept: Vec<_> = snapshot
        .events
        .iter()
        .map(|event| SnapshotEvent {
            seq: event.seq,
            time: event.time,
            path: &event.path,
            event: &event.kind,
        })
        .collect();
    let body = serde_json::to_string(&kept).map_err(|error| {
        StoreError::new(StoreErrorKind::Io, "the snapshot has no JSON form").caused_by(error)
    })?;
    check_size(body.len(), limit, format_args!("the snapshot of the run `{run}`"))?;
    Ok(body)
}

/// Returns an error if a string exceeds the limit of the store. Events have a separate error
/// message.
pub(super) fn check_size(bytes: usize, limit: u64, what: impl Display) -> Result<(), StoreError> {
    if bytes as u64 <= limit {
        return Ok(());
    }
    let text = format!(
        "{what} has {bytes} bytes and the store takes at most {limit}; nothing of it was written"
    );
    Err(StoreError::new(StoreErrorKind::TooLarge, text))
}

/// Decodes a snapshot from its JSON.
pub(super) fn snapshot(seq: i64, body: &str, run: &RunId) -> Result<Snapshot, serde_json::Error> {
    let kept: Vec<SnapshotEvent<String, &RawValue>> = serde_json::from_str(body)?;
    let event = |SnapshotEvent { seq, time, path, event }: SnapshotEvent<String, &RawValue>| {
        let path: StepPath = path.parse().map_err(serde_json::Error::custom)?;
        Event::from_stored(run.clone(), seq, time, path, event.get())
    };
    let events: Result<_, serde_json::Error> = kept.into_iter().map(event).collect();
    Ok(Snapshot::new(seq.unsigned_abs(), events?))
}

/// The columns that [`record`] reads, with the `FROM` clause.
pub(super) const RECORD: &str = "runs.run_id, runs.name, runs.definition, runs.status, runs.pause_reason, runs.error, runs.created, events.id, \
     events.time, runs.key, runs.epoch, runs.owner, runs.version, runs.caller, \
     (SELECT json_group_object(tag, value) FROM tags WHERE tags.run = runs.key), \
     runs.session, runs.session_number, runs.session_after, runs.usage, runs.questions, \
     runs.document \
     FROM runs LEFT JOIN events ON events.id = \
     (SELECT max(id) FROM events WHERE id > runs.key << 32 AND id < (runs.key + 1) << 32)";

/// Parses the status of a run.
pub(super) fn status(
    text: &str,
    version: i64,
    run: &RunId,
    errors: &StoreErrors,
) -> Result<RunStatus, StoreError> {
    text.parse().map_err(|_| unknown("status", text, version, run, errors))
}

/// Returns the error for a value that this release does not know. A newer release may have written
/// the run; otherwise the row is damaged.
fn unknown(
    column: &str,
    word: &str,
    version: i64,
    run: &RunId,
    errors: &StoreErrors,
) -> StoreError {
    match version > i64::from(RunStarted::VERSION) {
        true => errors.newer_or_damaged(
            version,
            RunStarted::VERSION.into(),
            format_args!("the run `{run}`"),
        ),
        false => {
            errors.damaged(format_args!("`{word}` is not a {column}, and the run `{run}` has it"))
        }
    }
}

/// Reads the columns of [`RECORD`].
pub(super) fn record(row: &Row<'_>, errors: &StoreErrors) -> Result<RunRecord, StoreError> {
    let sql = |error| errors.sql(error);
    let text = |column| row.get::<_, String>(column).map_err(sql);
    let maybe = |column| row.get::<_, Option<String>>(column).map_err(sql);
    let run_id = RunId::new(text(0)?);
    let created = Timestamp::from_millis(within(row, 6, 0..=i64::MAX).map_err(sql)?.unsigned_abs());
    let number = |column| row.get::<_, Option<i64>>(column).map_err(sql);
    let (status, reason, version) = (text(3)?, maybe(4)?, row.get::<_, i64>(12).map_err(sql)?);
    let status = self::status(&status, version, &run_id, errors)?;
    let pause_reason = reason.map(|reason| {
        PauseReason::deserialize(StrDeserializer::<ValueError>::new(&reason))
            .unwrap_or(PauseReason::Other)
    });
    let tags = maybe(14)?.map(|tags| serde_json::from_str(&tags)).transpose().map_err(|error| {
        errors
            .damaged(format_args!("the tags of the run `{run_id}` cannot be read"))
            .caused_by(error)
    })?;
    let mut record = RunRecord::from_stored(run_id, text(1)?, status, created);
    record.caller = maybe(13)?.map(Arc::from);
    record.tags = tags.unwrap_or_default();
    record.session = session_rows::place(maybe(15)?, number(16)?, maybe(17)?);
    record.definition = maybe(2)?.map(Arc::from);
    record.pause_reason = pause_reason;
    record.error = maybe(5)?;
    record.updated = number(8)?.map_or(created, |time| Timestamp::from_millis(time.unsigned_abs()));
    // A damaged usage is treated as missing and is then computed from the journal.
    record.usage = maybe(18)?.and_then(|usage| serde_json::from_str(&usage).ok());
    // So are damaged questions.
    record.questions = maybe(19)?.and_then(|questions| serde_json::from_str(&questions).ok());
    record.document = maybe(20)?.and_then(|document| serde_json::from_str(&document).ok());
    record.events = number(7)?.map_or(0, |id| seq_of(id).unsigned_abs());
    Ok(record)
}

/// The columns of a record that change while the run is executed.
#[derive(PartialEq)]
pub(super) struct MutableColumns {
    status: RunStatus,
    pause_reason: Option<PauseReason>,
    definition: Option<Arc<str>>,
    error: Option<String>,
    usage: Option<Usage>,
    questions: Option<RecordedQuestions>,
}

impl MutableColumns {
    pub(super) fn new(record: &RunRecord) -> Self {
        Self {
            status: record.status,
            pause_reason: record.pause_reason,
            definition: record.definition.clone(),
            error: record.error.clone(),
            usage: record.usage.clone(),
            questions: record.questions.clone(),
        }
    }
}

/// Returns the token usage of a run as JSON.
pub(super) fn usage(record: &RunRecord) -> Option<String> {
    record.usage.as_ref().and_then(|usage| serde_json::to_string(usage).ok())
}

/// Returns the open questions of a run as JSON.
pub(super) fn questions(record: &RunRecord) -> Option<String> {
    record.questions.as_ref().and_then(|questions| serde_json::to_string(questions).ok())
}

/// Returns the time of the last event of a run that has ended.
pub(super) fn ended(record: &RunRecord) -> Option<i64> {
    record.status.has_ended().then(|| number(record.updated.as_millis()))
}

/// Returns the stored document of a run as JSON.
pub(super) fn document(record: &RunRecord) -> Option<String> {
    record.document.as_ref().and_then(|document| serde_json::to_string(document).ok())
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn the_sum_is_part_of_the_format() {
        assert_eq!(sum(0, 0, "", ""), 0);
        assert_eq!(
            sum(1, 1_763_700_000_000, "model#1", r#"{"name":"run.step","payload":{"step":1}}"#),
            -3_568_879_029_321_155_007
        );
    }

    #[test]
    fn every_part_counts() {
        let whole = sum(1, 2, "model#1", "0123456789");
        for other in [
            sum(2, 2, "model#1", "0123456789"),
            sum(1, 3, "model#1", "0123456789"),
            sum(1, 2, "model#2", "0123456789"),
            sum(1, 2, "model#1", "012345678"),
            sum(1, 2, "model#1", "0123456788"),
            sum(1, 2, "model#10", "123456789"),
        ] {
            assert_ne!(whole, other);
        }
    }
}
