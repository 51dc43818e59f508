//! Entries of a configuration in a builder, and the entries that cannot be used. The runtime
//! reports these as problems of its health.

use crate::model::{ModelRef, ModelServer, SecretProvider, full_name};
use crate::runtime::builder::runtime_builder::RuntimeBuilder;
use crate::runtime::catalogue::catalogue_entry::Origin;
use crate::tool::{ToolRef, ToolsetRef};
use std::fmt;
use std::sync::Arc;

/// An entry of a configuration that cannot be used. The rest of the configuration is used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// The entry, such as `tools.storage`.
    pub entry: String,
    /// The reason. It has no key.
    pub problem: String,
}

impl ConfigProblem {
    /// Creates a problem of an entry.
    pub fn new(entry: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { entry: entry.into(), problem: problem.into() }
    }
}

/// The unusable entries of a runtime's configuration.
pub(crate) struct ConfigProblems(pub(crate) Arc<[ConfigProblem]>);

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the entry `{}` of the configuration cannot be used: {}",
            self.entry, self.problem
        )
    }
}

impl std::error::Error for ConfigProblem {}

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
