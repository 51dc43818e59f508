//! Entries of a configuration in a builder: providers, toolsets and tools whose origin is the configuration.

use std::sync::Arc;

use super::catalogue_entry::Origin;
use super::config_problem::ConfigProblem;
use super::runtime_builder::RuntimeBuilder;
use crate::model::{ModelRef, ModelServer, SecretProvider, full_name};
use crate::tool::{ToolRef, ToolsetRef};

impl RuntimeBuilder {
    /// Adds a provider. If its entry cannot be used, opening a model fails with the reason.
    pub(crate) fn configured_provider(
        mut self,
        name: &str,
        server: Result<ModelServer, ConfigProblem>,
    ) -> Self {
        let name = full_name(name).to_owned();
        self.given.providers.push((name.as_str().into(), Origin::Configuration));
        let open = move |model: &ModelRef, secrets: &Arc<dyn SecretProvider>| match &server {
            Ok(server) => {
                server.open(model.model(), secrets).map_err(|error| error.message().to_owned())
            }
            Err(problem) => Err(problem.to_string()),
        };
        self.host.models.insert(name, Arc::new(open));
        self
    }

    /// Adds a toolset. It replaces an earlier toolset of its name.
    pub(crate) fn configured_toolset(&mut self, toolset: ToolsetRef) {
        self.given.toolsets.retain(|(other, _)| other.name() != toolset.name());
        self.given.toolsets.push((toolset, Origin::Configuration));
    }

    /// Adds a tool. It replaces an earlier tool of its name.
    pub(crate) fn configured_tool(&mut self, tool: ToolRef) {
        self.given.tools.retain(|(other, _)| other.catalogue_name() != tool.catalogue_name());
        self.given.tools.push((tool.with_wire_name(), Origin::Configuration));
    }
}
