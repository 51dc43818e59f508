//! `ToolBodyScope`: the task-local scope of a tool's body, while a model or a program calls the
//! tool by name.
//!
//! A call in the body is recorded below the tool if it needs a scope or an approval that the run
//! lacks, or if the run compensates and the call has a compensation. Any other call is a plain
//! function call. `call_approval.rs` sends the questions, and `compensation.rs` compensates. Calls
//! in tasks that the body spawns are not found.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use super::call_checks::error_of_failure;
use super::step_place::{CurrentStep, NodeGuarantees, StepEndPanic, WrittenOrder};
use super::{Tool, ToolDefinition, ToolError, ToolFuture, ToolOutput, is_granted, linked_tools};
use crate::context::Context;
use crate::run::Around;

/// The scope of one attempt of a tool call.
pub(super) struct ToolBodyScope {
    place: Arc<CurrentStep>,
    /// The function of the tool. Its first call is the call that the scope belongs to, which is
    /// recorded already.
    function: Option<Arc<ToolDefinition>>,
    function_entered: AtomicBool,
    /// `true` if calls that can be compensated are recorded.
    undoes: bool,
}

impl ToolBodyScope {
    /// Creates the scope of a call at the context's path. Returns `None` if no call in the body
    /// would be recorded, as in most programs. `undoes` is `true` for a recorded call in a run that
    /// compensates.
    pub(super) fn of_call(tool: &dyn Tool, cx: Context, undoes: bool) -> Option<Arc<Self>> {
        if !undoes && !has_guarded_tools() {
            return None;
        }
        // A retry or a restored journal may have records below this call.
        let fresh = cx.attempt() == 1 && !cx.run().log.is_restored();
        let place = CurrentStep::of_step(
            cx,
            None,
            fresh,
            NodeGuarantees::default(),
            WrittenOrder::default(),
        );
        let function = tool.function_definition().map(Arc::clone);
        Some(Arc::new(Self { place, function, function_entered: AtomicBool::new(false), undoes }))
    }

    /// Returns the place below which a call in the body of a tool is recorded, or `None` if it is a
    /// plain function call.
    pub(super) fn for_call(
        definition: impl FnOnce() -> Arc<ToolDefinition>,
    ) -> Option<Arc<CurrentStep>> {
        let here: Arc<Self> = Around::place()?;
        let definition = definition();
        // Another tool may be called before the function, for example by the default of a parameter.
        if here.function.as_ref().is_some_and(|function| Arc::ptr_eq(function, &definition))
            && !here.function_entered.swap(true, Ordering::Relaxed)
        {
            return None;
        }
        let guarded = !is_granted(&definition, here.place.cx.grants());
        let undone = here.undoes && definition.policy.compensate.is_some();
        (guarded || undone).then(|| Arc::clone(&here.place))
    }

    /// Returns the current scope.
    pub(super) fn current() -> Option<Arc<Self>> {
        Around::place()
    }

    /// Returns `true` if calls that can be compensated are recorded.
    pub(super) fn undoes(&self) -> bool {
        self.undoes
    }

    /// Calls the tool in this scope. If a call in its body could not be made, the tool ends with
    /// that failure, even if its function handled the error.
    pub(super) async fn within<'f>(
        self: Arc<Self>,
        call: impl FnOnce() -> ToolFuture<'f> + Send,
    ) -> Result<ToolOutput, ToolError> {
        // The body of a sync tool runs when it is called, so the call must happen inside the scope.
        let mut called = pin!(Around::at(Arc::clone(&self)).within(async { call().await }));
        std::future::poll_fn(|task| {
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| called.as_mut().poll(task)));
            // Checked after each poll: the body may still be pending, or may have ignored the
            // failure.
            if let Some(failure) = self.place.ended() {
                return Poll::Ready(Err(error_of_failure(&failure)));
            }
            match polled {
                Ok(polled) => polled,
                Err(panic) => match StepEndPanic::from_panic(&*panic) {
                    Some(failure) => Poll::Ready(Err(error_of_failure(failure))),
                    None => std::panic::resume_unwind(panic),
                },
            }
        })
        .await
    }
}

/// Returns `true` if the program has a tool function that needs a scope or an approval.
fn has_guarded_tools() -> bool {
    static GUARDED: OnceLock<bool> = OnceLock::new();
    *GUARDED.get_or_init(|| linked_tools().iter().any(|tool| tool.is_guarded()))
}
