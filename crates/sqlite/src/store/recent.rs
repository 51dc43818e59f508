//! A bounded map of the most recently used entries.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that evicts the values that were not used for the longest time. Each operation takes
/// constant time.
///
/// Values that were inserted or used recently are in the map `young`. When `young` is full, it
/// becomes `old`, and the previous `old` values are evicted.
#[derive(Debug)]
pub(super) struct RecentCache<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    generation: usize,
}

impl<K: Clone + Eq + Hash, V> RecentCache<K, V> {
    /// Creates a map that holds at least the last `at_least` used values, and at most twice as
    /// many.
    pub(super) fn new(at_least: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation: at_least.max(1) }
    }

    /// Returns a value and marks it as used.
    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.generation && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::RecentCache;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut recent = RecentCache::new(10);
        recent.insert(0, 0);
        for n in 1..1000 {
            recent.insert(n, n);
            assert_eq!(recent.get(&0), Some(&mut 0), "it is used all the time");
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        assert_eq!(recent.get(&500), None);
        assert!((991..1000).all(|n| recent.get(&n).is_some()), "the last ones are there");
    }

    #[test]
    fn a_value_is_there_once() {
        let mut recent = RecentCache::new(2);
        for n in 0..3 {
            recent.insert(n, n);
        }
        recent.insert(0, 7);
        assert_eq!(recent.get(&0), Some(&mut 7));
        recent.remove(&0);
        assert_eq!(recent.get(&0), None);
        recent.clear();
        assert_eq!(recent.get(&2), None);
    }
}
