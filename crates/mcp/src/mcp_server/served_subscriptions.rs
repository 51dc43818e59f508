//! Registry of the subscriptions to resources: the addresses of each subscriber, and the changes
//! that were not delivered yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of addresses of one subscriber.
pub(super) const MOST_ADDRESSES: usize = 256;
/// Maximum number of subscribers of a server.
pub(super) const MOST_SUBSCRIBERS: usize = 1024;

/// All subscribers of a server. Cloning is cheap.
#[derive(Clone, Default)]
pub(super) struct Subscriptions(Arc<Mutex<SubscriberTable>>);

#[derive(Default)]
struct SubscriberTable {
    next: u64,
    all: HashMap<u64, Arc<Subscriber>>,
}

/// A subscriber: a connection or a listening request.
#[derive(Default)]
pub(super) struct Subscriber {
    named: Mutex<Named>,
    has_changed: Notify,
}

#[derive(Default)]
struct Named {
    /// Subscribed addresses. The value is `true` if the address is in `changed`.
    addresses: BTreeMap<String, bool>,
    /// Changed addresses that were not delivered yet, in order.
    changed: VecDeque<String>,
}

/// Registration of a subscriber. Dropping it ends the subscription.
pub(super) struct Subscription {
    all: Subscriptions,
    number: u64,
    pub(super) of: Arc<Subscriber>,
}

impl Subscriptions {
    fn all(&self) -> MutexGuard<'_, SubscriberTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber. Returns `None` if there are too many.
    pub(super) fn subscribe(&self) -> Option<Subscription> {
        let mut subscribers = self.all();
        if subscribers.all.len() >= MOST_SUBSCRIBERS {
            return None;
        }
        let number = subscribers.next;
        subscribers.next += 1;
        let of = Arc::<Subscriber>::default();
        subscribers.all.insert(number, Arc::clone(&of));
        Some(Subscription { all: self.clone(), number, of })
    }

    /// Reports the change of a resource to its subscribers.
    pub(super) fn changed(&self, uri: &str) {
        for subscriber in self.all().all.values() {
            subscriber.change(uri);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.all.all().all.remove(&self.number);
    }
}

impl Subscriber {
    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an address. Returns `false` if the subscriber has too many.
    pub(super) fn add(&self, uri: &str) -> bool {
        let addresses = &mut self.named().addresses;
        let has_room = addresses.len() < MOST_ADDRESSES || addresses.contains_key(uri);
        if has_room && !addresses.contains_key(uri) {
            addresses.insert(uri.to_owned(), false);
        }
        has_room
    }

    pub(super) fn remove(&self, uri: &str) {
        let mut named = self.named();
        if named.addresses.remove(uri).is_some() {
            named.changed.retain(|changed| changed != uri);
        }
    }

    /// Returns `true` if the subscriber has exactly these addresses.
    pub(super) fn has_named(&self, uris: &[String]) -> bool {
        let named = self.named();
        let these: BTreeSet<&String> = uris.iter().collect();
        these.len() == named.addresses.len()
            && these.iter().all(|uri| named.addresses.contains_key(*uri))
    }

    fn change(&self, uri: &str) {
        let mut named = self.named();
        // Several changes before a delivery become one notification.
        if let Some(changed) = named.addresses.get_mut(uri).filter(|changed| !**changed) {
            *changed = true;
            named.changed.push_back(uri.to_owned());
            self.has_changed.notify_one();
        }
    }

    /// Waits for the next changed address. Dropping the future loses no change.
    pub(super) async fn next(&self) -> String {
        loop {
            if let Some(uri) = self.take() {
                return uri;
            }
            self.has_changed.notified().await;
        }
    }

    fn take(&self) -> Option<String> {
        let mut named = self.named();
        let uri = named.changed.pop_front()?;
        if let Some(changed) = named.addresses.get_mut(&uri) {
            *changed = false;
        }
        Some(uri)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_is_taken_once_by_each_who_named_it() {
        let all = Subscriptions::default();
        let (one, other) = (all.subscribe().unwrap(), all.subscribe().unwrap());
        assert!(one.of.add("a") && one.of.add("b") && other.of.add("b"));
        for uri in ["b", "a", "b", "c"] {
            all.changed(uri);
        }
        assert_eq!(one.of.next().now_or_never().unwrap(), "b");
        assert_eq!(one.of.next().now_or_never().unwrap(), "a");
        assert!(one.of.next().now_or_never().is_none());
        one.of.add("b");
        all.changed("b");
        one.of.remove("b");
        assert!(one.of.next().now_or_never().is_none());
        assert_eq!(other.of.next().now_or_never().unwrap(), "b");
        // A dropped subscription is removed.
        drop(other);
        assert_eq!(all.all().all.len(), 1);
    }

    #[test]
    fn addresses_and_subscribers_are_bounded() {
        let all = Subscriptions::default();
        let one = all.subscribe().unwrap();
        assert!((0..MOST_ADDRESSES).all(|n| one.of.add(&n.to_string())));
        assert!(!one.of.add("one more") && one.of.add("0"));
        let others: Vec<_> = (1..MOST_SUBSCRIBERS).map(|_| all.subscribe().unwrap()).collect();
        assert!(all.subscribe().is_none());
        drop(others);
        assert!(all.subscribe().is_some());
    }
}
