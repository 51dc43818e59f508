//! The current step of a workflow, in a task-local scope.
//!
//! A call to a tool, an agent or a workflow finds the step without a parameter, is recorded below
//! it, and can end it. This module calls and records nothing. Work that leaves the step's task,
//! such as a spawned task, has no current step.

use std::any::{Any, TypeId};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};

use super::history::StepCallHistory;
use super::node_question::NodeQuestion;
use super::replacement::ReplacedTools;
use crate::context::Context;
use crate::error::Error;
use crate::executor::{HiddenCalls, HiddenEffect};
use crate::failure::{Failure, FailureKind};
use crate::middleware::ToolHooks;
use crate::panics;
use crate::path::StepPath;
use crate::run::{Around, Host};
use crate::state::{EXIT, WITHOUT_OUTPUT};
use crate::value::Encoded;

/// The scope below which calls are recorded: a workflow step, or the call to a tool inside a step.
pub(crate) struct CurrentStep {
    pub(crate) cx: Context,
    /// The function that the step itself calls. Its policy is the policy of the node, and its first
    /// call is not recorded a second time.
    direct: Option<TypeId>,
    direct_called: AtomicBool,
    /// `true` if the journal cannot have records below this place yet.
    fresh: bool,
    pub(super) covered: NodeGuarantees,
    /// `true` until a call uses the approval that a person gave to the node.
    approved: AtomicBool,
    /// The calls at this place and their effects on the step. Created with the first of them.
    said: OnceLock<Box<Said>>,
    /// The enclosing step, if this is a call to a tool.
    step: Option<Arc<Self>>,
    order: WrittenOrder,
}

/// The position of a step in the written order. Calls that the plan does not show wait for it.
#[derive(Default)]
pub(crate) struct WrittenOrder {
    /// The turn of the step. `None` if the plan shows all effects of the step.
    pub(crate) turn: Option<Arc<HiddenCalls>>,
    /// The step that started the workflow of this step.
    pub(crate) outer: Option<Arc<CurrentStep>>,
}

/// Duties that the enclosing node or tool has already fulfilled, so that a call that cannot wait
/// does not have to.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeGuarantees {
    /// `true` if a person approved the node. The approval covers one call that cannot wait.
    pub(crate) approved: bool,
    /// `true` if the start of the enclosing node or call is stored and it is not retried on its
    /// own.
    pub(crate) once: bool,
    /// The question about the call that the node consists of. The call sends it.
    pub(crate) question: Option<Arc<NodeQuestion>>,
    /// `true` if the step is a round of a repetition, which can end without an output.
    pub(crate) is_round: bool,
    /// Time limit of an attempt at the node.
    pub(crate) time_limit: Option<Duration>,
}

/// The scope in which a value is computed. A call without effects, hooks or replacement is a plain
/// function call there; any other call is refused.
pub(crate) struct ValueScope {
    /// `true` if the runtime has hooks for tool calls.
    pub(super) hooked: bool,
    /// The tools that the runtime replaces.
    pub(super) replaced: Option<ReplacedTools>,
    /// The failure with which a refused call ended the value. Used only if panics abort.
    ended: OnceLock<Failure>,
}

/// The calls at a place. For a step also the events that concern the whole step, reported by calls
/// at any depth.
#[derive(Default)]
struct Said {
    /// `true` if the round ended without an output. The previous round's output is then the output
    /// of the repetition.
    without_output: AtomicBool,
    calls: Mutex<Option<Calls>>,
    failure: Mutex<Option<Failure>>,
    /// The last failure of an SDK call. The program's own error type may hide its kind.
    last: Mutex<Option<Failure>>,
}

/// The calls at a place.
pub(super) struct Calls {
    /// The path below which the calls are recorded.
    pub(super) base: StepPath,
    pub(super) history: StepCallHistory,
}

/// Panic payload with which a call that cannot wait ends its step. It unwinds to the poller of the
/// step.
pub(crate) struct StepEndPanic(Failure);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CurrentStep {
    /// Creates the place of a step. `fresh` is `true` if no attempt of the step was started before.
    pub(crate) fn of_step(
        cx: Context,
        direct: Option<TypeId>,
        fresh: bool,
        covered: NodeGuarantees,
        order: WrittenOrder,
    ) -> Arc<Self> {
        Arc::new(Self {
            cx,
            direct,
            direct_called: AtomicBool::new(false),
            fresh,
            approved: AtomicBool::new(covered.approved),
            covered,
            said: OnceLock::new(),
            step: None,
            order,
        })
    }

    /// Creates the place of a tool call. The tool's own calls are recorded below it.
    pub(super) fn of_call(
        self: &Arc<Self>,
        cx: Context,
        tool: TypeId,
        fresh: bool,
        once: bool,
    ) -> Arc<Self> {
        // Earlier attempts may have recorded calls below another path of this call.
        let fresh = fresh && cx.made_before().0.is_empty();
        Arc::new(Self {
            cx,
            direct: Some(tool),
            direct_called: AtomicBool::new(false),
            fresh,
            covered: NodeGuarantees { once, ..NodeGuarantees::default() },
            approved: AtomicBool::new(false),
            said: OnceLock::new(),
            step: Some(Arc::clone(self.step.as_ref().unwrap_or(self))),
            order: WrittenOrder::default(),
        })
    }

    fn said(&self) -> &Said {
        self.said.get_or_init(Box::default)
    }

    /// Returns the place of the enclosing step, or this place if it is a step.
    fn of_whole(&self) -> &Self {
        self.step.as_deref().unwrap_or(self)
    }

    /// Returns the enclosing steps that have a turn, the innermost first.
    fn steps_around(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut steps = Vec::new();
        let mut next = Some(Arc::clone(self.step.as_ref().unwrap_or(self)));
        while let Some(step) = next {
            next = step.order.outer.clone();
            if step.order.turn.is_some() {
                steps.push(step);
            }
        }
        steps
    }

    /// Waits until a call with this effect may start here: until the steps above the enclosing
    /// steps have ended. Never returns in a run that is being drained.
    pub(crate) async fn until_turn(self: &Arc<Self>, effect: HiddenEffect) {
        for step in self.steps_around() {
            let Some(turn) = &step.order.turn else { continue };
            let mut opened = pin!(turn.opened(effect));
            if (&mut opened).now_or_never().is_some() {
                continue;
            }
            let shared = step.cx.run();
            let drained = pin!(shared.until_drained());
            match select(opened, drained).await {
                Either::Left(_) => {}
                Either::Right(_) => shared.park(self.cx.path()).await,
            }
        }
    }

    /// Waits for the turn of the current step. Returns at once outside of a step.
    pub(crate) async fn until_turn_of_caller(effect: Option<HiddenEffect>) {
        if let Some(effect) = effect
            && Around::has_place()
            && let Some(place) = Self::current()
        {
            place.until_turn(effect).await;
        }
    }

    /// Returns `true` if a call of the step is waiting for the steps above it.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.order.turn.as_ref().is_some_and(|turn| turn.is_waited_for())
    }

    /// Returns `true` if a call with this effect may start here without waiting.
    pub(crate) fn has_turn(self: &Arc<Self>, effect: HiddenEffect) -> bool {
        let is_open =
            |step: &Arc<Self>| step.order.turn.as_ref().is_none_or(|turn| turn.is_open(effect));
        self.steps_around().iter().all(is_open)
    }

    /// Returns the current place.
    pub(crate) fn current() -> Option<Arc<Self>> {
        Around::place()
    }

    /// Returns the context of the current step.
    pub(crate) fn context() -> Option<Context> {
        Self::current().map(|place| place.cx.clone())
    }

    /// Returns `true` if this is a call to a tool and not a step.
    pub(super) fn is_call(&self) -> bool {
        self.step.is_some()
    }

    /// Returns `true` for the call that the step consists of, the first time only.
    pub(super) fn takes_direct(&self, function: TypeId) -> bool {
        self.direct == Some(function) && !self.direct_called.swap(true, Ordering::Relaxed)
    }

    /// Uses up a person's approval of the node. The approval covers one call, so this returns
    /// `true` once.
    pub(super) fn takes_approval(&self) -> bool {
        self.approved.swap(false, Ordering::Relaxed)
    }

    /// Calls `act` with the calls at this place. The journal is read on the first use.
    pub(super) fn with_calls<T>(&self, act: impl FnOnce(&mut Calls) -> T) -> T {
        let mut calls = locked(&self.said().calls);
        act(calls.get_or_insert_with(|| {
            let history = if self.fresh {
                StepCallHistory::default()
            } else {
                StepCallHistory::read(&self.cx)
            };
            // Paths that an agent or a workflow used here before belong to it, so calls get another
            // base.
            Calls { base: self.cx.claim_base(history.base()), history }
        }))
    }

    /// Ends the step with a failure, regardless of how the rest of it ends. The first failure
    /// counts.
    pub(crate) fn end_step(&self, failure: Failure) {
        locked(&self.of_whole().said().failure).get_or_insert(failure);
    }

    /// Returns a failure if a step that ran again did not repeat the recorded work of its earlier
    /// attempt. Its output cannot be trusted.
    pub(crate) fn mismatch(&self) -> Option<Failure> {
        if self.fresh {
            return None;
        }
        self.left_over_call().or_else(|| self.cx.left_over())
    }

    /// Returns the failure for a recorded tool call that the step did not repeat.
    fn left_over_call(&self) -> Option<Failure> {
        let calls = locked(&self.said.get()?.calls);
        let (name, arguments) = calls.as_ref()?.history.left_over()?;
        let message = format!(
            "the program stopped in the middle of this step, which had called `{name}` with {arguments}; run again, it \
             called `{name}` with other arguments and not with these, so it may have had an effect twice: find out, then \
             retry the node or cancel the run. Let times, random numbers and ids that it is given come from a step of \
             their own, which is recorded"
        );
        Some(Failure::new(FailureKind::Interrupted, message))
    }

    /// Ends the current step because a call in it was not started.
    pub(crate) fn end_with(error: &Error) {
        if let Some(place) = Self::current() {
            place.end_step(Failure::from(error));
        }
    }

    /// Returns the innermost round of a repetition that contains the step at `path`, if that step
    /// is the current one. The round may be the step itself, or a step that started the workflow of
    /// this one.
    pub(crate) fn round(path: &StepPath) -> Option<Arc<Self>> {
        let mut place = Self::current().filter(|place| place.cx.path() == path)?;
        // A tool between the caller and the round hides the round: the tool must not end it.
        while !place.is_call() {
            if place.covered.is_round {
                return Some(place);
            }
            place = place.order.outer.clone()?;
        }
        None
    }

    /// Ends the round without an output, and with it the repetition. All work in the round is
    /// dropped, so the caller must not continue.
    pub(crate) fn end_without_output(&self) {
        if let Ok(without_output) = Encoded::from_json(WITHOUT_OUTPUT.to_owned()) {
            self.cx.run().states_or_new().change(self.cx.path(), EXIT, Some(without_output));
        }
        self.said().without_output.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the round has ended without an output.
    pub(crate) fn is_without_output(&self) -> bool {
        self.said.get().is_some_and(|said| said.without_output.load(Ordering::Relaxed))
    }

    /// Takes the failure with which a call has ended the step.
    pub(crate) fn ended(&self) -> Option<Failure> {
        locked(&self.of_whole().said.get()?.failure).take()
    }

    /// Returns the failure that ended the step, if panics abort. Without unwinding, the rest of the
    /// step is still executed.
    pub(super) fn ended_without_unwinding(&self) -> Option<Failure> {
        if panics::abort() { locked(&self.of_whole().said.get()?.failure).clone() } else { None }
    }

    /// Stores the failure of an SDK call at the current step for [`Self::final_failure_in`].
    pub(crate) fn note_failure(failure: impl FnOnce() -> Failure) {
        if Around::has_place()
            && let Some(place) = Self::current()
        {
            *locked(&place.of_whole().said().last) = Some(failure());
        }
    }

    /// Returns the last failure noted at the current step if it must not be retried and `error`
    /// contains its message, in its `Display` or its alternate form.
    pub(crate) fn final_failure_in(error: &impl fmt::Display) -> Option<Failure> {
        let place = if Around::has_place() { Self::current()? } else { return None };
        let last = locked(&place.of_whole().said.get()?.last)
            .clone()
            .filter(|last| last.kind.is_final() && !last.message.is_empty())?;
        // Error types often contain the message of their source, in one of the two forms.
        let tells = |text: String| text.contains(&last.message);
        (tells(error.to_string()) || tells(format!("{error:#}"))).then_some(last)
    }
}

impl ValueScope {
    /// Computes a value in this scope. Without a host, hooks and replacements are unknown and count
    /// as absent.
    ///
    /// # Errors
    /// The failure of a call that must not be made in a value. If panics do not abort, the call
    /// unwinds instead.
    pub(crate) fn compute<T>(host: Option<&Host>, value: impl FnOnce() -> T) -> Result<T, Failure> {
        // Almost all values need one of two constant places, so those are shared.
        static PLACES: [OnceLock<Arc<ValueScope>>; 2] = [OnceLock::new(), OnceLock::new()];
        let hooked = host.is_some_and(ToolHooks::exist_on);
        let new = |replaced| Arc::new(Self { hooked, replaced, ended: OnceLock::new() });
        let place = match host.and_then(ReplacedTools::of_host) {
            // A place that a call can end belongs to one value.
            replaced if panics::abort() => new(replaced),
            None => Arc::clone(PLACES[usize::from(hooked)].get_or_init(|| new(None))),
            replaced => new(replaced),
        };
        let value = Around::at(Arc::clone(&place)).sync_scope(value);
        match place.ended.get() {
            Some(failure) => Err(failure.clone()),
            None => Ok(value),
        }
    }

    /// Ends the value with a failure. Returns the failure if panics abort, so that the call has to
    /// return it; otherwise unwinds.
    pub(super) fn end(&self, failure: Failure) -> Failure {
        if !panics::abort() {
            StepEndPanic::unwind(failure);
        }
        self.ended.get_or_init(|| failure).clone()
    }

    /// Returns the scope of the value that the caller computes.
    pub(super) fn current() -> Option<Arc<Self>> {
        Around::place()
    }
}

impl StepEndPanic {
    /// Ends the step of a call that cannot wait, by unwinding.
    pub(super) fn unwind(failure: Failure) -> ! {
        if panics::abort() {
            tracing::error!(error = %failure.message, "a step cannot be ended without a panic, which ends the process");
        }
        std::panic::resume_unwind(Box::new(Self(failure)))
    }

    /// Returns the failure if a panic payload is an `StepEndPanic`.
    pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> Option<&Failure> {
        panic.downcast_ref::<Self>().map(|Self(failure)| failure)
    }
}
