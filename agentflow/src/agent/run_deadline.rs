//! The time limit of an agent. It does not run while an operator holds the run.

use std::pin::Pin;
use std::time::Duration;

use crate::run::RunShared;

/// The outcome of `work`, unless it takes longer than `limit` while the run is not held.
pub(super) async fn within<T>(
    shared: &RunShared,
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut left = limit;
    let mut credited = shared.held_for();
    loop {
        if let Ok(done) = tokio::time::timeout(left, work.as_mut()).await {
            return Some(done);
        }
        if shared.is_held() {
            // What had begun runs to its end meanwhile.
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = shared.until_held(false) => {}
            }
        }
        let held = shared.held_for();
        left = held.saturating_sub(credited);
        credited = held;
        if left.is_zero() {
            return None;
        }
    }
}
