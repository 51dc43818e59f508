//! The core of agentflow: messages, models, tools, agents, workflows, runs, stores and the runtime.
//!
//! Programs depend on the crate `agentflow-sdk`, which re-exports all of it as `agentflow`.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "a2a")]
pub mod a2a;
#[cfg(feature = "a2a-server")]
pub mod a2a_server;
pub mod agent;
pub mod artifact;
#[cfg(any(feature = "a2a-server", feature = "mcp-server-http"))]
mod caller_slots;
mod context;
pub mod definition;
#[cfg(feature = "documents")]
pub mod document;
pub mod dry_run;
pub mod error;
pub mod event;
pub mod executor;
mod failure;
mod future;
#[cfg(any(feature = "a2a-server", feature = "mcp-server-http"))]
mod host_header;
#[cfg(any(feature = "a2a-client", feature = "mcp-http"))]
mod http_address;
mod linked;
pub mod mailbox;
mod mask;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "mcp-server")]
pub mod mcp_server;
pub mod memory;
pub mod message;
pub mod middleware;
pub mod model;
mod on_timeout;
mod panics;
pub mod path;
#[cfg(feature = "dynamic")]
pub mod pipeline;
mod private_file;
#[cfg(any(feature = "mcp", feature = "tool-programs"))]
mod process_group;
pub mod resource;
pub mod run;
pub mod runtime;
/// Comparison of JSON Schemas.
pub mod schema {
    pub use agentflow_schema::schema::{Assignable, SchemaMismatch, is_assignable};
}
pub mod session;
pub mod state;
pub mod store;
pub mod telemetry;
#[cfg(any(feature = "documents", feature = "mcp"))]
mod text_file;
pub mod time;
pub mod tool;
mod tool_definition;
#[doc(alias = "BuiltinTool")]
pub mod tools;
mod tuples;
pub mod value;
mod wire;
pub mod workflow;

#[doc(hidden)]
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub mod __private;
#[cfg(feature = "cli")]
pub mod cli;
pub use agentflow_schema::{expression, template};
#[doc(no_inline)]
pub use async_trait::async_trait;
#[cfg(feature = "metrics")]
#[doc(no_inline)]
pub use opentelemetry;
#[doc(no_inline)]
pub use schemars;
#[doc(no_inline)]
pub use serde;
#[doc(no_inline)]
pub use serde_json;

pub use crate::__private::{ask_user, exit_loop, forget, recall, remember};
pub use crate::agent::{Agent, Hooks};
pub use crate::context::Context;
pub use crate::error::{Error, Result};
pub use crate::event::{Event, RunId};
pub use crate::message::Message;
pub use crate::model::Model;
pub use crate::resource::Inject;
pub use crate::run::{Approval, RunHandle};
pub use crate::runtime::Runtime;
pub use crate::tool::{Registry, Tool};
pub use crate::workflow::Workflow;
