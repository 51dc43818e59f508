//! Appends in one round trip.
//!
//! The columns of a run follow from its events, so a store knows them after its own last append. The
//! next append is then one statement, which writes only if the epoch and the number of events are as
//! expected. Otherwise, and for an append with other parts, `run_writes.rs` reads the row first.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use agentflow_core::event::RunId;
use agentflow_core::store::{Append, Epoch, RunRecord};
use tokio_postgres::Error;

use super::database::{Param, Session};
use super::event_row::{EventRow, number};
use super::run_row::MutableColumns;
use super::run_writes::{BATCH, event_version};

/// Maximum number of runs that are remembered.
const RUNS: usize = 10_000;

/// A run as this store has last written it.
pub(super) struct KnownRun {
    pub(super) key: i64,
    pub(super) epoch: Epoch,
    pub(super) record: RunRecord,
}

/// The runs that this store has written to.
#[derive(Default)]
pub(super) struct KnownRuns(Mutex<HashMap<RunId, KnownRun>>);

impl KnownRuns {
    pub(super) fn put(&self, run: KnownRun) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= RUNS {
            runs.clear();
        }
        runs.insert(run.record.run_id.clone(), run);
    }

    pub(super) fn forget(&self, run: &RunId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }

    /// Takes a run for an append. Returns `None` if the append needs more than one statement, or if
    /// the run is not known.
    pub(super) fn take(
        &self,
        run: &RunId,
        epoch: Epoch,
        append: &Append,
        rows: &[EventRow],
    ) -> Option<QuickAppend> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(run)?;
        let bytes: usize = rows.iter().map(|row| row.body.len() + row.path.len()).sum();
        let is_simple = append.answered.is_empty() && append.state.is_empty() && bytes < BATCH;
        if !is_simple || known.epoch != epoch || known.record.events != append.after {
            return None;
        }
        let mut record = known.record;
        append.events.iter().for_each(|event| record.apply(event));
        // The end of a run also removes its messages.
        let is_open = !record.status.has_ended();
        let run = KnownRun { key: known.key, epoch, record };
        is_open.then_some(QuickAppend { run, after: append.after })
    }
}

/// An append to a known run.
pub(super) struct QuickAppend {
    /// The run after the append.
    pub(super) run: KnownRun,
    after: u64,
}

impl QuickAppend {
    /// Writes the events and the columns of the run. Returns `false` if the run is not as expected,
    /// and then has written nothing.
    pub(super) async fn execute(
        &self,
        session: &Session,
        owner: &str,
        write_id: &str,
        rows: &[EventRow],
    ) -> Result<bool, Error> {
        let sql = "WITH updated AS (UPDATE runs SET status = $2, pause_reason = $3, error = $4, \
                   definition = $5, usage = $6, updated = $7, events = $8, owner = $9, \
                   version = greatest(version, $10), write_id = $11, questions = $18 \
                   WHERE key = $1 AND epoch = $12 AND events = $13 AND version <= $10 \
                   RETURNING key), \
                   inserted AS (INSERT INTO events (run, seq, time, path, body) \
                   SELECT updated.key, added.* FROM updated, \
                   unnest($14::int8[], $15::int8[], $16::text[], $17::bytea[]) AS added) \
                   SELECT key FROM updated";
        let KnownRun { key, epoch, record } = &self.run;
        let columns = MutableColumns::new(record);
        let (updated, events) = (number(record.updated.as_millis()), number(record.events));
        let (epoch, after, version) = (number(epoch.0), number(self.after), event_version());
        let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.time).collect();
        let paths: Vec<&str> = rows.iter().map(|row| &*row.path).collect();
        let bodies: Vec<&[u8]> = rows.iter().map(|row| &*row.body).collect();
        let params: [Param<'_>; 18] = [
            key,
            &columns.status,
            &columns.pause_reason,
            &columns.error,
            &columns.definition,
            &columns.usage,
            &updated,
            &events,
            &owner,
            &version,
            &write_id,
            &epoch,
            &after,
            &seqs,
            &times,
            &paths,
            &bodies,
            &columns.questions,
        ];
        Ok(session.row(sql, &params).await?.is_some())
    }
}
