//! Limits how deep agents and workflows nest, so that one which calls itself ends with an error and not with a stack
//! overflow.
//!
//! Everything that a run does is polled inside one future, and what begins inside of a step is polled inside that step:
//! each level takes its part of the stack. The depth is known to the task that polls, so it also counts runs of their
//! own that a step awaits, and to each [`Context`](crate::Context), so it also counts what a step hands to another
//! task.
//!
//! It also says which step of a workflow polls the caller, so that a call of a tool, an agent or a workflow is part of that
//! step; what a place is, it does not know.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, FailureKind, Result};
use crate::future::BoxFuture;

/// The default of [`RuntimeBuilder::max_nesting`](crate::runtime::RuntimeBuilder::max_nesting).
pub(crate) const MAX_NESTING: u32 = 16;

tokio::task_local! {
    static AROUND: Around;
}

/// What stands around that which is polled.
#[derive(Clone, Default)]
pub(crate) struct Around {
    /// How many agents and workflows.
    depth: u32,
    /// Set when one inside was refused, for the innermost tool call around it.
    exceeded: Arc<AtomicBool>,
    /// The place of the step that polls, when it is the step of a workflow and no agent or workflow in it.
    place: Option<Arc<dyn Any + Send + Sync>>,
}

impl Around {
    /// What stands around the caller.
    pub(crate) fn current() -> Self {
        AROUND.try_with(Self::clone).unwrap_or_default()
    }

    /// How many agents and workflows stand around the caller.
    pub(crate) fn depth() -> u32 {
        AROUND.try_with(|around| around.depth).unwrap_or_default()
    }

    /// Whether a step of a workflow polls the caller: one look at the task.
    #[inline]
    pub(crate) fn has_place() -> bool {
        AROUND.try_with(|around| around.place.is_some()).unwrap_or(false)
    }

    /// The place of the step that polls the caller.
    pub(crate) fn place<P: Any + Send + Sync>() -> Option<Arc<P>> {
        let place = AROUND.try_with(|around| around.place.clone()).ok().flatten()?;
        place.downcast().ok()
    }

    /// The same as around the caller, at a place.
    pub(crate) fn at<P: Any + Send + Sync>(place: Arc<P>) -> Self {
        Self { place: Some(place), ..Self::current() }
    }

    /// Another agent or workflow begins inside of this; `known` is how many the caller's context says stand around it.
    ///
    /// # Errors
    /// [`Error::NestingLimit`].
    pub(crate) fn enter(limit: u32, known: u32) -> Result<Self> {
        let mut around = Self::current();
        around.depth = around.depth.max(known);
        if around.depth >= limit {
            around.exceeded.store(true, Ordering::Relaxed);
            return Err(Error::NestingLimit { depth: limit });
        }
        around.depth += 1;
        around.place = None;
        Ok(around)
    }

    /// Polls what is inside of this.
    ///
    /// All levels are on one stack, and a frame holds room for each future that it makes: so whoever calls this boxes
    /// an agent or a workflow before, in a function that returns.
    pub(crate) fn scope<'f, T: 'f>(self, inside: BoxFuture<'f, T>) -> impl Future<Output = T> + Send + 'f {
        AROUND.scope(self, inside)
    }

    /// Polls a future of any type inside of this.
    pub(crate) fn within<F: Future>(self, inside: F) -> impl Future<Output = F::Output> {
        AROUND.scope(self, inside)
    }

    /// Polls an agent inside of this. When it ends because of the limit, now or in an earlier process, the tool call
    /// around it learns of that.
    pub(crate) async fn poll<T>(self, agent: BoxFuture<'_, Result<T>>) -> Result<T> {
        let outer = Arc::clone(&self.exceeded);
        let outcome = self.scope(agent).await;
        if outcome.as_ref().is_err_and(|error| error.kind() == FailureKind::NestingLimit) {
            outer.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Polls a tool call inside of this. Also says whether something in it was refused for the limit.
    pub(crate) async fn tool_call<T>(depth: u32, call: BoxFuture<'_, T>) -> (T, bool) {
        let around = Self { depth, exceeded: Arc::default(), place: None };
        let exceeded = Arc::clone(&around.exceeded);
        let outcome = around.scope(call).await;
        (outcome, exceeded.load(Ordering::Relaxed))
    }

    /// Runs a function inside of this, also on another thread.
    pub(crate) fn sync_scope<T>(self, inside: impl FnOnce() -> T) -> T {
        AROUND.sync_scope(self, inside)
    }
}
