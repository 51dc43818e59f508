//! Decides about a tool call in a step from its records: reuse the recorded outcome, make the call,
//! or end the step.
//!
//! This module does not make calls or write records. It applies the state saved by a reused outcome
//! to the step.

use std::sync::Arc;

use super::call_answer::QuestionAnswer;
use super::call_record::lost;
use super::held_back::HeldBack;
use super::history::{RecordedCall, RecordedOutcome};
use super::matched_tool_call::MatchedToolCall;
use super::undecided::undecided_failure;
use crate::failure::{Failure, FailureKind};
use crate::path::StepPath;
use crate::tool_definition::Effects;

/// The decision about a call.
pub(super) enum Decided {
    /// The recorded outcome is reused.
    Over(RecordedOutcome),
    /// The call is made.
    Made { path: StepPath, key: String, asked: bool, answer: Option<QuestionAnswer>, fresh: bool },
    /// The call waits until the step drops it, as the step did before.
    HeldBack(HeldBack),
    /// The step ends.
    Ends(Failure),
}

impl MatchedToolCall {
    /// Decides about the call. `readable` returns `true` if an outcome can be decoded as the
    /// function's return value.
    pub(super) fn decide(&mut self, readable: impl Fn(&RecordedOutcome) -> bool) -> Decided {
        let (here, earlier) = (self.known.here.take(), self.known.earlier.take());
        // For external services, the call that a step consists of is that step, so it has the
        // step's idempotency key.
        let of_step = self.direct.then(|| self.place.cx.call_key());
        let own_key = |path: &StepPath| match earlier.as_ref().and_then(|call| call.begun.as_ref())
        {
            Some(begun) => begun.key.clone(),
            None => of_step.clone().unwrap_or_else(|| path.to_string()),
        };
        // An approval survives a failed attempt. A denial does not: it ended the step.
        let granted_before = earlier
            .as_ref()
            .and_then(|call| call.answer.clone())
            .filter(|answer| answer.approval.is_granted());
        let made = |call: &mut Self, key: String| Decided::Made {
            path: call
                .place
                .with_calls(|calls| calls.history.next_path(&calls.base, &call.definition.name)),
            key,
            asked: false,
            answer: granted_before.clone(),
            fresh: true,
        };
        // A repeatable call that the step dropped before, for example in `select!`, must lose again
        // in the same way.
        let lost = here
            .as_ref()
            .or(earlier.as_ref())
            .filter(|call| call.begun.as_ref().is_some_and(|it| it.repeatable));
        if let Some((lost, lived)) = lost.and_then(|call| Some((call, call.held_back()?))) {
            let what = format!("the call of `{}`", self.definition.name);
            return Decided::HeldBack(HeldBack::at(
                Some(Arc::clone(&self.place)),
                &lost.path,
                what,
                lived,
            ));
        }
        if let Some(here) = here {
            return match (&here.begun, &here.outcome) {
                // The node has already decided whether it may run again.
                (Some(begun), _) if self.direct && here.is_unfinished() => {
                    made(self, begun.key.clone())
                }
                (Some(begun), _) if here.is_unfinished() && !begun.repeatable => {
                    Self::interrupted(&here)
                }
                // The step dropped the call, and its end is recorded, so the call is retried
                // under a new path.
                (Some(begun), Some(_)) if here.is_unfinished() => made(self, begun.key.clone()),
                (Some(begun), Some(outcome)) => match readable(outcome) {
                    true => self.over(&here, outcome),
                    false if begun.repeatable || self.direct => made(self, begun.key.clone()),
                    false => self.unreadable(&here),
                },
                // The process stopped after the question or during a repeatable call. The call is
                // made at the same path.
                (begun, _) => Decided::Made {
                    key: begun
                        .as_ref()
                        .map_or_else(|| own_key(&here.path), |begun| begun.key.clone()),
                    path: here.path,
                    asked: here.asked.is_some(),
                    answer: here.answer.or(granted_before),
                    fresh: false,
                },
            };
        }
        if let Some(earlier) = &earlier
            && let Some(begun) = &earlier.begun
            && begun.effects == Effects::Write
        {
            match &earlier.outcome {
                _ if earlier.is_unfinished() && !begun.repeatable && !earlier.decided => {
                    return Self::interrupted(earlier);
                }
                _ if earlier.is_unfinished() => {}
                // The call took effect, so the next attempt reuses its outcome. A recorded failure
                // is reused too, unless an attempt has failed since then, possibly because of it.
                Some(outcome) if outcome.result.status.is_success() || !earlier.failed_since => {
                    match readable(outcome) {
                        true => return self.over(earlier, outcome),
                        false if begun.repeatable || earlier.decided => {}
                        false => return self.unreadable(earlier),
                    }
                }
                _ => {}
            }
        }
        let key = own_key(&self.known.path);
        Decided::Made {
            path: self.known.path.clone(),
            key,
            asked: false,
            answer: granted_before,
            fresh: true,
        }
    }

    /// Reuses a recorded outcome, and applies the state that the call saved to the step.
    fn over(&self, call: &RecordedCall, outcome: &RecordedOutcome) -> Decided {
        if let Some(saved) = &outcome.saved {
            let (cx, made_at) = (&self.place.cx, call.paths());
            let place = cx.run().log.place_of(|path| made_at.contains(path));
            cx.run().states_or_new().apply(cx.path(), saved, place);
        }
        Decided::Over(outcome.clone())
    }

    /// Ends the step with a question to an operator. Usually the step asks before it runs again
    /// (`undecided_writes`), so this is needed only for calls that this check does not cover.
    fn interrupted(call: &RecordedCall) -> Decided {
        let failure = undecided_failure(std::slice::from_ref(&call.path));
        Decided::Ends(failure.unwrap_or_else(|| lost("an interrupted call has no path")))
    }

    fn unreadable(&self, call: &RecordedCall) -> Decided {
        let message = format!(
            "`{}` was called before the program or the step was stopped, and its outcome is recorded but cannot be read \
             back as what the function returns; it writes, so it is not called again: retry the node to call it again, \
             or cancel the run. Derive `serde::Serialize` and `serde::Deserialize` for what `{}` returns",
            call.path, self.definition.name
        );
        Decided::Ends(Failure::new(FailureKind::Interrupted, message))
    }
}
