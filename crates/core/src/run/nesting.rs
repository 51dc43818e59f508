//! Limits the nesting depth of agents and workflows, so that unbounded recursion ends with an error
//! instead of a stack overflow.
//!
//! All work of a run is polled within one future, and work that starts in a step is polled within
//! that step, so each level uses part of the stack. The depth is a task-local value, so it also
//! counts separate runs that a step awaits. Each [`Context`](crate::Context) contains it too, so it
//! also counts work that a step moves to another task.
//!
//! The task-local scope also contains the workflow step that polls the caller, so that a call to a
//! tool, an agent or a workflow belongs to that step. The type of this value is opaque here.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};

use crate::error::{Error, FailureKind, Result};
use crate::future::BoxFuture;

/// Default of [`RuntimeBuilder::max_nesting`](crate::runtime::RuntimeBuilder::max_nesting).
pub(crate) const MAX_NESTING: u32 = 16;

thread_local! {
    /// The scope of the future that this thread polls now. It is swapped at each poll, so it
    /// belongs to the task.
    static AROUND: RefCell<Option<Around>> = const { RefCell::new(None) };
    /// `true` while this thread drops the contents of a step that is stopped as a whole.
    static STOPS: Cell<bool> = const { Cell::new(false) };
}

/// Drops the contents of a step that is stopped as a whole. Open work in it is then recorded as
/// stopped with the step.
pub(crate) fn stopping(drops: impl FnOnce()) {
    /// Restores the flag, also after a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            let _ = STOPS.try_with(|stops| stops.set(self.0));
        }
    }
    let _before = Before(STOPS.try_with(|stops| stops.replace(true)).unwrap_or_default());
    drops();
}

/// Returns the recorded reason for work in a step that is being dropped: either the step dropped
/// it, or the step itself is dropped.
pub(crate) fn why_dropped() -> &'static str {
    match STOPS.try_with(Cell::get).unwrap_or_default() {
        true => WITH_STEP,
        false => BY_STEP,
    }
}

/// Recorded reason for work that its step dropped. The text is stored, so it never changes.
pub(crate) const BY_STEP: &str = "the step dropped it";

/// Recorded reason for work whose step was dropped. Earlier releases recorded it in both cases.
pub(crate) const WITH_STEP: &str = "the step was dropped";

/// The task-local scope of a polled future.
#[derive(Clone, Default)]
pub(crate) struct Around {
    /// Number of agents and workflows that contain the future.
    depth: u32,
    /// Set when the depth limit refused a call within the innermost tool call. Created on demand.
    exceeded: Option<Arc<AtomicBool>>,
    /// The workflow step that polls the future. `None` within an agent or a workflow of the step.
    place: Option<Arc<dyn Any + Send + Sync>>,
}

impl Around {
    /// Calls `look` with the current scope, if there is one.
    #[inline]
    fn look<T>(look: impl FnOnce(&Self) -> T) -> Option<T> {
        AROUND.try_with(|around| around.borrow().as_ref().map(look)).ok().flatten()
    }

    /// Returns a copy of the current scope.
    pub(crate) fn current() -> Self {
        let shared = |around: &mut Self| {
            // Created before the copy, so that both share the flag.
            around.exceeded.get_or_insert_default();
            around.clone()
        };
        AROUND
            .try_with(|around| around.borrow_mut().as_mut().map(shared))
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Returns the number of agents and workflows that contain the caller.
    pub(crate) fn depth() -> u32 {
        Self::look(|around| around.depth).unwrap_or_default()
    }

    /// Returns `true` if a workflow step polls the caller.
    #[inline]
    pub(crate) fn has_place() -> bool {
        Self::look(|around| around.place.is_some()).unwrap_or(false)
    }

    /// Returns the workflow step that polls the caller, if it has type `P`.
    pub(crate) fn place<P: Any + Send + Sync>() -> Option<Arc<P>> {
        let place = Self::look(|around| around.place.clone()).flatten()?;
        place.downcast().ok()
    }

    /// Returns a copy of the current scope with this step.
    pub(crate) fn at<P: Any + Send + Sync>(place: Arc<P>) -> Self {
        Self { place: Some(place), ..Self::current() }
    }

    /// Creates the scope of a tool call or of a step of another process.
    pub(crate) fn with_depth(depth: u32) -> Self {
        Self { depth, ..Self::default() }
    }

    /// Creates the scope of an agent or workflow that starts within the current scope. `known` is
    /// the depth according to the caller's context.
    ///
    /// # Errors
    /// [`Error::NestingLimit`] if the limit is reached.
    pub(crate) fn enter(limit: u32, known: u32) -> Result<Self> {
        let mut around = Self::current();
        // The context has the depth if a step moved the work to another task, whose scope is empty.
        around.depth = around.depth.max(known);
        if around.depth >= limit {
            around.exceed();
            return Err(Error::NestingLimit { depth: limit });
        }
        around.depth += 1;
        around.place = None;
        Ok(around)
    }

    /// Reports to the enclosing tool call that the limit refused a call.
    fn exceed(&self) {
        if let Some(exceeded) = &self.exceeded {
            exceeded.store(true, Ordering::Relaxed);
        }
    }

    /// Polls a future within this scope.
    ///
    /// All levels share one stack, and a stack frame reserves space for each future that it
    /// creates. The caller therefore boxes an agent or a workflow beforehand, in a function that
    /// returns.
    pub(crate) fn scope<'f, T: 'f>(
        self,
        inside: BoxFuture<'f, T>,
    ) -> impl Future<Output = T> + Send + 'f {
        self.within(inside)
    }

    /// Polls a future of any type within this scope.
    pub(crate) fn within<F: Future>(self, inside: F) -> impl Future<Output = F::Output> {
        let (around, inside) = (self.into_slot(), Some(inside));
        async move {
            let mut within = Within { around, inside: pin!(inside) };
            std::future::poll_fn(|cx| within.poll(cx)).await
        }
    }

    /// Polls an agent within this scope. If the agent ends because of the limit, now or in an
    /// earlier process, the enclosing tool call is notified.
    pub(crate) async fn poll<T>(self, agent: BoxFuture<'_, Result<T>>) -> Result<T> {
        let outer = Self { exceeded: self.exceeded.clone(), ..Self::default() };
        let outcome = self.scope(agent).await;
        if outcome.as_ref().is_err_and(|error| error.kind() == FailureKind::NestingLimit) {
            outer.exceed();
        }
        outcome
    }

    /// Polls a pinned tool call in a new scope. Also returns `true` if the limit refused a call
    /// within it.
    pub(crate) async fn tool_call<F: Future>(
        depth: u32,
        call: Pin<&mut Option<F>>,
    ) -> (F::Output, bool) {
        let mut within = Within { around: Self::with_depth(depth).into_slot(), inside: call };
        let outcome = std::future::poll_fn(|cx| within.poll(cx)).await;
        let exceeded = within.around.0.as_ref().and_then(|around| around.exceeded.as_ref());
        (outcome, exceeded.is_some_and(|exceeded| exceeded.load(Ordering::Relaxed)))
    }

    /// Calls a function within this scope, also on another thread.
    pub(crate) fn sync_scope<T>(self, inside: impl FnOnce() -> T) -> T {
        self.into_slot().run(inside)
    }

    pub(crate) fn into_slot(self) -> TaskScopeSlot {
        TaskScopeSlot(Some(self))
    }
}

/// The scope of a future, stored between polls.
pub(crate) struct TaskScopeSlot(Option<Around>);

impl TaskScopeSlot {
    /// Calls a function within the scope, and stores the scope again afterwards, also after a
    /// panic.
    #[inline]
    pub(crate) fn run<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        self.exchange();
        let _entered = TaskScopeGuard(self);
        inside()
    }

    #[inline]
    fn exchange(&mut self) {
        // Fails only while the thread ends. Values dropped then have no scope.
        let _ = AROUND.try_with(|around| std::mem::swap(&mut *around.borrow_mut(), &mut self.0));
    }
}

/// Leaves the scope when dropped.
struct TaskScopeGuard<'s>(&'s mut TaskScopeSlot);

impl Drop for TaskScopeGuard<'_> {
    fn drop(&mut self) {
        self.0.exchange();
    }
}

/// A future with its scope. The scope also applies while the future is dropped.
struct Within<'f, F> {
    around: TaskScopeSlot,
    inside: Pin<&'f mut Option<F>>,
}

impl<F: Future> Within<'_, F> {
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        let Self { around, inside } = self;
        around.run(|| match inside.as_mut().as_pin_mut() {
            Some(inside) => inside.poll(cx),
            None => Poll::Pending,
        })
    }
}

impl<F> Drop for Within<'_, F> {
    fn drop(&mut self) {
        let Self { around, inside } = self;
        // Destructors of the future may use the scope.
        around.run(|| inside.set(None));
    }
}
