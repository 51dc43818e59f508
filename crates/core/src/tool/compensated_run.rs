//! The end of a run that compensates its completed calls: the start and end records, and the error
//! of the run.
//!
//! Agents and workflows share it. `compensation.rs` calls the compensating tools.

use std::sync::Arc;

use super::compensation::compensate;
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::event::{Event, EventKind, NotUndone};
use crate::run::InSegment;
use crate::store::StoreError;

/// The compensation setting of a run, and the compensation that an earlier process has started.
#[derive(Default)]
pub(crate) struct Compensation {
    asked: bool,
    begun: Option<Box<StartedCompensation>>,
}

/// The recorded reason for which a run compensates its calls.
pub(crate) struct StartedCompensation {
    error: Arc<Failure>,
    cancelled: Option<Arc<str>>,
}

impl StartedCompensation {
    /// Reads a record of the run itself. Returns `None` if it does not start a compensation.
    fn from_event(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::RunCompensating { error, cancelled, .. } => {
                Some(Self { error: Arc::clone(error), cancelled: cancelled.clone() })
            }
            _ => None,
        }
    }

    /// Returns `true` if the run was cancelled and did not fail.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_some()
    }

    /// Returns the last compensation that a journal starts.
    pub(crate) fn from_journal<'e>(events: impl IntoIterator<Item = &'e Event>) -> Option<Self> {
        let of_run = events.into_iter().filter(|event| event.path.is_root());
        of_run.filter_map(|event| Self::from_event(&event.kind)).last()
    }
}

impl Compensation {
    pub(crate) fn new(asked: bool) -> Self {
        Self { asked, begun: None }
    }

    /// Applies a record of the run itself that an earlier process wrote.
    pub(crate) fn replay(&mut self, kind: &EventKind) {
        if let Some(begun) = StartedCompensation::from_event(kind) {
            self.begun = Some(Box::new(begun));
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Takes the compensation that must be continued.
    pub(crate) fn take_begun(&mut self) -> Option<Box<StartedCompensation>> {
        self.begun.take()
    }
}

/// Compensates a failed run. `cx` is the context of the whole run. The returned error lists the
/// calls that could not be compensated.
///
/// # Errors
/// The store fails, or the run stops in this process. Another process then continues it.
pub(crate) async fn compensated<R: InSegment>(
    run: &mut R,
    cx: Context,
    error: Error,
) -> Result<Error, StoreError> {
    let failure = Arc::new(Failure::from(&error));
    run.record_own(EventKind::RunCompensating { error: failure, cancelled: None, by: None });
    Ok(error.with_uncompensated(undo(run, cx, false).await?))
}

/// Compensates a cancelled run after its running steps have ended. Returns the error with which the
/// run ends.
///
/// # Errors
/// See [`compensated`].
pub(crate) async fn compensated_cancelled<R: InSegment>(
    run: &mut R,
    cx: Context,
    reason: &Arc<str>,
) -> Result<Error, StoreError> {
    // Each started step needs an end event before the compensation starts.
    run.close_steps_cancelled(reason);
    run.record_own(
        EventKind::compensating_cancelled(Arc::clone(reason))
            .with_operator(cx.run().cancelled_by()),
    );
    let left = undo(run, cx, true).await?;
    Ok(Error::Cancelled { reason: Arc::clone(reason) }.with_uncompensated(left))
}

/// Continues the compensation that an earlier process has started, and records the end of the run.
///
/// # Errors
/// See [`compensated`].
pub(crate) async fn continue_compensating<R: InSegment>(
    run: &mut R,
    cx: Context,
    begun: StartedCompensation,
) -> Result<Error, StoreError> {
    let left = undo(run, cx, begun.is_cancelled()).await?;
    Ok(match begun.cancelled {
        Some(reason) => {
            run.record_cancelled(&reason);
            Error::Cancelled { reason }.with_uncompensated(left)
        }
        None => {
            let error = Error::Recorded(begun.error).with_uncompensated(left);
            run.record_failed(&error);
            error
        }
    })
}

async fn undo<R: InSegment>(
    run: &mut R,
    cx: Context,
    cancelled: bool,
) -> Result<Vec<NotUndone>, StoreError> {
    let shared = Arc::clone(cx.run());
    shared.undoes(cancelled);
    // From now on, control requests are handled by the compensation.
    run.hand_back_requests();
    let undone = tokio::select! {
        biased;
        undone = compensate(&cx) => undone,
        () = shared.until_stopped() => Err(shared.left().await),
    };
    match undone {
        Ok((undone, left)) => {
            run.record_own(EventKind::RunCompensated { undone, left: left.clone() });
            Ok(left)
        }
        Err(error) => {
            // The records written so far stay; the process that resumes the run continues from
            // them.
            run.segment().settle();
            Err(error)
        }
    }
}
