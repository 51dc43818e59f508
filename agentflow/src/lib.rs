#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "a2a")]
#[doc(inline)]
pub use agentflow_a2a::a2a;
#[cfg(feature = "a2a-server")]
#[doc(inline)]
pub use agentflow_a2a::a2a_server;
#[cfg(feature = "cli")]
#[doc(inline)]
pub use agentflow_cli as cli;
#[doc(hidden)]
pub use agentflow_core::__private;
#[cfg(feature = "documents")]
#[doc(inline)]
pub use agentflow_core::document;
#[cfg(feature = "dynamic")]
#[doc(inline)]
pub use agentflow_core::pipeline;
#[doc(inline)]
pub use agentflow_core::{
    access, agent, artifact, definition, diagnostic, dry_run, error, event, executor, expression,
    mailbox, message, middleware, path, resource, run, schema, session, state, telemetry, template,
    time, tool, value, workflow,
};
#[cfg(any(feature = "a2a-server", feature = "mcp-server-http", feature = "server"))]
#[doc(inline)]
pub use agentflow_front as front;
#[cfg(feature = "mcp")]
#[doc(inline)]
pub use agentflow_mcp::mcp;
#[cfg(feature = "mcp-server")]
#[doc(inline)]
pub use agentflow_mcp::mcp_server;
#[cfg(feature = "server")]
#[doc(inline)]
pub use agentflow_server as server;
#[doc(alias = "BuiltinTool")]
#[doc(inline)]
pub use agentflow_tools as tools;
pub mod runtime {
    //! The runtime: starts runs, finds them by id, and holds their shared resources.
    //! [`RuntimeConfig`] configures it from a file and from environment variables.

    #[doc(inline)]
    pub use agentflow_config::{
        A2aAgentSettings, AlertSettings, ApiToolSettings, ConfigError, ConfigureRuntime,
        HttpRequestSettings, McpServerSettings, ProviderSettings, RuntimeConfig, StorageSettings,
        ToolSettings,
    };
    #[doc(inline)]
    pub use agentflow_core::runtime::*;
}
/// Chat models: the [`Model`] trait, its requests and answers, and the adapters for the wire
/// formats of providers, each behind a cargo feature.
///
/// Streaming is the primitive: [`Model::call`] reads a stream to its end.
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
// The macro; the module of the same name is `agentflow_tools`.
pub use agentflow_core::tools;
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
    //! Long-term memory: facts about a user that agents remember across runs and sessions.
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
    //! Durable storage of runs: the [`Store`] trait, its data types, and its implementations (in
    //! memory, SQLite and Postgres).
    //!
    //! A store keeps the events of a run in order and fences off old writers by an epoch. It
    //! interprets only the few events that determine a run's status ([`RunRecord::apply`]).

    #[doc(inline)]
    pub use agentflow_core::store::*;
    #[cfg(feature = "postgres")]
    #[doc(inline)]
    pub use agentflow_postgres::{PostgresStore, PostgresStoreBuilder};
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
    Agent, Approval, Caller, CallerClaims, Context, Error, Event, Hooks, Inject, Message, Model,
    Registry, Result, RunHandle, RunId, Runtime, Tool, Workflow, ask_user, exit_loop, forget,
    recall, remember,
};

/// The imports that most programs need: `use agentflow::prelude::*;`.
///
/// Its [`Result`] is `Result<T, E = agentflow::Error>`: `Result<T>` fails with an [`Error`], and
/// `Result<T, E>` is the standard type. The forms of a workflow, such as `gate!` and `map!`, are
/// not included. They need no import, because `#[workflow]` reads them, and names such as `map` and
/// `timeout` stay free for your own macros.
pub mod prelude {
    // Only the attribute macros: the modules with the same names are not included.
    pub use agentflow_macros::{agent, tool, workflow};

    #[cfg(feature = "a2a-client")]
    pub use crate::a2a::A2aRuntime;
    pub use crate::runtime::ConfigureRuntime;
    pub use crate::state::StateKey;
    pub use crate::{
        Agent, Approval, Context, Hooks, Inject, Message, Model, Result, Runtime, tools,
    };
}
