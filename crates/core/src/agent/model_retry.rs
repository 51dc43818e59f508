//! Automatic retries of failed model calls in durable runs, and the delay before each.
//!
//! Attempts are counted from the journal, so a crash does not reset the count. The machine decides
//! if another attempt is within the run's limits.

use std::sync::Arc;
use std::time::Duration;

use super::driver::Run;
use super::machine::Command;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::model::{ModelError, ModelErrorKind, TimeoutKind};
use crate::path::StepPath;

/// Maximum number of retries of a call. With the delays below they take about a minute, in which
/// most restarting servers become available again.
const MAX_RETRIES: u32 = 6;
/// Delay before the first retry. It is doubled for each further retry and reduced by a random part
/// of up to a quarter.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longest delay that a provider may request. After a longer one the call fails.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

impl Run {
    /// `true` if the run retries failed calls automatically: it is durable, and no middleware
    /// handles retries.
    pub(super) fn retries_automatically(&self) -> bool {
        self.segment.shared.log.is_durable()
            && !self.hooks.iter().any(|hook| hook.retries_model_calls())
    }

    /// Returns the delay before a failed call is retried, or `None` if it is not retried.
    pub(super) fn retry_wait(&self, error: &ModelError) -> Option<Duration> {
        let made = u32::try_from(self.machine.attempts().len()).unwrap_or(u32::MAX);
        if !self.retries_automatically()
            || made >= MAX_RETRIES
            || !error.is_retryable()
            || error.kind() == ModelErrorKind::Timeout(TimeoutKind::Total)
        {
            return None;
        }
        match error.retry_after() {
            Some(asked) => (asked <= LONGEST_WAIT).then_some(asked),
            None => {
                let less = self.segment.shared.host.random() / 4.0;
                Some((FIRST_WAIT * 2_u32.pow(made)).mul_f64(1.0 - less))
            }
        }
    }

    /// Records the retry and waits. Returns `true` if the run's limits still allow the call.
    pub(super) async fn wait_to_call_again(
        &mut self,
        path: &StepPath,
        error: &ModelError,
        after: Duration,
    ) -> Result<bool> {
        self.record_retry(path, error, after);
        self.commit().await?;
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
        // The limits apply to every attempt.
        Ok(matches!(self.machine.command(), Command::CallModel { .. }))
    }

    /// Returns the recorded error of the model call. Used if the process stopped between the
    /// failure and the end of the run.
    pub(super) fn recorded_failure(&self) -> Error {
        let recorded = self.segment.shared.log.records_below(&self.segment.base);
        let failed = recorded.into_iter().rev().find_map(|(_, path, kind)| match kind {
            EventKind::ModelFailed { error } if path.is_step_of(&self.segment.base) => Some(error),
            _ => None,
        });
        failed.map_or_else(|| ModelError::truncated().into(), Error::Recorded)
    }

    pub(super) fn record_retry(&mut self, path: &StepPath, error: &ModelError, after: Duration) {
        let delay_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.record(
            path.clone(),
            EventKind::ModelRetrying { error: Arc::new(error.into()), delay_ms },
        );
    }
}
