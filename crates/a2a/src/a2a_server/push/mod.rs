//! Push notifications: sends the updates of tasks to addresses that clients register.
//!
//! - `push_requests.rs` handles the requests that create, show and delete configurations.
//! - `kept_configs.rs` stores the configurations.
//! - `notifier.rs` follows tasks and sends the notifications.

mod kept_configs;
mod notifier;
mod push_requests;

pub(super) use self::notifier::{Notifier, Push};
pub(super) use self::push_requests::{checked_config, create, execute};
