//! `ConfigureRuntime`: applies a configuration to a builder.

use std::path::PathBuf;

use agentflow_core::__private::extension;
use agentflow_core::runtime::{ConfigProblem, RuntimeBuilder};

use crate::entry_problem::EntryProblem;
use crate::{ConfigError, RuntimeConfig};

/// Applies a [`RuntimeConfig`] to a [`RuntimeBuilder`]. It is in the prelude.
pub trait ConfigureRuntime: Sized {
    /// Applies a configuration. Each setting in it replaces the earlier one, and a server or tool
    /// replaces the one with the same name. Scopes and folders are added. The store is opened,
    /// servers are not contacted. Call it after [`secrets`](RuntimeBuilder::secrets), which provides the keys
    /// that the configuration refers to.
    ///
    /// # Errors
    /// [`ConfigError::Store`] if the store cannot be opened, also because its feature is not
    /// compiled in. [`ConfigError::Missing`] if the configuration names folders and the feature
    /// `documents` is not compiled in.
    fn config(
        self,
        config: RuntimeConfig,
    ) -> impl Future<Output = Result<Self, ConfigError>> + Send;
}

impl ConfigureRuntime for RuntimeBuilder {
    async fn config(mut self, config: RuntimeConfig) -> Result<Self, ConfigError> {
        let RuntimeConfig { model, agent_models, app, documents, store, grant, .. } = config;
        let RuntimeConfig {
            max_llm_calls,
            max_output_bytes,
            max_nesting,
            trace_content,
            changes,
            ..
        } = config;
        if let Some(address) = store {
            let store = address.open().await.map_err(ConfigError::Store)?;
            extension::set_store(&mut self, store);
        }
        let RuntimeConfig { providers, mcp_servers, a2a_agents, a2a_networks, tools, .. } = config;
        let secrets = extension::secrets(&self);
        for (name, provider) in providers {
            let server = provider.server(&name, &secrets).await;
            let server = server.map_err(|EntryProblem(problem)| {
                ConfigProblem::new(format!("providers.{name}"), problem)
            });
            if let Err(problem) = &server {
                extension::report_problem(&mut self, problem.clone());
            }
            self = extension::with_provider(self, &name, server);
        }
        // Disabled servers are skipped before their variables are resolved, so these may be
        // missing.
        for (name, server) in mcp_servers.into_iter().filter(|(_, server)| !server.disabled) {
            extension::add_toolset(&mut self, server.toolset(&name, &secrets).await);
        }
        for (name, agent) in a2a_agents {
            extension::add_toolset(&mut self, agent.toolset(&name, &secrets).await);
        }
        self = with_a2a_networks(self, &a2a_networks);
        let made = tools.made(&secrets).await;
        // A configured tool replaces the registered tool with the same name.
        for tool in made.tools {
            extension::add_tool(&mut self, tool);
        }
        for (entry, EntryProblem(problem)) in made.problems {
            extension::report_problem(&mut self, ConfigProblem::new(entry, problem));
        }
        self = model.into_iter().fold(self, Self::model);
        self = agent_models
            .into_iter()
            .fold(self, |builder, (agent, model)| builder.agent_model(agent, model));
        self = app.into_iter().fold(self, |builder, (key, value)| builder.app(key, value));
        self = with_folders(self, documents)?;
        self = max_llm_calls.into_iter().fold(self, Self::max_llm_calls);
        self = max_output_bytes.into_iter().fold(self, Self::max_output_bytes);
        self = max_nesting.into_iter().fold(self, Self::max_nesting);
        self = trace_content.into_iter().fold(self, Self::trace_content);
        self = changes.into_iter().fold(self, Self::changes);
        Ok(self.grant(grant))
    }
}

#[cfg(feature = "documents")]
#[allow(clippy::unnecessary_wraps, reason = "the same without the feature")]
fn with_folders(
    builder: RuntimeBuilder,
    folders: Vec<PathBuf>,
) -> Result<RuntimeBuilder, ConfigError> {
    Ok(folders.into_iter().fold(builder, RuntimeBuilder::document_folder))
}

#[cfg(not(feature = "documents"))]
fn with_folders(
    builder: RuntimeBuilder,
    folders: Vec<PathBuf>,
) -> Result<RuntimeBuilder, ConfigError> {
    match folders.first() {
        None => Ok(builder),
        Some(folder) => Err(ConfigError::Missing(format!(
            "the folder `{}` needs the feature `documents`, without which this program is built",
            folder.display()
        ))),
    }
}

/// Allows networks for the addresses of agents in documents. If a network is invalid, none is
/// allowed.
fn with_a2a_networks(mut builder: RuntimeBuilder, networks: &[String]) -> RuntimeBuilder {
    if networks.is_empty() {
        return builder;
    }
    #[cfg(feature = "a2a-client")]
    let problem = match crate::configured_tools::guard(networks) {
        Ok(guard) => return agentflow_a2a::a2a::A2aRuntime::a2a_guard(builder, guard),
        Err(EntryProblem(problem)) => problem,
    };
    #[cfg(not(feature = "a2a-client"))]
    let problem =
        "it needs the feature `a2a-client`, without which this program is built".to_owned();
    extension::report_problem(&mut builder, ConfigProblem::new("a2a_networks", problem));
    builder
}
