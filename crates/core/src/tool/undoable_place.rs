//! `UndoablePlace`: the call of a tool by a model, in a run that undoes what it has done. A call in the tool's body that can
//! be undone is recorded below it; any other is plain Rust there, as in every run.
//!
//! It undoes nothing: `compensation.rs` does, by what is recorded. Work that leaves the tool's task, such as a spawned one,
//! has no place.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use super::step_place::{Covered, EndsStep, StepPlace, WrittenOrder};
use super::undecided::for_model;
use super::{Tool, ToolDefinition, ToolError, ToolFuture, ToolOutput};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::message::ToolStatus;
use crate::run::Around;

/// One attempt at such a call.
pub(super) struct UndoablePlace {
    place: Arc<StepPlace>,
    /// The tool's own function finds this first, and is recorded already.
    announces: AtomicBool,
}

impl UndoablePlace {
    /// The place of a call that has its record at the context's path, when its run undoes what it has done.
    pub(super) fn of_call(tool: &dyn Tool, cx: &Context) -> Option<Arc<Self>> {
        if !cx.run().log.compensates() {
            return None;
        }
        let fresh = cx.attempt() == 1 && !cx.run().log.is_restored();
        let place = StepPlace::of_step(cx.clone(), None, fresh, Covered::default(), WrittenOrder::default());
        Some(Arc::new(Self { place, announces: AtomicBool::new(tool.announces_itself()) }))
    }

    /// Where a call is recorded that is made at such a place.
    pub(super) fn for_call(definition: impl FnOnce() -> Arc<ToolDefinition>) -> Option<Arc<StepPlace>> {
        let here: Arc<Self> = Around::place()?;
        if here.announces.swap(false, Ordering::Relaxed) {
            return None;
        }
        definition().policy.compensate.is_some().then(|| Arc::clone(&here.place))
    }

    /// Whether the caller is at such a place, where only what can be undone is recorded.
    pub(super) fn is_current() -> bool {
        Around::place::<Self>().is_some()
    }

    /// Calls the tool here. A call in it that could not be made ends it, whatever its function makes of that.
    pub(super) async fn within<'f>(
        self: Arc<Self>,
        call: impl FnOnce() -> ToolFuture<'f> + Send,
    ) -> Result<ToolOutput, ToolError> {
        // The body of a sync tool runs as it is called.
        let mut called = pin!(Around::at(Arc::clone(&self)).within(async { call().await }));
        std::future::poll_fn(|task| {
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| called.as_mut().poll(task)));
            if let Some(failure) = self.place.ended() {
                return Poll::Ready(Err(error_of(failure)));
            }
            match polled {
                Ok(polled) => polled,
                Err(panic) => match EndsStep::of(&*panic) {
                    Some(failure) => Poll::Ready(Err(error_of(failure.clone()))),
                    None => std::panic::resume_unwind(panic),
                },
            }
        })
        .await
    }
}

fn error_of(failure: Failure) -> ToolError {
    let status = match failure.kind {
        FailureKind::Interrupted => ToolStatus::Interrupted,
        FailureKind::Unauthorized => ToolStatus::Unauthorized,
        _ => ToolStatus::Error,
    };
    ToolError::with_status(status, for_model(&failure.message).to_owned())
}
