//! The core of agentflow: messages, models, tools, agents, workflows, runs, stores and the runtime.
//!
//! Programs depend on the crate `agentflow-sdk`, which re-exports this crate as `agentflow`.
//!
//! The main path through the crate: a [`Runtime`] finds a [`Workflow`] or an [`Agent`] in the
//! registry and starts a run. The run executes steps, which call a [`Model`] or a [`Tool`]. Each
//! step is recorded as an [`Event`] in the journal of the run, which a [`Store`](store::Store)
//! persists. After a crash, the runtime reads the journal and resumes the run.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod access;
mod access_action;
pub mod agent;
pub mod artifact;
mod caller;
mod context;
pub mod definition;
pub mod diagnostic;
#[cfg(feature = "documents")]
pub mod document;
pub mod dry_run;
pub mod error;
pub mod event;
pub mod executor;
mod failure;
mod failure_problem;
mod future;
mod linked;
pub mod mailbox;
#[doc(hidden)]
pub mod mask;
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
#[doc(hidden)]
pub mod text_file;
pub mod time;
pub mod tool;
mod tool_definition;
mod tuples;
pub mod value;
mod wire;
pub mod workflow;

#[doc(hidden)]
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub mod __private;
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
pub use crate::caller::{Caller, CallerClaims};
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
