#![doc = include_str!("../README.md")]
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
#[cfg(feature = "views")]
pub mod views;
mod wire;
pub mod workflow;

#[doc(hidden)]
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub mod __private;
#[cfg(feature = "cli")]
pub mod cli;
#[doc = include_str!("docs/choosing.md")]
pub mod choosing {}
#[cfg(feature = "cli")]
#[doc = include_str!("docs/configuration.md")]
pub mod configuration {}
#[doc = include_str!("docs/limits.md")]
pub mod limits {}
#[doc = include_str!("docs/operation.md")]
pub mod operation {}
#[doc = include_str!("docs/overview.md")]
pub mod overview {}

#[doc = include_str!("docs/agent.md")]
pub use agentflow_macros::agent;
#[doc = include_str!("docs/tool.md")]
pub use agentflow_macros::tool;
#[doc = include_str!("docs/workflow.md")]
pub use agentflow_macros::workflow;
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

/// What most programs need: `use agentflow::prelude::*;`.
///
/// Its [`Result`] is `Result<T, E = agentflow::Error>`, so `Result<T>` fails with an [`Error`], and
/// `Result<T, E>` is the standard one. The forms of a workflow, such as `gate!` and `map!`, are not here: `#[workflow]`
/// reads them itself, so they need no import, and names such as `map` and `timeout` stay free for your own macros.
pub mod prelude {
    // The attributes alone: the modules of the same names stay out.
    pub use agentflow_macros::{agent, tool, workflow};

    pub use crate::state::StateKey;
    pub use crate::{Agent, Approval, Context, Hooks, Inject, Message, Model, Result, Runtime, tools};
}
