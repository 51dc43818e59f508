//! Delays the *hidden calls* of a step: tool calls that its plan does not show.
//!
//! A step may call a plain function that calls tools, agents or workflows. Such a call waits until
//! the steps written above it have ended, as it would in sequential code. The driver of the
//! workflow decides when a call may start; this module only holds the waiting calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::tool_definition::{Effects, ToolPolicy};

/// The effect of a hidden call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HiddenEffect {
    /// The call reads data that a step above may have changed.
    Reads,
    /// The call changes data, or asks a person.
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

    /// Returns the effects of a tool with this effect.
    fn as_effects(self) -> Effects {
        match self {
            Self::Reads => Effects::Read,
            Self::Writes => Effects::Write,
        }
    }

    /// Returns the effect of a tool with these effects, or `None` if the tool depends only on its
    /// arguments.
    fn of_effects(effects: Effects) -> Option<Self> {
        match effects {
            Effects::None => None,
            Effects::Read => Some(Self::Reads),
            Effects::Write => Some(Self::Writes),
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

/// Blocks the hidden calls of one step until the driver of the workflow allows them.
pub(crate) struct HiddenCalls {
    state: Mutex<TurnState>,
    /// Set when a call starts or stops waiting. The driver reads it.
    changed: Arc<AtomicBool>,
}

#[derive(Default)]
struct TurnState {
    may_read: bool,
    may_write: bool,
    /// The waiting calls.
    waiting: Vec<Waiting>,
    /// Number of calls that have waited so far.
    begun: u64,
    /// The strongest effect among calls that wait in the process that executes the step remotely.
    elsewhere: Option<HiddenEffect>,
}

struct Waiting {
    number: u64,
    effect: HiddenEffect,
    waker: Waker,
    /// `true` for an observer, which is not a waiting call.
    watches: bool,
}

impl TurnState {
    fn is_open(&self, effect: HiddenEffect) -> bool {
        match effect {
            HiddenEffect::Reads => self.may_read,
            HiddenEffect::Writes => self.may_write,
        }
    }
}

impl HiddenCalls {
    pub(crate) fn new(changed: &Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Arc::clone(changed) })
    }

    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if a call with this effect may start.
    pub(crate) fn is_open(&self, effect: HiddenEffect) -> bool {
        self.state().is_open(effect)
    }

    /// Returns `true` while a call waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        let state = self.state();
        state.elsewhere.is_some() || state.waiting.iter().any(|call| !call.watches)
    }

    /// Returns the strongest effect of the waiting calls.
    pub(crate) fn waited_for(&self) -> Effects {
        let state = self.state();
        let waiting =
            state.waiting.iter().filter(|call| !call.watches).map(|call| Some(call.effect));
        HiddenEffect::strongest(waiting).map_or(Effects::None, HiddenEffect::as_effects)
    }

    /// Sets the strongest effect of the calls that wait in the process that executes the step.
    pub(crate) fn set_remote_waiting(&self, effects: Effects) {
        let mut state = self.state();
        // Ignores a late report of calls that are allowed by now.
        state.elsewhere =
            HiddenEffect::of_effects(effects).filter(|effect| !state.is_open(*effect));
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Returns the strongest effect that a call may have now.
    pub(crate) fn opened_for(&self) -> Effects {
        let state = self.state();
        match (state.may_read, state.may_write) {
            (_, true) => Effects::Write,
            (true, false) => Effects::Read,
            (false, false) => Effects::None,
        }
    }

    /// Allows calls whose effect is at most `effects`.
    pub(crate) fn open_for(&self, effects: Effects) {
        if let Some(effect) = HiddenEffect::of_effects(effects) {
            self.open(effect);
        }
    }

    /// Waits until calls with a stronger effect than `known` may start. Does not count as a waiting
    /// call.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn wait_for_stronger(&self, known: Effects) {
        let next = match known {
            Effects::None => HiddenEffect::Reads,
            Effects::Read => HiddenEffect::Writes,
            // No stronger effect exists.
            Effects::Write => return std::future::pending().await,
        };
        let mut wait = HiddenCallWait { turn: self, effect: next, number: None, watches: true };
        std::future::poll_fn(|cx| wait.poll(cx)).await;
    }

    /// Allows calls with this effect, and wakes the calls that waited for it.
    pub(crate) fn open(&self, effect: HiddenEffect) {
        let mut state = self.state();
        match effect {
            HiddenEffect::Reads => state.may_read = true,
            HiddenEffect::Writes => (state.may_read, state.may_write) = (true, true),
        }
        let waiting = std::mem::take(&mut state.waiting);
        let (woken, rest): (Vec<Waiting>, _) =
            waiting.into_iter().partition(|call| state.is_open(call.effect));
        state.waiting = rest;
        state.elsewhere = state.elsewhere.filter(|effect| !state.is_open(*effect));
        drop(state);
        // Woken without the lock, since a waker may poll the call at once.
        woken.into_iter().for_each(|call| call.waker.wake());
    }

    /// Waits until a call with this effect may start.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn opened(&self, effect: HiddenEffect) {
        let mut wait = HiddenCallWait { turn: self, effect, number: None, watches: false };
        std::future::poll_fn(|cx| wait.poll(cx)).await;
    }
}

/// The wait of one call.
struct HiddenCallWait<'t> {
    turn: &'t HiddenCalls,
    effect: HiddenEffect,
    /// Number of its entry in [`Waiting`], once it waits.
    number: Option<u64>,
    /// `true` for an observer, which is not a waiting call.
    watches: bool,
}

impl HiddenCallWait<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.turn.state();
        if state.is_open(self.effect) {
            return Poll::Ready(());
        }
        let known = self
            .number
            .and_then(|number| state.waiting.iter_mut().find(|call| call.number == number));
        if let Some(known) = known {
            known.waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        state.begun += 1;
        let number = state.begun;
        state.waiting.push(Waiting {
            number,
            effect: self.effect,
            waker: cx.waker().clone(),
            watches: self.watches,
        });
        self.number = Some(number);
        if !self.watches {
            self.turn.changed.store(true, Ordering::Relaxed);
        }
        Poll::Pending
    }
}

impl Drop for HiddenCallWait<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.turn.state();
        let before = state.waiting.len();
        state.waiting.retain(|call| call.number != number);
        if state.waiting.len() < before && !self.watches {
            self.turn.changed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// The time limit of a step is suspended while a call waits, so a dropped wait must not count.
    #[test]
    fn a_dropped_call_does_not_wait() {
        let turn = HiddenCalls::new(&Arc::default());
        let mut first = Box::pin(turn.opened(HiddenEffect::Writes));
        let mut second = Box::pin(turn.opened(HiddenEffect::Writes));
        assert!(
            first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none()
        );
        drop(first);
        assert!(turn.is_waited_for());
        turn.open(HiddenEffect::Reads);
        assert!(second.as_mut().now_or_never().is_none() && turn.is_waited_for());
        drop(second);
        assert!(!turn.is_waited_for());
    }

    /// The process that owns the run observes the hidden calls of a step that another process
    /// executes.
    #[test]
    fn a_turn_is_known_in_two_processes() {
        let (here, there) = (HiddenCalls::new(&Arc::default()), HiddenCalls::new(&Arc::default()));
        let mut watch = Box::pin(here.wait_for_stronger(Effects::None));
        let mut call = Box::pin(there.opened(HiddenEffect::Writes));
        assert!(watch.as_mut().now_or_never().is_none() && call.as_mut().now_or_never().is_none());
        assert!(!here.is_waited_for(), "nothing waits where the turn is only watched");
        here.set_remote_waiting(there.waited_for());
        assert!(here.is_waited_for());
        here.open(HiddenEffect::Reads);
        assert!(watch.now_or_never().is_some() && here.opened_for() == Effects::Read);
        there.open_for(here.opened_for());
        assert!(here.is_waited_for() && call.as_mut().now_or_never().is_none());
        here.open(HiddenEffect::Writes);
        there.open_for(here.opened_for());
        assert!(!here.is_waited_for() && call.now_or_never().is_some());
        // A late report about a wait that has ended has no effect.
        here.set_remote_waiting(Effects::Write);
        assert!(!here.is_waited_for());
    }
}
