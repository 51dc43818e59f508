//! Push notifications: where clients are notified of their tasks, kept in the store, and the notifications themselves.

mod kept_configs;
mod notifier;
mod push_requests;

pub(super) use self::notifier::{Notifier, Push};
pub(super) use self::push_requests::{checked_config, create, execute};
