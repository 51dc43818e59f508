//! The end of a run that undoes what it had done: what it was asked, the records around it, and what its error says of
//! it. It is the same for agents and workflows.
//!
//! `compensation.rs` calls the compensations.

use std::sync::Arc;

use super::compensation::compensate;
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::event::{EventKind, NotUndone};
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

impl Compensation {
    pub(crate) fn new(asked: bool) -> Self {
        Self { asked, begun: None }
    }

    /// Takes in what an earlier process recorded of the run itself.
    pub(crate) fn replay(&mut self, kind: &EventKind) {
        if let EventKind::RunCompensating { error, cancelled } = kind {
            let (error, cancelled) = (Arc::clone(error), cancelled.clone());
            self.begun = Some(Box::new(BegunCompensation { error, cancelled }));
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
    run.record_own(EventKind::RunCompensating { error: failure, cancelled: None });
    Ok(with_left(error, undo(run, cx).await?))
}

/// The same of a run that was cancelled, after what was running has its end.
///
/// # Errors
/// As [`compensated`].
pub(crate) async fn compensated_cancelled<R: InSegment>(
    run: &mut R,
    cx: Context,
    reason: &Arc<str>,
) -> Result<(), StoreError> {
    run.close_steps_cancelled(reason);
    run.record_own(EventKind::compensating_cancelled(Arc::clone(reason)));
    undo(run, cx).await.map(drop)
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
    let left = undo(run, cx).await?;
    Ok(match begun.cancelled {
        Some(reason) => {
            run.record_cancelled(&reason);
            Error::Cancelled { reason }
        }
        None => {
            let error = with_left(Error::Recorded(begun.error), left);
            run.record_failed(&error);
            error
        }
    })
}

async fn undo<R: InSegment>(run: &mut R, cx: Context) -> Result<Vec<NotUndone>, StoreError> {
    let shared = Arc::clone(cx.run());
    shared.undoes();
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

fn with_left(error: Error, left: Vec<NotUndone>) -> Error {
    match left.is_empty() {
        true => error,
        false => Error::Compensation { error: Arc::new(error), left },
    }
}
