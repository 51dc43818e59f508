//! Items for the protocol crates of agentflow. They have no stability promise.

#[cfg(all(feature = "api", feature = "documents"))]
pub use crate::api::{MOST_DESCRIBED_BYTES, described_tools};
#[cfg(feature = "http")]
pub use crate::http::guarded_request::{guarded_client, guarded_request};
#[cfg(feature = "http")]
pub use crate::http::http_address::HttpAddress;
#[cfg(feature = "http")]
pub use crate::http::oauth_tokens;
#[cfg(feature = "processes")]
pub use crate::process_group::ProcessGroup;
