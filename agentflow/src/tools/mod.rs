//! Tools that are ready to be given to a runtime or an agent. Each is off until a host gives it.
#![doc = include_str!("../docs/tools.md")]

#[cfg(feature = "tool-http")]
mod address_guard;
mod condition_tool;
#[cfg(feature = "a2a-push")]
mod http_post;
#[cfg(feature = "tool-http")]
mod http_exchange;
#[cfg(feature = "tool-http")]
mod http_request;
#[cfg(feature = "tool-http")]
mod http_target;
#[cfg(feature = "tool-programs")]
mod programs;
#[cfg(feature = "tool-storage")]
mod storage;
#[cfg(feature = "tool-transform")]
mod transform_tool;
#[cfg(feature = "tool-storage")]
mod writable_folders;

#[cfg(feature = "tool-http")]
pub use self::address_guard::AddressGuard;
pub use self::condition_tool::condition;
#[cfg(feature = "tool-http")]
pub use self::http_request::HttpRequest;
#[cfg(feature = "tool-programs")]
pub use self::programs::Programs;
#[cfg(feature = "tool-storage")]
pub use self::storage::Storage;
#[cfg(feature = "tool-transform")]
pub use self::transform_tool::transform;
