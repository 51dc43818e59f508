//! Records the events of an agent's run. Consecutive events without other work in between share a
//! timestamp, since reading the clock has a cost.

use std::sync::Arc;

use super::driver::Run;
use super::machine::{OpenStep, closed};
use crate::error::{Failure, Result};
use crate::event::EventKind;
use crate::message::ToolStatus;
use crate::model::{ModelError, ModelErrorKind};
use crate::path::StepPath;
use crate::time::Timestamp;
use crate::tool::effects_of_begun;

impl Run {
    /// Records an event with the current time.
    pub(super) fn record(&mut self, path: StepPath, kind: EventKind) {
        self.moment = None;
        let now = self.moment();
        self.record_at(now, path, kind);
    }

    /// Records an event with the given time.
    pub(super) fn record_at(&mut self, now: Timestamp, path: StepPath, kind: EventKind) {
        self.machine.apply(&path, &kind);
        self.segment.shared.record_at(now, path, kind);
    }

    /// Returns the time of the previous record if only the driver was active since then, otherwise
    /// the current time. Records the start of the run first, if that is pending.
    pub(super) fn moment(&mut self) -> Timestamp {
        if self.pending.is_some() {
            self.record_start();
        }
        self.moment.take().unwrap_or_else(|| self.segment.shared.now())
    }

    pub(super) async fn commit(&self) -> Result<()> {
        Ok(self.segment.shared.log.commit().await?)
    }

    /// Records an end event for every running step.
    pub(super) fn close_steps(&mut self, reason: &str) {
        self.segment.close_strays(reason);
        for step in self.machine.open_steps() {
            match step {
                OpenStep::Model { path } => {
                    let error = ModelError::new(ModelErrorKind::Cancelled, reason);
                    self.record(
                        path,
                        EventKind::ModelFailed { error: Arc::new(Failure::from(&error)) },
                    );
                }
                OpenStep::Tool { path, call } => {
                    let known =
                        effects_of_begun(&self.segment.shared, &path).describe_interrupted();
                    let output = format!("{reason} while this tool was running; {known}");
                    let result = Arc::new(closed(&call, ToolStatus::Cancelled, &output));
                    self.segment.shared.close_below(&path, reason);
                    self.record(
                        path,
                        EventKind::ToolFailed {
                            result,
                            duration_ms: 0,
                            answered_by: None,
                            error: None,
                            cause: None,
                        },
                    );
                }
            }
        }
    }
}
