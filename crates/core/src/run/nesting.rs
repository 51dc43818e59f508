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
use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};

use crate::error::{Error, FailureKind, Result};
use crate::future::BoxFuture;

/// The default of [`RuntimeBuilder::max_nesting`](crate::runtime::RuntimeBuilder::max_nesting).
pub(crate) const MAX_NESTING: u32 = 16;

thread_local! {
    /// What stands around the future that this thread polls now. It is exchanged for each poll, so it belongs to the task.
    static AROUND: RefCell<Option<Around>> = const { RefCell::new(None) };
    /// What this thread drops now belongs to a step that is stopped as a whole.
    static STOPS: Cell<bool> = const { Cell::new(false) };
}

/// Drops what belongs to a step that is stopped as a whole: what is open in it was not dropped by the step itself.
pub(crate) fn stopping(drops: impl FnOnce()) {
    /// Also after a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            let _ = STOPS.try_with(|stops| stops.set(self.0));
        }
    }
    let _before = Before(STOPS.try_with(|stops| stops.replace(true)).unwrap_or_default());
    drops();
}

/// Why something in a step ends that is dropped now: the step dropped it, or is dropped itself.
pub(crate) fn why_dropped() -> &'static str {
    match STOPS.try_with(Cell::get).unwrap_or_default() {
        true => WITH_STEP,
        false => BY_STEP,
    }
}

/// Why an agent, a workflow or a call in a step ended that the step had dropped. The texts are stored, so they never
/// change.
pub(crate) const BY_STEP: &str = "the step dropped it";

/// The same of a step that was dropped itself; earlier releases said so of both.
pub(crate) const WITH_STEP: &str = "the step was dropped";

/// What stands around that which is polled.
#[derive(Clone, Default)]
pub(crate) struct Around {
    /// How many agents and workflows.
    depth: u32,
    /// Set when one inside was refused, for the innermost tool call around it. There is one once something inside may be.
    exceeded: Option<Arc<AtomicBool>>,
    /// The place of the step that polls, when it is the step of a workflow and no agent or workflow in it.
    place: Option<Arc<dyn Any + Send + Sync>>,
}

impl Around {
    /// Looks at what stands around the caller, if something does.
    #[inline]
    fn look<T>(look: impl FnOnce(&Self) -> T) -> Option<T> {
        AROUND.try_with(|around| around.borrow().as_ref().map(look)).ok().flatten()
    }

    /// What stands around the caller.
    pub(crate) fn current() -> Self {
        let shared = |around: &mut Self| {
            around.exceeded.get_or_insert_default();
            around.clone()
        };
        AROUND.try_with(|around| around.borrow_mut().as_mut().map(shared)).ok().flatten().unwrap_or_default()
    }

    /// How many agents and workflows stand around the caller.
    pub(crate) fn depth() -> u32 {
        Self::look(|around| around.depth).unwrap_or_default()
    }

    /// Whether a step of a workflow polls the caller: one look at the task.
    #[inline]
    pub(crate) fn has_place() -> bool {
        Self::look(|around| around.place.is_some()).unwrap_or(false)
    }

    /// The place of the step that polls the caller.
    pub(crate) fn place<P: Any + Send + Sync>() -> Option<Arc<P>> {
        let place = Self::look(|around| around.place.clone()).flatten()?;
        place.downcast().ok()
    }

    /// The same as around the caller, at a place.
    pub(crate) fn at<P: Any + Send + Sync>(place: Arc<P>) -> Self {
        Self { place: Some(place), ..Self::current() }
    }

    /// What stands around a call of a tool, and a step of another process.
    pub(crate) fn of_depth(depth: u32) -> Self {
        Self { depth, ..Self::default() }
    }

    /// Another agent or workflow begins inside of this; `known` is how many the caller's context says stand around it.
    ///
    /// # Errors
    /// [`Error::NestingLimit`].
    pub(crate) fn enter(limit: u32, known: u32) -> Result<Self> {
        let mut around = Self::current();
        around.depth = around.depth.max(known);
        if around.depth >= limit {
            around.exceed();
            return Err(Error::NestingLimit { depth: limit });
        }
        around.depth += 1;
        around.place = None;
        Ok(around)
    }

    /// Something inside was refused for the limit.
    fn exceed(&self) {
        if let Some(exceeded) = &self.exceeded {
            exceeded.store(true, Ordering::Relaxed);
        }
    }

    /// Polls what is inside of this.
    ///
    /// All levels are on one stack, and a frame holds room for each future that it makes: so whoever calls this boxes
    /// an agent or a workflow before, in a function that returns.
    pub(crate) fn scope<'f, T: 'f>(self, inside: BoxFuture<'f, T>) -> impl Future<Output = T> + Send + 'f {
        self.within(inside)
    }

    /// Polls a future of any type inside of this.
    pub(crate) fn within<F: Future>(self, inside: F) -> impl Future<Output = F::Output> {
        let (around, inside) = (self.into_slot(), Some(inside));
        async move {
            let mut within = Within { around, inside: pin!(inside) };
            std::future::poll_fn(|cx| within.poll(cx)).await
        }
    }

    /// Polls an agent inside of this. When it ends because of the limit, now or in an earlier process, the tool call
    /// around it learns of that.
    pub(crate) async fn poll<T>(self, agent: BoxFuture<'_, Result<T>>) -> Result<T> {
        let outer = Self { exceeded: self.exceeded.clone(), ..Self::default() };
        let outcome = self.scope(agent).await;
        if outcome.as_ref().is_err_and(|error| error.kind() == FailureKind::NestingLimit) {
            outer.exceed();
        }
        outcome
    }

    /// Polls a tool call inside of this, where the caller has pinned it. Also says whether something in it was refused for
    /// the limit.
    pub(crate) async fn tool_call<F: Future>(depth: u32, call: Pin<&mut Option<F>>) -> (F::Output, bool) {
        let mut within = Within { around: Self::of_depth(depth).into_slot(), inside: call };
        let outcome = std::future::poll_fn(|cx| within.poll(cx)).await;
        let exceeded = within.around.0.as_ref().and_then(|around| around.exceeded.as_ref());
        (outcome, exceeded.is_some_and(|exceeded| exceeded.load(Ordering::Relaxed)))
    }

    /// Runs a function inside of this, also on another thread.
    pub(crate) fn sync_scope<T>(self, inside: impl FnOnce() -> T) -> T {
        self.into_slot().run(inside)
    }

    pub(crate) fn into_slot(self) -> AroundSlot {
        AroundSlot(Some(self))
    }
}

/// What stands around a future, kept beside it from one poll to the next.
pub(crate) struct AroundSlot(Option<Around>);

impl AroundSlot {
    /// Runs a function inside of this, and has it again when the function ends, also by a panic.
    #[inline]
    pub(crate) fn run<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        self.exchange();
        let _entered = Entered(self);
        inside()
    }

    #[inline]
    fn exchange(&mut self) {
        // What is dropped while its thread ends has nothing around it.
        let _ = AROUND.try_with(|around| std::mem::swap(&mut *around.borrow_mut(), &mut self.0));
    }
}

/// Leaves when it is dropped.
struct Entered<'s>(&'s mut AroundSlot);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.exchange();
    }
}

/// A future with what stands around it, also while it is dropped.
struct Within<'f, F> {
    around: AroundSlot,
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
        around.run(|| inside.set(None));
    }
}
