//! Tools that are ready to be given to a runtime or an agent. Each is off until a host gives it.
#![doc = include_str!("docs/tools.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
#[cfg(feature = "api")]
mod api;
mod computing;
mod condition_tool;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "transform")]
mod json_path;
#[cfg(feature = "processes")]
mod process_group;
#[cfg(feature = "programs")]
mod programs;
#[cfg(feature = "storage")]
mod storage;
#[cfg(feature = "transform")]
mod transform_tool;
#[cfg(feature = "storage")]
mod writable_folders;

#[cfg(feature = "http")]
pub use agentflow_http::AddressGuard;

#[cfg(feature = "api")]
pub use self::api::{
    Alert, ApiAccess, ApiAuth, ApiParameter, ApiTool, ApiToolError, GraphqlTool, OpenApi, Paging,
    ParameterPlace,
};
pub use self::computing::{calculate, text};
pub use self::condition_tool::condition;
#[cfg(feature = "http")]
pub use self::http::HttpRequest;
#[cfg(feature = "programs")]
pub use self::programs::Programs;
#[cfg(feature = "storage")]
pub use self::storage::Storage;
#[cfg(feature = "transform")]
pub use self::transform_tool::transform;
