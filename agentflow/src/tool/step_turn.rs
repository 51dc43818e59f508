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
    /// Wakers of the calls that wait.
    waiting: Vec<(HiddenEffect, Waker)>,
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
        let (woken, rest) = waiting.into_iter().partition(|(effect, _)| state.is_open(*effect));
        state.waiting = rest;
        drop(state);
        let woken: Vec<(HiddenEffect, Waker)> = woken;
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Polls until a call with this effect may begin.
    pub(crate) fn poll(&self, effect: HiddenEffect, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.is_open(effect) {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|(of, waker)| *of == effect && waker.will_wake(cx.waker())) {
            state.waiting.push((effect, cx.waker().clone()));
            self.changed.store(true, Ordering::Relaxed);
        }
        Poll::Pending
    }
}
