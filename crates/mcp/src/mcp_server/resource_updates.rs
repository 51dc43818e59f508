//! Resource subscriptions of one connection, and their notifications: `resources/subscribe` of
//! earlier revisions, and listening requests of the newest one. A subscription needs the same
//! permission as a read.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::task::JoinHandle;

use super::served_reads;
use super::served_subscriptions::{MOST_ADDRESSES, MOST_SUBSCRIBERS, Subscriber, Subscription};
use super::server_settings::{BUSY, Shared};

/// The subscriptions of a connection.
#[derive(Default)]
pub(super) struct ResourceUpdates {
    subscribed: Mutex<Option<ConnectionSubscription>>,
    /// Subscriptions of listening requests that are acknowledged but not started yet. They collect
    /// changes in the meantime.
    begun: Mutex<Vec<Subscription>>,
}

struct ConnectionSubscription {
    subscription: Subscription,
    sending: JoinHandle<()>,
}

impl Drop for ConnectionSubscription {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

/// Sends a notification for each changed resource, until the client disconnects.
async fn send(subscriber: Arc<Subscriber>, peer: Peer<RoleServer>) {
    loop {
        let changed = ResourceUpdatedNotificationParam::new(subscriber.next().await);
        if peer.notify_resource_updated(changed).await.is_err() {
            return;
        }
    }
}

fn too_many_subscribers() -> ErrorData {
    ErrorData::new(
        BUSY,
        format!("{MOST_SUBSCRIBERS} clients have subscribed already; subscribe again later"),
        None,
    )
}

fn too_many_addresses() -> ErrorData {
    ErrorData::invalid_params(
        format!("a client subscribes to {MOST_ADDRESSES} resources at most"),
        None,
    )
}

impl ResourceUpdates {
    /// Subscribes the client to changes of a resource.
    ///
    /// # Errors
    /// Fails if the resource cannot be read by the client, or there are too many subscriptions.
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
                let subscription =
                    shared.subscriptions.subscribe().ok_or_else(too_many_subscribers)?;
                let sending =
                    tokio::spawn(send(Arc::clone(&subscription.of), context.peer.clone()));
                none.insert(ConnectionSubscription { subscription, sending })
            }
        };
        match of.subscription.of.add(uri) {
            true => Ok(()),
            false => Err(too_many_addresses()),
        }
    }

    /// Ends the subscription to a resource. Ignores a resource without a subscription.
    pub(super) fn unsubscribe(&self, uri: &str) {
        if let Some(of) = &*self.subscribed.lock().unwrap_or_else(PoisonError::into_inner) {
            of.subscription.of.remove(uri);
        }
    }

    /// Returns the part of the requested filter that the server accepts: the offered resources.
    /// Changes are collected from now on.
    pub(super) fn accept(
        &self,
        shared: &Shared,
        requested: &SubscriptionFilter,
    ) -> SubscriptionFilter {
        let mut accepted = SubscriptionFilter::default();
        let named = requested.resource_subscriptions.iter().flatten();
        let mut offered = named.filter(|uri| served_reads::is_offered(shared, uri)).peekable();
        if offered.peek().is_none() {
            return accepted;
        }
        let Some(subscription) = shared.subscriptions.subscribe() else { return accepted };
        accepted.resource_subscriptions =
            Some(offered.take_while(|uri| subscription.of.add(uri)).cloned().collect());
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(subscription);
        accepted
    }

    /// Sends notifications for a listening request until it ends.
    ///
    /// # Errors
    /// Fails if there are too many subscriptions.
    pub(super) async fn listen(
        &self,
        shared: &Shared,
        context: &SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let Some(uris) = &context.accepted().resource_subscriptions else {
            // If an offered resource was requested, `accept` found no free subscription.
            let mut named = context.requested().resource_subscriptions.iter().flatten();
            if named.any(|uri| served_reads::is_offered(shared, uri)) {
                return Err(too_many_subscribers());
            }
            // The request does not name an offered resource. It stays open without notifications.
            context.cancelled().await;
            return Ok(());
        };
        // `accept` does not know its request, so the subscription is found by its addresses.
        let subscription = {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            let its = begun.iter().position(|subscription| subscription.of.has_named(uris));
            begun.swap_remove(its.ok_or_else(too_many_subscribers)?)
        };
        // `accept` cannot check the client's scopes. Forbidden resources are removed here.
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
