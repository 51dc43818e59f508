//! The time limit of an agent that is a step. It does not run while an operator holds the run.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::run::RunShared;

/// The outcome of `work`, unless it takes longer than `limit` while the run is not held.
pub(super) async fn within<T>(
    shared: &RunShared,
    limit: Duration,
    mut work: Pin<Box<impl Future<Output = T>>>,
) -> Option<T> {
    let mut left = limit;
    loop {
        let began = Instant::now();
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = shared.until_held(true) => left = left.saturating_sub(began.elapsed()),
            () = tokio::time::sleep(left) => return None,
        }
        // What had begun runs to its end meanwhile.
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = shared.until_held(false) => {}
        }
    }
}
