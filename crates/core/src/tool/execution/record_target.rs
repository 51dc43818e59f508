//! `CallRecord`: the destination of a call's events.

use std::sync::Arc;

use super::super::Effects;
use super::super::ToolPolicy;
use super::super::call_record::OpenCall;
use super::super::history::RecordedOutcome;
use super::super::told_call::DetachedToolCall;
use super::ToolExecution;
use crate::context::Context;
use crate::future::at_once;
use crate::message::ToolCall;
use crate::path::StepPath;
use crate::store::StoreError;

/// The destination of the start and the end of a call.
pub(crate) enum CallRecord {
    /// The call is part of its step, whose events are its record.
    None,
    /// The sinks of the runtime, for a call outside of any run.
    Detached(DetachedToolCall),
    /// The journal of the run.
    Journal {
        /// The step that makes the call.
        step: StepPath,
        open: Option<OpenCall>,
        is_ended: bool,
    },
}

impl CallRecord {
    /// Creates the record of a call that a step makes.
    pub(crate) fn in_step(step: &StepPath) -> Self {
        Self::Journal { step: step.clone(), open: None, is_ended: false }
    }

    /// Returns `true` if a journal keeps the record.
    pub(in crate::tool) fn is_kept(&self) -> bool {
        matches!(self, Self::Journal { .. })
    }

    /// Records the start. `given` is the caller's input if it was changed. `policy` is `None` if the
    /// call reaches no tool.
    pub(super) fn begin(
        &mut self,
        cx: &Context,
        call: &Arc<ToolCall>,
        policy: Option<&ToolPolicy>,
        given: Option<Arc<str>>,
    ) {
        match self {
            Self::None => {}
            Self::Detached(detached) => detached.begin(call, policy, given),
            Self::Journal { step, open, .. } => {
                *open = Some(OpenCall::begin(cx, step, policy, Arc::clone(call), given));
            }
        }
    }

    /// Waits until the start is stored.
    ///
    /// A call that cannot wait polls the store once and relies on the stored start of its node. An
    /// error that the store returns at once is reported.
    pub(super) async fn store(&mut self, execution: &ToolExecution<'_>) -> Result<(), StoreError> {
        let Self::Journal { open, .. } = self else { return Ok(()) };
        let log = &execution.cx.run().log;
        let stored = match execution.can_wait {
            true => log.commit().await,
            false if execution.policy().effects != Effects::Write => Ok(()),
            false => at_once(log.commit()).unwrap_or(Ok(())),
        };
        if stored.is_err()
            && let Some(open) = open
        {
            open.settle();
        }
        stored
    }

    /// Records the end of a call that may have been stopped at any point of its execution. A record
    /// that is ended already is unchanged.
    pub(crate) fn end_stopped(
        &mut self,
        cx: &Context,
        call: &Arc<ToolCall>,
        outcome: &RecordedOutcome,
    ) {
        match self {
            Self::Journal { is_ended: true, .. } => return,
            // A hook refused the call before its start was recorded.
            Self::Journal { open: None, .. } => self.begin(cx, call, None, None),
            _ => {}
        }
        self.end(outcome);
    }

    /// Records the end.
    pub(super) fn end(&mut self, outcome: &RecordedOutcome) {
        match self {
            Self::None => {}
            Self::Detached(detached) => {
                detached.end(&outcome.result, outcome.answered_by.clone());
            }
            Self::Journal { open, is_ended, .. } => {
                *is_ended = true;
                if let Some(mut open) = open.take() {
                    open.end(outcome.clone());
                }
            }
        }
    }
}
