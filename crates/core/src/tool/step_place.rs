//! `StepPlace`: the step of a workflow that polls a call. A call of a tool, an agent or a workflow finds it without being
//! handed anything, is recorded below the step and can end the step.
//!
//! It calls nothing and records nothing. Work that leaves the step's task, such as a spawned one, has no place.

use std::any::{Any, TypeId};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{Either, select};

use super::history::History;
use super::node_question::NodeQuestion;
use super::replacement::ReplacedTools;
use crate::context::Context;
use crate::error::Error;
use crate::executor::{HiddenEffect, StepTurn};
use crate::failure::{Failure, FailureKind};
use crate::middleware::ToolHooks;
use crate::panics;
use crate::path::StepPath;
use crate::run::{Around, Host};
use crate::state::{EXIT, WITHOUT_OUTPUT};
use crate::value::Encoded;

/// Where calls are recorded: a step of a workflow, or the call of a tool in one.
pub(crate) struct StepPlace {
    pub(crate) cx: Context,
    /// The function that the step itself is the call of: its policy is the node's, and its first call is not recorded
    /// a second time.
    direct: Option<TypeId>,
    direct_called: AtomicBool,
    /// Whether nothing can be recorded below it yet.
    fresh: bool,
    pub(super) covered: Covered,
    /// A person agreed to the node, and no call has used the approval yet.
    approved: AtomicBool,
    /// There is one when something was called here, or said of the step.
    said: OnceLock<Box<Said>>,
    /// The step, of a call in it.
    step: Option<Arc<Self>>,
    order: WrittenOrder,
}

/// The position of a step in the written order, which calls that the plan does not show wait for.
#[derive(Default)]
pub(crate) struct WrittenOrder {
    /// The turn of the step, unless the plan shows all that it does.
    pub(crate) turn: Option<Arc<StepTurn>>,
    /// The step in which the workflow of this one was begun.
    pub(crate) outer: Option<Arc<StepPlace>>,
}

/// What the node or the tool around a call has seen to already, so that a call that cannot wait need not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Covered {
    /// A person agreed to it: to one call that cannot wait.
    pub(crate) approved: bool,
    /// Its start is kept, and it is not repeated by itself.
    pub(crate) once: bool,
    /// The question about the call that the node consists of. The call asks it.
    pub(crate) question: Option<Arc<NodeQuestion>>,
    /// It is a round of a repetition, which can end without an output.
    pub(crate) is_round: bool,
}

/// Where a value is computed: a call that has no effect and that nobody watches is a plain call there, and any other is
/// refused.
pub(crate) struct ValuePlace {
    /// Whether hooks of the runtime stand around calls of tools.
    pub(super) hooked: bool,
    /// The tools that the runtime replaces.
    pub(super) replaced: Option<ReplacedTools>,
}

/// The calls at a place and, at that of a step, what calls say of the step as a whole, however deep in it they are.
#[derive(Default)]
struct Said {
    /// The round ends without an output: that of the round before is the output of the repetition.
    without_output: AtomicBool,
    calls: Mutex<Option<Calls>>,
    failure: Mutex<Option<Failure>>,
    /// The last failure of a call of ours, whose kind an error type of the program's own may hide.
    last: Mutex<Option<Failure>>,
}

/// The calls at a place.
pub(super) struct Calls {
    /// The path below which they are recorded.
    pub(super) base: StepPath,
    pub(super) history: History,
}

/// The payload with which a call that cannot wait ends its step: it unwinds to whoever polls the step.
pub(crate) struct EndsStep(Failure);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StepPlace {
    /// A step. `fresh` says that no attempt at it began before.
    pub(crate) fn of_step(
        cx: Context,
        direct: Option<TypeId>,
        fresh: bool,
        covered: Covered,
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

    /// A call of a tool at this place: what the tool itself calls is recorded below it.
    pub(super) fn of_call(self: &Arc<Self>, cx: Context, tool: TypeId, fresh: bool, once: bool) -> Arc<Self> {
        let fresh = fresh && cx.made_before().0.is_empty();
        Arc::new(Self {
            cx,
            direct: Some(tool),
            direct_called: AtomicBool::new(false),
            fresh,
            covered: Covered { once, ..Covered::default() },
            approved: AtomicBool::new(false),
            said: OnceLock::new(),
            step: Some(Arc::clone(self.step.as_ref().unwrap_or(self))),
            order: WrittenOrder::default(),
        })
    }

    fn said(&self) -> &Said {
        self.said.get_or_init(Box::default)
    }

    /// The place of the step as a whole.
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

    /// Waits until a call with this effect may begin here: until the steps above the enclosing steps have ended. In a run
    /// that is drained, it never returns.
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

    /// Waits for the turn of the step that polls the caller. Outside of a step, returns at once.
    pub(crate) async fn until_turn_of_caller(effect: Option<HiddenEffect>) {
        if let Some(effect) = effect
            && Around::has_place()
            && let Some(place) = Self::current()
        {
            place.until_turn(effect).await;
        }
    }

    /// Returns true if a call of the step waits for the steps above it.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.order.turn.as_ref().is_some_and(|turn| turn.is_waited_for())
    }

    /// Returns true if a call with this effect may begin at this place without waiting.
    pub(crate) fn has_turn(self: &Arc<Self>, effect: HiddenEffect) -> bool {
        let is_open = |step: &Arc<Self>| step.order.turn.as_ref().is_none_or(|turn| turn.is_open(effect));
        self.steps_around().iter().all(is_open)
    }

    /// The place of the caller.
    pub(crate) fn current() -> Option<Arc<Self>> {
        Around::place()
    }

    /// The context of the step that polls the caller.
    pub(crate) fn context() -> Option<Context> {
        Self::current().map(|place| place.cx.clone())
    }

    /// Whether this is a call of a tool and not a step.
    pub(super) fn is_call(&self) -> bool {
        self.step.is_some()
    }

    /// Whether this is the call that the step consists of. It is so once.
    pub(super) fn takes_direct(&self, function: TypeId) -> bool {
        self.direct == Some(function) && !self.direct_called.swap(true, Ordering::Relaxed)
    }

    /// Uses up a person's approval of the node. The approval covers one call, so this returns true once.
    pub(super) fn takes_approval(&self) -> bool {
        self.approved.swap(false, Ordering::Relaxed)
    }

    /// Does something with the calls; what is recorded of them is read when there is the first one.
    pub(super) fn with_calls<T>(&self, act: impl FnOnce(&mut Calls) -> T) -> T {
        let mut calls = locked(&self.said().calls);
        act(calls.get_or_insert_with(|| {
            let history = if self.fresh { History::default() } else { History::read(&self.cx) };
            // An agent or a workflow that was begun here before has the path for itself.
            Calls { base: self.cx.claim_base(history.base()), history }
        }))
    }

    /// The step ends with this, whatever becomes of the rest of it. The first failure counts.
    pub(crate) fn end_step(&self, failure: Failure) {
        locked(&self.of_whole().said().failure).get_or_insert(failure);
    }

    /// Why the output of a step that was run again cannot be trusted: it did not do again what it had done.
    pub(crate) fn mismatch(&self) -> Option<Failure> {
        if self.fresh {
            return None;
        }
        self.left_over_call().or_else(|| self.cx.left_over())
    }

    /// The same of calls of tools.
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

    /// The same, at the caller's place, of a call that was not begun because of it: the step ends there.
    pub(crate) fn end_with(error: &Error) {
        if let Some(place) = Self::current() {
            place.end_step(Failure::from(error));
        }
    }

    /// Returns the innermost round of a repetition around the step at a path, if that step polls the caller. The round may
    /// be the step itself, or a step in which the workflow of this one was begun.
    pub(crate) fn round(path: &StepPath) -> Option<Arc<Self>> {
        let mut place = Self::current().filter(|place| place.cx.path() == path)?;
        while !place.is_call() {
            if place.covered.is_round {
                return Some(place);
            }
            place = place.order.outer.clone()?;
        }
        None
    }

    /// Ends the round without an output, and with it the repetition. All that runs in the round is dropped: the caller must not
    /// continue.
    pub(crate) fn end_without_output(&self) {
        if let Ok(without_output) = Encoded::from_json(WITHOUT_OUTPUT.to_owned()) {
            self.cx.run().states_or_new().change(self.cx.path(), EXIT, Some(without_output));
        }
        self.said().without_output.store(true, Ordering::Relaxed);
    }

    /// Returns true if the round has ended without an output.
    pub(crate) fn is_without_output(&self) -> bool {
        self.said.get().is_some_and(|said| said.without_output.load(Ordering::Relaxed))
    }

    /// What a call has ended the step with.
    pub(crate) fn ended(&self) -> Option<Failure> {
        locked(&self.of_whole().said.get()?.failure).take()
    }

    /// Returns the failure that ended the step, if panics abort. Without unwinding, the rest of the step is still executed.
    pub(super) fn ended_without_unwinding(&self) -> Option<Failure> {
        if panics::abort() { locked(&self.of_whole().said.get()?.failure).clone() } else { None }
    }

    /// A call of ours failed at the caller's place.
    pub(crate) fn note_failure(failure: impl FnOnce() -> Failure) {
        if Around::has_place()
            && let Some(place) = Self::current()
        {
            *locked(&place.of_whole().said().last) = Some(failure());
        }
    }

    /// The last failure of a call at the caller's place that must not be repeated, when an error tells of it: its text,
    /// or the one with its causes where it shows them.
    pub(crate) fn final_failure_in(error: &impl fmt::Display) -> Option<Failure> {
        let place = if Around::has_place() { Self::current()? } else { return None };
        let last = locked(&place.of_whole().said.get()?.last)
            .clone()
            .filter(|last| last.kind.is_final() && !last.message.is_empty())?;
        let tells = |text: String| text.contains(&last.message);
        (tells(error.to_string()) || tells(format!("{error:#}"))).then_some(last)
    }
}

impl ValuePlace {
    /// Computes a value there. Of a value without a host nobody knows who watches.
    pub(crate) fn compute<T>(host: Option<&Host>, value: impl FnOnce() -> T) -> T {
        static PLACES: [OnceLock<Arc<ValuePlace>>; 2] = [OnceLock::new(), OnceLock::new()];
        let hooked = host.is_some_and(ToolHooks::are_around);
        let place = match host.and_then(ReplacedTools::of) {
            None => Arc::clone(PLACES[usize::from(hooked)].get_or_init(|| Arc::new(Self { hooked, replaced: None }))),
            replaced => Arc::new(Self { hooked, replaced }),
        };
        Around::at(place).sync_scope(value)
    }

    /// Where the caller computes a value.
    pub(super) fn current() -> Option<Arc<Self>> {
        Around::place()
    }
}

impl EndsStep {
    /// Ends the step of a call that cannot wait.
    pub(super) fn unwind(failure: Failure) -> ! {
        if panics::abort() {
            tracing::error!(error = %failure.message, "a step cannot be ended without a panic, which ends the process");
        }
        std::panic::resume_unwind(Box::new(Self(failure)))
    }

    /// The failure, when a panic is one of these.
    pub(crate) fn of(panic: &(dyn Any + Send)) -> Option<&Failure> {
        panic.downcast_ref::<Self>().map(|Self(failure)| failure)
    }
}
