//! Reservations of running calls in a budget, so that concurrent calls take each other's cost into
//! account.
//!
//! Reservations end with the process. The spent amounts are read from the journal.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::ModelStep;
use crate::event::{RunId, Spending};
use crate::path::StepPath;

/// The running calls that a budget has admitted, by run.
#[derive(Default)]
pub(super) struct Reservations(Mutex<HashMap<RunId, RunReservations>>);

#[derive(Default)]
struct RunReservations {
    calls: Vec<Call>,
    /// Notifies waiting calls when a reservation ends.
    freed: Arc<Notify>,
}

struct Call {
    path: StepPath,
    estimate: Spending,
}

/// Decision of a budget about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    /// The call fits the spent amount, but not the expected cost of the running calls.
    Wait,
    Refuse,
}

/// A reservation in a budget. Dropping it returns it: after the end of the call is recorded, or
/// when the call is dropped.
pub(crate) struct Place {
    reservations: Arc<Reservations>,
    run: RunId,
    path: StepPath,
}

impl Reservations {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, RunReservations>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a call against the budget until the verdict is not `Wait`, and again each time
    /// another call has ended. Passes the expected cost of the other running calls and of this call
    /// to `ask`. Returns `true` if the call is admitted; the reservation is then stored in `step`.
    pub(super) async fn admit(
        self: &Arc<Self>,
        step: &mut ModelStep,
        ask: impl Fn(&ModelStep, &[Spending], &Spending) -> Verdict,
    ) -> bool {
        let (run, path, estimate) =
            (step.context().run_id().clone(), step.context().path().clone(), step.estimate());
        loop {
            // The waiter is registered before the check, so that a reservation that ends in between
            // is not missed.
            let freed = Arc::clone(&self.runs().entry(run.clone()).or_default().freed);
            let mut freed = pin!(freed.notified());
            freed.as_mut().enable();
            let verdict = {
                let mut runs = self.runs();
                let calls = &mut runs.entry(run.clone()).or_default().calls;
                let others = calls.iter().filter(|call| !path.is_within(&call.path));
                let others: Vec<Spending> = others.map(|call| call.estimate.clone()).collect();
                // A call inside another call, such as the call to an agent in a hook, must not wait
                // for other calls, since they may be waiting for the outer call.
                let nested = others.len() < calls.len();
                let verdict = match ask(step, &others, &estimate) {
                    Verdict::Wait if nested || others.is_empty() => Verdict::Go,
                    verdict => verdict,
                };
                match verdict {
                    Verdict::Go => {
                        calls.push(Call { path: path.clone(), estimate: estimate.clone() });
                    }
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
