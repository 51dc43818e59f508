//! What one connection subscribes to, and the notifications that it is sent: `resources/subscribe` of earlier revisions, and
//! requests that listen of the newest. Who may read a resource may subscribe to it. It reads no resource.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::task::JoinHandle;

use super::served_reads;
use super::served_subscriptions::{MOST_ADDRESSES, MOST_SUBSCRIBERS, Subscriber, Subscription};
use super::server_settings::{BUSY, Shared};

/// The subscriptions of a connection, until it ends.
#[derive(Default)]
pub(super) struct ResourceUpdates {
    subscribed: Mutex<Option<Subscribed>>,
    /// Of requests that are about to listen, so that they miss nothing after their acknowledgement.
    begun: Mutex<Vec<Subscription>>,
}

struct Subscribed {
    subscription: Subscription,
    sending: JoinHandle<()>,
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

/// Sends a notification for each resource that changes, one after the other, until the client takes none.
async fn send(subscriber: Arc<Subscriber>, peer: Peer<RoleServer>) {
    loop {
        let changed = ResourceUpdatedNotificationParam::new(subscriber.next().await);
        if peer.notify_resource_updated(changed).await.is_err() {
            return;
        }
    }
}

fn too_many_subscribers() -> ErrorData {
    ErrorData::new(BUSY, format!("{MOST_SUBSCRIBERS} clients have subscribed already; subscribe again later"), None)
}

fn too_many_addresses() -> ErrorData {
    ErrorData::invalid_params(format!("a client subscribes to {MOST_ADDRESSES} resources at most"), None)
}

impl ResourceUpdates {
    /// Notifies the client of changes of one more resource.
    ///
    /// # Errors
    /// As a read of the resource, and when there are too many subscriptions.
    pub(super) fn subscribe(
        &self,
        shared: &Shared,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        served_reads::check_readable(shared, uri, context)?;
        let mut subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        let of = match &mut *subscribed {
            Some(of) => of,
            none => {
                let subscription = shared.subscriptions.subscribe().ok_or_else(too_many_subscribers)?;
                let sending = tokio::spawn(send(Arc::clone(&subscription.of), context.peer.clone()));
                none.insert(Subscribed { subscription, sending })
            }
        };
        match of.subscription.of.add(uri) {
            true => Ok(()),
            false => Err(too_many_addresses()),
        }
    }

    /// Notifies the client of changes of this one no more. One that it has not subscribed to is ignored.
    pub(super) fn unsubscribe(&self, uri: &str) {
        if let Some(of) = &*self.subscribed.lock().unwrap_or_else(PoisonError::into_inner) {
            of.subscription.of.remove(uri);
        }
    }

    /// What a request may listen to, of what it names: resources that are offered. It misses no change from now on.
    pub(super) fn accept(&self, shared: &Shared, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut accepted = SubscriptionFilter::default();
        let named = requested.resource_subscriptions.iter().flatten();
        let mut offered = named.filter(|uri| served_reads::is_offered(shared, uri)).peekable();
        if offered.peek().is_none() {
            return accepted;
        }
        let Some(subscription) = shared.subscriptions.subscribe() else { return accepted };
        accepted.resource_subscriptions = Some(offered.take_while(|uri| subscription.of.add(uri)).cloned().collect());
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(subscription);
        accepted
    }

    /// Notifies the client of a request until it ends.
    ///
    /// # Errors
    /// When there are too many subscriptions.
    pub(super) async fn listen(&self, shared: &Shared, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let Some(uris) = &context.accepted().resource_subscriptions else {
            let mut named = context.requested().resource_subscriptions.iter().flatten();
            if named.any(|uri| served_reads::is_offered(shared, uri)) {
                return Err(too_many_subscribers());
            }
            // It listens to nothing that there is.
            context.cancelled().await;
            return Ok(());
        };
        let subscription = {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            let its = begun.iter().position(|subscription| subscription.of.has_named(uris));
            begun.swap_remove(its.ok_or_else(too_many_subscribers)?)
        };
        for uri in uris {
            if served_reads::check_readable(shared, uri, context.request_context()).is_err() {
                subscription.of.remove(uri);
            }
        }
        loop {
            let changed = tokio::select! {
                biased;
                () = context.cancelled() => return Ok(()),
                changed = subscription.of.next() => changed,
            };
            if context.sink().notify_resource_updated(changed).await.is_err() {
                return Ok(());
            }
        }
    }
}
