//! Configuration of a runtime from a file and environment variables: [`RuntimeConfig`].
//!
//! Programs depend on the crate `agentflow-sdk`. It re-exports these items in the module
//! `agentflow::runtime`, and [`ConfigureRuntime`] in the prelude.
#![cfg_attr(docsrs, feature(doc_cfg))]

// `runtime_config.rs` reads the file and the variables. `configured_models.rs`,
// `configured_servers.rs` and `configured_tools.rs` define the entries. `configure_runtime.rs`
// applies them to a builder of the core, through the hidden items of `__private::extension`. An
// entry that cannot be used is reported (`entry_problem.rs`) and left out; the others are applied.

mod config_error;
mod configure_runtime;
mod configured_models;
mod configured_servers;
mod configured_tools;
mod entry_problem;
mod runtime_config;

pub use self::config_error::ConfigError;
pub use self::configure_runtime::ConfigureRuntime;
pub use self::configured_models::ProviderSettings;
pub use self::configured_servers::{A2aAgentSettings, McpServerSettings};
pub use self::configured_tools::{
    AlertSettings, ApiToolSettings, HttpRequestSettings, StorageSettings, ToolSettings,
};
pub use self::runtime_config::RuntimeConfig;
