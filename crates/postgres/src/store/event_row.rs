//! Converts events and snapshots to table rows and back.

use std::fmt::Display;

use agentflow_core::event::{Event, RunId};
use agentflow_core::path::StepPath;
use agentflow_core::store::{Snapshot, StoreError, StoreErrorKind};
use agentflow_core::time::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::Row;

use super::postgres_error::{Failed, PostgresErrors};
use super::text;

/// Maximum number of events of one run, as in the SQLite store.
const MOST: u64 = u32::MAX as u64;

/// An encoded event, ready to be written.
#[derive(PartialEq)]
pub(super) struct EventRow {
    pub(super) seq: i64,
    pub(super) time: i64,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
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
                "the run `{run}` has {after} events; a store keeps at most {MOST}"
            )));
        }
        // Events that are only shown live, such as model deltas, must not be recorded.
        let row = |(seq, event): (u64, &Event)| {
            if event.seq != seq || !event.is_recorded() {
                let id = event.id();
                return Err(wrong(format!(
                    "event {id} of the run `{run}` cannot be written as its event {seq}"
                )));
            }
            let body = serde_json::to_vec(&event.kind).map_err(|error| {
                wrong(format!("event {} has no JSON form", event.id())).caused_by(error)
            })?;
            let bytes = body.len() as u64;
            if bytes > limit {
                return Err(StoreError::too_large(run, &event.path, bytes, limit));
            }
            let (time, path) = (number(event.time.as_millis()), event.path.to_string());
            Ok(Self { seq: number(seq), time, path: text::encode(&path).into_owned(), body })
        };
        (after + 1..).zip(events).map(row).collect()
    }

    /// Reads the columns `seq`, `time`, `path` and `body`.
    pub(super) fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            seq: row.try_get("seq")?,
            time: row.try_get("time")?,
            path: row.try_get("path")?,
            body: row.try_get("body")?,
        })
    }

    /// Decodes the event, which must have the number `expected`.
    pub(super) fn decode(
        self,
        run: &RunId,
        expected: i64,
        errors: &PostgresErrors,
    ) -> Result<Event, Failed> {
        let damaged = |what: &str| {
            errors.damaged(format_args!(
                "event {expected} of the run `{run}` {what}; the {} before it can be read",
                expected - 1
            ))
        };
        if self.seq != expected {
            return Err(damaged("is missing").into());
        }
        let body = String::from_utf8(self.body)
            .map_err(|error| damaged("is not UTF-8").caused_by(error))?;
        // An event of this form that this release cannot read was written by a newer release.
        let newer = || errors.newer(format_args!("event {expected} of the run `{run}`"));
        let path: StepPath =
            text::decode(&self.path).parse().map_err(|error| newer().caused_by(error))?;
        let time = Timestamp::from_millis(self.time.unsigned_abs());
        let event = Event::from_stored(run.clone(), expected.unsigned_abs(), time, path, &body);
        Ok(event.map_err(|error| match is_event(&body) {
            true => newer().caused_by(error),
            false => damaged("is not an event").caused_by(error),
        })?)
    }
}

/// Returns `true` if a string has the form that the events of all releases have.
fn is_event(body: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "name")]
        _name: String,
    }
    serde_json::from_str::<Named>(body).is_ok()
}

pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
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
pub(super) fn encode_snapshot(
    run: &RunId,
    snapshot: &Snapshot,
    limit: u64,
) -> Result<Vec<u8>, StoreError> {
    let events: Vec<_> = snapshot
        .events
        .iter()
        .map(|event| SnapshotEvent {
            seq: event.seq,
            time: event.time,
            path: &event.path,
            event: &event.kind,
        })
        .collect();
    let body = serde_json::to_vec(&events).map_err(|error| {
        StoreError::new(StoreErrorKind::Io, "the snapshot has no JSON form").caused_by(error)
    })?;
    check_size(body.len(), limit, format_args!("the snapshot of the run `{run}`"))?;
    Ok(body)
}

/// Decodes a snapshot from its JSON.
pub(super) fn decode_snapshot(
    run: &RunId,
    seq: i64,
    body: &[u8],
) -> Result<Snapshot, serde_json::Error> {
    let events: Vec<SnapshotEvent<String, &RawValue>> = serde_json::from_slice(body)?;
    let event = |SnapshotEvent { seq, time, path, event }: SnapshotEvent<String, &RawValue>| {
        let path: StepPath = path.parse().map_err(serde_json::Error::custom)?;
        Event::from_stored(run.clone(), seq, time, path, event.get())
    };
    let events: Result<_, serde_json::Error> = events.into_iter().map(event).collect();
    Ok(Snapshot::new(seq.unsigned_abs(), events?))
}

/// Returns an error if a value exceeds the limit of the store.
pub(super) fn check_size(bytes: usize, limit: u64, what: impl Display) -> Result<(), StoreError> {
    if bytes as u64 <= limit {
        return Ok(());
    }
    let text =
        format!("{what} has {bytes} bytes; the store takes at most {limit}; it was not written");
    Err(StoreError::new(StoreErrorKind::TooLarge, text))
}

/// Maximum length of a text that is the key of an index.
const KEY: usize = 1000;

/// Returns an error if a text is too long for an index of Postgres.
pub(super) fn check_key(text: &str, what: &str) -> Result<(), StoreError> {
    let bytes = text::encode(text).len();
    match bytes <= KEY {
        true => Ok(()),
        false => Err(StoreError::new(
            StoreErrorKind::TooLarge,
            format!("{what} has {bytes} bytes; Postgres indexes at most {KEY}"),
        )),
    }
}
