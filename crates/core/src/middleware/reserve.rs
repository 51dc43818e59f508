//! Reservations of running calls in a budget, so that calls which begin at the same time see each other's cost.
//!
//! Reservations end with the process. Spending is read from the journal.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::ModelStep;
use crate::event::{RunId, Spending};
use crate::path::StepPath;

/// The running calls that a budget has let through, by run.
#[derive(Default)]
pub(super) struct Reservations(Mutex<HashMap<RunId, Run>>);

#[derive(Default)]
struct Run {
    calls: Vec<Call>,
    /// Whoever waits for a place is woken when one is given back.
    freed: Arc<Notify>,
}

struct Call {
    path: StepPath,
    estimate: Spending,
}

/// What a budget says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    /// It fits by what was spent, but not if the running calls cost what they are expected to.
    Wait,
    Refuse,
}

/// A place in a budget. Dropped, it is given back: once the call's end is recorded, or when the call is.
pub(crate) struct Place {
    reservations: Arc<Reservations>,
    run: RunId,
    path: StepPath,
}

impl Reservations {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the budget, with what the other running calls and this one are expected to cost, and again whenever a call
    /// has ended, until it no longer says to wait. Returns whether the call is let through; then it has a place.
    pub(super) async fn admit(
        self: &Arc<Self>,
        step: &mut ModelStep,
        ask: impl Fn(&ModelStep, &[Spending], &Spending) -> Verdict,
    ) -> bool {
        let (run, path, estimate) = (step.context().run_id().clone(), step.context().path().clone(), step.estimate());
        loop {
            let freed = Arc::clone(&self.runs().entry(run.clone()).or_default().freed);
            let mut freed = pin!(freed.notified());
            freed.as_mut().enable();
            let verdict = {
                let mut runs = self.runs();
                let calls = &mut runs.entry(run.clone()).or_default().calls;
                let others = calls.iter().filter(|call| !path.is_within(&call.path));
                let others: Vec<Spending> = others.map(|call| call.estimate.clone()).collect();
                // A call that another one waits for, such as that of an agent in a hook, cannot wait for others: they
                // may wait for it.
                let nested = others.len() < calls.len();
                let verdict = match ask(step, &others, &estimate) {
                    Verdict::Wait if nested || others.is_empty() => Verdict::Go,
                    verdict => verdict,
                };
                match verdict {
                    Verdict::Go => calls.push(Call { path: path.clone(), estimate: estimate.clone() }),
                    _ if calls.is_empty() => drop(runs.remove(&run)),
                    _ => {}
                }
                verdict
            };
            match verdict {
                Verdict::Go => {
                    let place = Place { reservations: Arc::clone(self), run, path };
                    step.places.push(place);
                    return true;
                }
                Verdict::Refuse => return false,
                Verdict::Wait => freed.await,
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut runs = self.reservations.runs();
        let Some(run) = runs.get_mut(&self.run) else { return };
        if let Some(at) = run.calls.iter().position(|call| call.path == self.path) {
            run.calls.swap_remove(at);
        }
        run.freed.notify_waiters();
        if run.calls.is_empty() {
            runs.remove(&self.run);
        }
    }
}

impl fmt::Debug for Reservations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservations").field("runs", &self.runs().len()).finish()
    }
}
