//! The end of a run that undoes what it had done: what it was asked, the records around it, and what its error says of
//! it. It is the same for agents and workflows.
//!
//! `compensation.rs` calls the compensations.

use std::sync::Arc;

use super::compensation::compensate;
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::event::{Event, EventKind, NotUndone};
use crate::run::InSegment;
use crate::store::StoreError;

/// Whether a run undoes what it had done, and whether an earlier process was doing so.
#[derive(Default)]
pub(crate) struct Compensation {
    asked: bool,
    begun: Option<Box<BegunCompensation>>,
}

/// Why a run undoes what it had done, as it is recorded.
pub(crate) struct BegunCompensation {
    error: Arc<Failure>,
    cancelled: Option<Arc<str>>,
}

impl BegunCompensation {
    /// What an earlier process recorded of the run itself, when that says so.
    fn of(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::RunCompensating { error, cancelled, .. } => {
                Some(Self { error: Arc::clone(error), cancelled: cancelled.clone() })
            }
            _ => None,
        }
    }

    /// Whether the run was cancelled, and has not failed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_some()
    }

    /// The same of a whole journal.
    pub(crate) fn of_journal<'e>(events: impl IntoIterator<Item = &'e Event>) -> Option<Self> {
        let of_run = events.into_iter().filter(|event| event.path.is_root());
        of_run.filter_map(|event| Self::of(&event.kind)).last()
    }
}

impl Compensation {
    pub(crate) fn new(asked: bool) -> Self {
        Self { asked, begun: None }
    }

    /// Takes in what an earlier process recorded of the run itself.
    pub(crate) fn replay(&mut self, kind: &EventKind) {
        if let Some(begun) = BegunCompensation::of(kind) {
            self.begun = Some(Box::new(begun));
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// What is to be continued.
    pub(crate) fn take_begun(&mut self) -> Option<Box<BegunCompensation>> {
        self.begun.take()
    }
}

/// Undoes what a run had done that failed; the context is that of the run as a whole. The error says what is not undone.
///
/// # Errors
/// When the store fails, or the run stops in this process: another one continues.
pub(crate) async fn compensated<R: InSegment>(run: &mut R, cx: Context, error: Error) -> Result<Error, StoreError> {
    let failure = Arc::new(Failure::from(&error));
    run.record_own(EventKind::RunCompensating { error: failure, cancelled: None, by: None });
    Ok(error.with_not_undone(undo(run, cx, false).await?))
}

/// The same of a run that was cancelled, after what was running has its end. Gives the error with which it ends.
///
/// # Errors
/// As [`compensated`].
pub(crate) async fn compensated_cancelled<R: InSegment>(
    run: &mut R,
    cx: Context,
    reason: &Arc<str>,
) -> Result<Error, StoreError> {
    run.close_steps_cancelled(reason);
    run.record_own(EventKind::compensating_cancelled(Arc::clone(reason)).asked_by(cx.run().cancelled_by()));
    let left = undo(run, cx, true).await?;
    Ok(Error::Cancelled { reason: Arc::clone(reason) }.with_not_undone(left))
}

/// Continues where an earlier process was undoing what the run had done, and records the run's end.
///
/// # Errors
/// As [`compensated`].
pub(crate) async fn continue_compensating<R: InSegment>(
    run: &mut R,
    cx: Context,
    begun: BegunCompensation,
) -> Result<Error, StoreError> {
    let left = undo(run, cx, begun.is_cancelled()).await?;
    Ok(match begun.cancelled {
        Some(reason) => {
            run.record_cancelled(&reason);
            Error::Cancelled { reason }.with_not_undone(left)
        }
        None => {
            let error = Error::Recorded(begun.error).with_not_undone(left);
            run.record_failed(&error);
            error
        }
    })
}

async fn undo<R: InSegment>(run: &mut R, cx: Context, cancelled: bool) -> Result<Vec<NotUndone>, StoreError> {
    let shared = Arc::clone(cx.run());
    shared.undoes(cancelled);
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
            // What there is of it is kept, and continued by whoever resumes the run.
            run.segment().settle();
            Err(error)
        }
    }
}
