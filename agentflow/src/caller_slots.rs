//! How many requests, streams or sessions one caller of a server has at once, so that no caller has all of them. It knows no
//! request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What callers hold, each so many at most.
pub(crate) struct CallerSlots {
    most: usize,
    held: Mutex<HashMap<Arc<str>, usize>>,
}

/// One of a caller, until it is dropped.
pub(crate) struct CallerSlot {
    slots: Arc<CallerSlots>,
    caller: Arc<str>,
}

impl CallerSlots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    /// Another one for a caller; `None` when it holds as many as it may.
    pub(crate) fn take(self: &Arc<Self>, caller: &str) -> Option<CallerSlot> {
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
        // A caller who holds nothing is not kept.
        match left {
            0 => drop(all.remove(&self.caller)),
            left => drop(all.insert(Arc::clone(&self.caller), left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
