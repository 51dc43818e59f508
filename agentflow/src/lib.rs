#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub use agentflow_core::__private;
#[cfg(feature = "a2a")]
#[doc(inline)]
pub use agentflow_core::a2a;
#[cfg(feature = "a2a-server")]
#[doc(inline)]
pub use agentflow_core::a2a_server;
#[cfg(feature = "cli")]
#[doc(inline)]
pub use agentflow_core::cli;
#[cfg(feature = "documents")]
#[doc(inline)]
pub use agentflow_core::document;
#[cfg(feature = "mcp")]
#[doc(inline)]
pub use agentflow_core::mcp;
#[cfg(feature = "mcp-server")]
#[doc(inline)]
pub use agentflow_core::mcp_server;
#[cfg(feature = "dynamic")]
#[doc(inline)]
pub use agentflow_core::pipeline;
#[doc(inline)]
pub use agentflow_core::{
    agent, artifact, definition, dry_run, error, event, executor, expression, mailbox, message, middleware, path,
    resource, run, runtime, schema, session, state, telemetry, template, time, tool, tools, value, workflow,
};
/// Chat models: the [`Model`] trait, its requests and its answers, and the adapters for the wire formats of providers, each behind
/// its own cargo feature.
///
/// Streaming is the primitive; [`Model::call`] is a stream that is read to its end.
pub mod model {
    #[doc(inline)]
    pub use agentflow_core::model::*;
    #[cfg(feature = "anthropic")]
    #[doc(inline)]
    pub use agentflow_models::anthropic;
    #[cfg(feature = "gemini")]
    #[doc(inline)]
    pub use agentflow_models::gemini;
    #[cfg(feature = "openai-chat")]
    #[doc(inline)]
    pub use agentflow_models::openai_chat;
    #[cfg(feature = "openai-responses")]
    #[doc(inline)]
    pub use agentflow_models::openai_responses;
    #[cfg(feature = "http")]
    #[doc(inline)]
    pub use agentflow_models::{HttpModel, HttpModelBuilder};
}
// The forms of a workflow.
pub use agentflow_core::{fallback, gate, map, race, repeat, timeout};
#[cfg(feature = "views")]
#[doc(inline)]
pub use agentflow_views as views;
#[doc = include_str!("docs/choosing.md")]
pub mod choosing {}
#[cfg(feature = "cli")]
#[doc = include_str!("docs/configuration.md")]
pub mod configuration {}
#[doc = include_str!("docs/limits.md")]
pub mod limits {}
#[doc = include_str!("docs/operation.md")]
pub mod operation {}
pub mod memory {
    //! Long-term memory: what agents remember of a user from one run, and from one session, to another.
    #![doc = ""]
    #![doc = include_str!("docs/memory.md")]

    #[doc(inline)]
    pub use agentflow_core::memory::*;
    #[cfg(feature = "sqlite")]
    #[doc(inline)]
    pub use agentflow_sqlite::SqliteMemory;
}
#[doc = include_str!("docs/overview.md")]
pub mod overview {}
pub mod store {
    //! Durable storage of runs: the [`Store`] trait, its data, and two implementations (in memory, SQLite).
    //!
    //! A store keeps the events of a run in order and fences its writers by an epoch. It interprets only the few events
    //! that a run's status follows from ([`RunRecord::apply`]).

    #[doc(inline)]
    pub use agentflow_core::store::*;
    #[cfg(feature = "sqlite")]
    #[doc(inline)]
    pub use agentflow_sqlite::{ArtifactCheck, SqliteStore, SqliteStoreBuilder, Synchronous};
}

#[doc = include_str!("docs/agent.md")]
pub use agentflow_macros::agent;
#[doc = include_str!("docs/tool.md")]
pub use agentflow_macros::tool;
#[doc = include_str!("docs/workflow.md")]
pub use agentflow_macros::workflow;
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

pub use agentflow_core::{
    Agent, Approval, Context, Error, Event, Hooks, Inject, Message, Model, Registry, Result, RunHandle, RunId, Runtime,
    Tool, Workflow, ask_user, exit_loop, forget, recall, remember,
};

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
