//! Delays calls that the plan does not show. A step may call a plain function that calls tools, agents or workflows. Such a
//! call waits until the steps that are written above have ended, as it would in sequential code.
//!
//! The order of the steps is not kept here: the driver opens their turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::ToolPolicy;
use crate::tool_definition::Effects;

/// The effect of a call that the plan does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HiddenEffect {
    /// It reads data that a step above may have changed.
    Reads,
    /// It changes something, or asks a person.
    Writes,
}

impl HiddenEffect {
    /// Returns the effect of a tool, or `None` if the tool depends only on its arguments.
    pub(crate) fn of_policy(policy: &ToolPolicy) -> Option<Self> {
        match policy.effects {
            Effects::Write => Some(Self::Writes),
            _ if policy.approve => Some(Self::Writes),
            Effects::Read => Some(Self::Reads),
            Effects::None => None,
        }
    }

    /// Returns the strongest effect.
    pub(crate) fn strongest(all: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let mut strongest = None;
        for one in all.into_iter().flatten() {
            if one == Self::Writes || strongest.is_none() {
                strongest = Some(one);
            }
        }
        strongest
    }
}

/// The turn of a step: lets the calls begin that the plan does not show.
pub(crate) struct StepTurn {
    state: Mutex<State>,
    /// Set when a call begins to wait. The driver reads it.
    changed: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    may_read: bool,
    may_write: bool,
    /// The calls that wait.
    waiting: Vec<Waiting>,
    /// Number of calls that have waited so far.
    begun: u64,
}

struct Waiting {
    number: u64,
    effect: HiddenEffect,
    waker: Waker,
}

impl State {
    fn is_open(&self, effect: HiddenEffect) -> bool {
        match effect {
            HiddenEffect::Reads => self.may_read,
            HiddenEffect::Writes => self.may_write,
        }
    }
}

impl StepTurn {
    pub(crate) fn new(changed: &Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Arc::clone(changed) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a call with this effect may begin.
    pub(crate) fn is_open(&self, effect: HiddenEffect) -> bool {
        self.state().is_open(effect)
    }

    /// Returns true while a call waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Lets calls with this effect begin.
    pub(crate) fn open(&self, effect: HiddenEffect) {
        let mut state = self.state();
        match effect {
            HiddenEffect::Reads => state.may_read = true,
            HiddenEffect::Writes => (state.may_read, state.may_write) = (true, true),
        }
        let waiting = std::mem::take(&mut state.waiting);
        let (woken, rest): (Vec<Waiting>, _) = waiting.into_iter().partition(|call| state.is_open(call.effect));
        state.waiting = rest;
        drop(state);
        woken.into_iter().for_each(|call| call.waker.wake());
    }

    /// Waits until a call with this effect may begin.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn opened(&self, effect: HiddenEffect) {
        let mut wait = TurnWait { turn: self, effect, number: None };
        std::future::poll_fn(|cx| wait.poll(cx)).await;
    }
}

/// The wait of one call.
struct TurnWait<'t> {
    turn: &'t StepTurn,
    effect: HiddenEffect,
    /// Its number in [`Waiting`], once it has begun.
    number: Option<u64>,
}

impl TurnWait<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.turn.state();
        if state.is_open(self.effect) {
            return Poll::Ready(());
        }
        let known = self.number.and_then(|number| state.waiting.iter_mut().find(|call| call.number == number));
        if let Some(known) = known {
            known.waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        state.begun += 1;
        let number = state.begun;
        state.waiting.push(Waiting { number, effect: self.effect, waker: cx.waker().clone() });
        self.number = Some(number);
        self.turn.changed.store(true, Ordering::Relaxed);
        Poll::Pending
    }
}

impl Drop for TurnWait<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.turn.state();
        let before = state.waiting.len();
        state.waiting.retain(|call| call.number != number);
        if state.waiting.len() < before {
            self.turn.changed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// The time limit of a step stands still while a call waits, so a wait that has ended must not count.
    #[test]
    fn a_dropped_call_does_not_wait() {
        let turn = StepTurn::new(&Arc::default());
        let mut first = Box::pin(turn.opened(HiddenEffect::Writes));
        let mut second = Box::pin(turn.opened(HiddenEffect::Writes));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(turn.is_waited_for());
        turn.open(HiddenEffect::Reads);
        assert!(second.as_mut().now_or_never().is_none() && turn.is_waited_for());
        drop(second);
        assert!(!turn.is_waited_for());
    }
}
