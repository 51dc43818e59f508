//! Limits on the concurrent requests, streams, sessions or calls of each caller of a server, so
//! that one caller cannot use up the capacity. [`CallerSlots`] refuses what exceeds the limit;
//! [`CallerPermits`] lets it wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of slots that each caller holds, with a maximum per caller.
#[derive(Debug)]
pub struct CallerSlots {
    most: usize,
    held: Mutex<HashMap<Arc<str>, usize>>,
}

/// A slot of a caller. Dropping it frees the slot.
#[derive(Debug)]
pub struct CallerSlot {
    slots: Arc<CallerSlots>,
    caller: Arc<str>,
}

impl CallerSlots {
    /// Creates slots, at most `most` for each caller.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    /// Takes a slot for a caller. Returns `None` if the caller already holds the maximum.
    pub fn take(self: &Arc<Self>, caller: &str) -> Option<CallerSlot> {
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.get(caller).copied().unwrap_or_default();
        if held >= self.most {
            return None;
        }
        let caller: Arc<str> = caller.into();
        all.insert(Arc::clone(&caller), held + 1);
        Some(CallerSlot { slots: Arc::clone(self), caller })
    }
}

impl Drop for CallerSlot {
    fn drop(&mut self) {
        let mut all = self.slots.held.lock().unwrap_or_else(PoisonError::into_inner);
        let left = all.get(&self.caller).map_or(0, |held| held.saturating_sub(1));
        // Remove the entry of a caller without slots, so that the map does not grow with every
        // caller ever seen.
        match left {
            0 => drop(all.remove(&self.caller)),
            left => drop(all.insert(Arc::clone(&self.caller), left)),
        }
    }
}

/// Limits the concurrent calls of each caller. A call beyond the limit waits until another call of its caller ends.
#[derive(Debug)]
pub struct CallerPermits {
    most: usize,
    lines: Mutex<HashMap<Arc<str>, Line>>,
}

/// The semaphore of one caller.
#[derive(Debug)]
struct Line {
    turns: Arc<Semaphore>,
    /// Calls that run or wait.
    count: usize,
}

/// A permit of a caller, or its place in the queue. Dropping it frees the permit or leaves the
/// queue.
#[derive(Debug)]
pub struct CallerPermit {
    turns: Arc<CallerPermits>,
    caller: Arc<str>,
    permit: Option<OwnedSemaphorePermit>,
}

impl CallerPermits {
    /// Creates permits, at least one and at most `most` for each caller.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.clamp(1, Semaphore::MAX_PERMITS), lines: Mutex::default() })
    }

    /// Waits for a turn of a caller. Returns `None` at once if `max_waiting` calls of the caller wait already.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn take(self: &Arc<Self>, caller: &str, max_waiting: usize) -> Option<CallerPermit> {
        let (mut turn, turns) = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let caller: Arc<str> = caller.into();
            let line = lines
                .entry(Arc::clone(&caller))
                .or_insert_with(|| Line { turns: Arc::new(Semaphore::new(self.most)), count: 0 });
            if line.count >= self.most.saturating_add(max_waiting) {
                return None;
            }
            line.count += 1;
            // The entry counts this call before it waits. If the wait is cancelled, dropping
            // `CallerPermit` corrects the count.
            (
                CallerPermit { turns: Arc::clone(self), caller, permit: None },
                Arc::clone(&line.turns),
            )
        };
        turn.permit = turns.acquire_owned().await.ok();
        Some(turn)
    }
}

impl Drop for CallerPermit {
    fn drop(&mut self) {
        // The permit goes back first: the entry, and with it the semaphore, may be removed below.
        drop(self.permit.take());
        let mut lines = self.turns.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // The entry of a caller without calls is removed.
        if let Some(line) = lines.get_mut(&self.caller) {
            line.count -= 1;
            if line.count == 0 {
                lines.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_caller_waits_only_for_its_own_turns() {
        let turns = CallerPermits::new(1);
        let ada = turns.take("ada", 1).await.unwrap();
        let mut waiting = Box::pin(turns.take("ada", 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(turns.take("ada", 1).await.is_none());
        let bob = turns.take("bob", 0).now_or_never().unwrap().unwrap();
        drop(ada);
        let next = waiting.await.unwrap();
        // A dropped wait leaves no entry.
        let mut given_up = Box::pin(turns.take("ada", 1));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
        drop((next, bob));
        assert!(turns.lines.lock().unwrap().is_empty());
    }

    #[test]
    fn a_caller_has_so_many_and_nobody_is_kept_who_has_none() {
        let slots = CallerSlots::new(2);
        let (one, two) = (slots.take("ada").unwrap(), slots.take("ada").unwrap());
        assert!(slots.take("ada").is_none());
        let other = slots.take("bob").unwrap();
        drop(one);
        let three = slots.take("ada").unwrap();
        assert!(slots.take("ada").is_none());
        drop((two, three, other));
        assert!(slots.held.lock().unwrap().is_empty());
        assert!(CallerSlots::new(0).take("ada").is_none());
    }
}
