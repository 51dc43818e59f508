//! Configuration of a runtime from a file and environment variables: [`RuntimeConfig`].
//!
//! Programs depend on the crate `agentflow-sdk`. It re-exports these items in the module `agentflow::runtime`, and
//! [`ConfigureRuntime`] in the prelude.
#![cfg_attr(docsrs, feature(doc_cfg))]

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
