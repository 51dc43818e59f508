//! The time limit of an agent. It does not run while an operator holds the run.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::run::RunShared;

/// The outcome of `work`, unless it takes longer than `limit` while the run is not held.
pub(super) async fn within<T>(
    shared: &RunShared,
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let (began, held_before) = (Instant::now(), shared.held_for());
    loop {
        let used = began.elapsed().saturating_sub(shared.held_for().saturating_sub(held_before));
        let left = limit.saturating_sub(used);
        if left.is_zero() {
            return None;
        }
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
    }
}
