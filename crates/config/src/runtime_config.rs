//! `RuntimeConfig`: settings of a runtime from a file and from environment variables, which are
//! chosen where a program is deployed. It contains names of keys. Their values come from a
//! [`SecretProvider`](agentflow_core::model::SecretProvider) when a builder applies the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[cfg(feature = "documents")]
use agentflow_core::__private::extension;
use agentflow_core::definition::Changes;
use agentflow_core::model::ModelRef;
use agentflow_core::store::StoreAddress;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{A2aAgentSettings, ConfigError, McpServerSettings, ProviderSettings, ToolSettings};

/// Settings of a runtime, from a file and the environment. [`ConfigureRuntime::config`](crate::ConfigureRuntime::config) applies them.
/// `None` and empty values keep the settings of the builder.
///
/// A file is YAML (feature `documents`) or JSON with the following fields, all optional. Paths are
/// relative to the folder of the file. An environment variable replaces the field of the file. For
/// a field that is an object, the variable contains the object as YAML or JSON:
///
/// | field | variable | |
/// | --- | --- | --- |
/// | `model` | `AGENTFLOW_MODEL` | [`RuntimeBuilder::model`](agentflow_core::runtime::RuntimeBuilder::model) |
/// | `agent_models` | `AGENTFLOW_AGENT_MODELS` | [`RuntimeBuilder::agent_model`](agentflow_core::runtime::RuntimeBuilder::agent_model), by the names of agents |
/// | `app` | `AGENTFLOW_APP` | [`RuntimeBuilder::app`](agentflow_core::runtime::RuntimeBuilder::app), by keys |
/// | `providers` | `AGENTFLOW_PROVIDERS` | model servers, by provider name: [`ProviderSettings`] |
/// | `mcp_servers` | `AGENTFLOW_MCP_SERVERS` | MCP servers, by name: [`McpServerSettings`] |
/// | `a2a_agents` | `AGENTFLOW_A2A_AGENTS` | remote A2A agents, by name: [`A2aAgentSettings`] |
/// | `a2a_networks` | `AGENTFLOW_A2A_NETWORKS`, with commas | networks outside the public internet, such as `10.1.0.0/16`, in which documents may refer to agents by `endpoint`: `RuntimeBuilder::a2a_guard` |
/// | `tools` | `AGENTFLOW_TOOLS` | ready-made tools: [`ToolSettings`] |
/// | `documents` | `AGENTFLOW_DOCUMENTS`, folders as in `PATH` | [`RuntimeBuilder::document_folder`](agentflow_core::runtime::RuntimeBuilder::document_folder) for each |
/// | `store` | `AGENTFLOW_STORE` | [`StoreAddress`]: a file (feature `sqlite`), `postgres://..` (feature `postgres`) or `memory:` |
/// | `grant` | `AGENTFLOW_GRANT`, with commas | [`RuntimeBuilder::grant`](agentflow_core::runtime::RuntimeBuilder::grant) |
/// | `max_llm_calls` | `AGENTFLOW_MAX_LLM_CALLS` | [`RuntimeBuilder::max_llm_calls`](agentflow_core::runtime::RuntimeBuilder::max_llm_calls) |
/// | `max_output_bytes` | `AGENTFLOW_MAX_OUTPUT_BYTES` | [`RuntimeBuilder::max_output_bytes`](agentflow_core::runtime::RuntimeBuilder::max_output_bytes) |
/// | `max_nesting` | `AGENTFLOW_MAX_NESTING` | [`RuntimeBuilder::max_nesting`](agentflow_core::runtime::RuntimeBuilder::max_nesting) |
/// | `trace_content` | `AGENTFLOW_TRACE_CONTENT`, `true` or `false` | [`RuntimeBuilder::trace_content`](agentflow_core::runtime::RuntimeBuilder::trace_content) |
/// | `changes` | `AGENTFLOW_CHANGES` | [`RuntimeBuilder::changes`](agentflow_core::runtime::RuntimeBuilder::changes): `refuse`, `accept-compatible` or `accept-all` |
///
/// In the strings of `providers`, `mcp_servers`, `a2a_agents` and `tools`, `${NAME}` is replaced by
/// a secret of the builder's [`secrets`](agentflow_core::runtime::RuntimeBuilder::secrets), by default an environment
/// variable. `${NAME:-else}` has a default text. An entry of these fields that cannot be used, for
/// example because a variable is missing, does not affect the others. It is reported by
/// [`Runtime::health`](agentflow_core::Runtime::health), and each call that needs the server or the
/// provider fails with the reason. The page `agentflow::configuration` has an example.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::runtime::RuntimeConfig;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"{"model": "openai/gpt-5-mini", "max_llm_calls": 50, "grant": ["mail.send"]}"#;
/// let config = RuntimeConfig::read("service.json", text)?;
/// let config = config.with_variables(|name| (name == "AGENTFLOW_MAX_LLM_CALLS").then(|| "20".to_owned()))?;
/// assert_eq!(config.max_llm_calls, Some(20));
/// let runtime = Runtime::builder().config(config).await?.build();
///
/// let error = RuntimeConfig::read("service.json", r#"{"max_llm_cals": 50}"#).unwrap_err();
/// assert!(error.to_string().contains("unknown field `max_llm_cals`"), "{error}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RuntimeConfig {
    /// Model of every `#[agent]`, except those in `agent_models`.
    #[serde(deserialize_with = "model")]
    pub model: Option<String>,
    /// Models of agents, by agent name.
    #[serde(deserialize_with = "models")]
    pub agent_models: BTreeMap<String, String>,
    /// Values that instructions insert.
    pub app: BTreeMap<String, Value>,
    /// Model servers, by provider name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// MCP servers, by name: the tool `read` of the server `files` is `mcp.files.read`.
    pub mcp_servers: BTreeMap<String, McpServerSettings>,
    /// Remote A2A agents, by name: `billing` is the tool `a2a.billing`.
    pub a2a_agents: BTreeMap<String, A2aAgentSettings>,
    /// Networks outside the public internet in which documents may refer to agents by address.
    pub a2a_networks: Vec<String>,
    /// Ready-made tools.
    pub tools: ToolSettings,
    /// Folders of documents.
    pub documents: Vec<PathBuf>,
    /// Address of the store. The password of a URL should be a secret of the environment: set
    /// `AGENTFLOW_STORE` instead of this field.
    pub store: Option<StoreAddress>,
    /// Scopes that are granted to all runs.
    pub grant: Vec<String>,
    /// Maximum number of model calls of a run.
    pub max_llm_calls: Option<u32>,
    /// Maximum size in bytes of the output of a step.
    pub max_output_bytes: Option<usize>,
    /// Maximum nesting depth of agents and workflows.
    pub max_nesting: Option<u32>,
    /// Enables message contents in tracing spans.
    pub trace_content: Option<bool>,
    /// Changes of definitions that are accepted when a run is resumed.
    #[serde(deserialize_with = "changes")]
    pub changes: Option<Changes>,
}

/// Variable with the path of the configuration file.
const FILE: &str = "AGENTFLOW_CONFIG";

/// Variables that contain objects, and the fields that they replace.
const DATA: [(&str, &str); 6] = [
    ("AGENTFLOW_AGENT_MODELS", "agent_models"),
    ("AGENTFLOW_APP", "app"),
    ("AGENTFLOW_PROVIDERS", "providers"),
    ("AGENTFLOW_MCP_SERVERS", "mcp_servers"),
    ("AGENTFLOW_A2A_AGENTS", "a2a_agents"),
    ("AGENTFLOW_TOOLS", "tools"),
];

impl RuntimeConfig {
    /// Reads a configuration from text. `name` is used in errors. Relative paths are not changed.
    ///
    /// # Errors
    /// [`ConfigError::File`] with all errors and their positions; without the feature `documents`,
    /// [`ConfigError::Json`] with the first one.
    pub fn read(name: &str, text: &str) -> Result<Self, ConfigError> {
        values(name, text)
    }

    /// Reads a configuration file. Relative paths in it are resolved against the folder of the
    /// file.
    ///
    /// # Errors
    /// [`ConfigError::File`] if the file cannot be read, or with all errors in it; without the
    /// feature `documents`, [`ConfigError::Unreadable`] or [`ConfigError::Json`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let read: Self = open_values(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let in_folder = |path: PathBuf| folder.join(path);
        let (documents, store) = (read.documents, read.store);
        let (tools, mut mcp_servers) = (read.tools.in_folder(folder), read.mcp_servers);
        for cwd in mcp_servers.values_mut().filter_map(|server| server.cwd.as_mut()) {
            *cwd = folder.join(&*cwd);
        }
        let documents = documents.into_iter().map(in_folder).collect();
        let store = store.map(|store| store.in_folder(folder));
        Ok(Self { documents, store, tools, mcp_servers, ..read })
    }

    /// Reads the configuration of this process: the file that `AGENTFLOW_CONFIG` names, if set, and
    /// then the environment variables. Empty variables count as not set.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`with_variables`](Self::with_variables), and if a variable is
    /// not UTF-8.
    pub fn from_env() -> Result<Self, ConfigError> {
        match std::env::var_os(FILE).filter(|file| !file.is_empty()) {
            Some(file) => Self::open(file)?.with_environment(),
            None => Self::default().with_environment(),
        }
    }

    /// Applies the environment variables to this configuration. Empty variables count as not set.
    pub fn with_environment(self) -> Result<Self, ConfigError> {
        let not_text = std::cell::RefCell::new(Vec::new());
        let variable = |name: &str| match std::env::var(name) {
            Ok(value) => Some(value).filter(|value| !value.is_empty()),
            Err(std::env::VarError::NotPresent) => None,
            Err(std::env::VarError::NotUnicode(_)) => {
                not_text.borrow_mut().push(format!("`{name}` is not UTF-8"));
                None
            }
        };
        let with_variables = self.with_variables(variable);
        let mut problems = not_text.take();
        match with_variables {
            Ok(config) if problems.is_empty() => Ok(config),
            Ok(_) => Err(ConfigError::Variables(problems)),
            Err(ConfigError::Variables(more)) => {
                problems.extend(more);
                Err(ConfigError::Variables(problems))
            }
            Err(other) => Err(other),
        }
    }

    /// Applies variables to this configuration. `variable` returns the value of a variable, or
    /// `None` if it is not set.
    ///
    /// # Errors
    /// [`ConfigError::Variables`] with all invalid variables.
    pub fn with_variables(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut given = Variables { variable, problems: Vec::new() };
        let model = |text: &str| {
            text.parse::<ModelRef>().map(|_| text.to_owned()).map_err(|error| error.to_string())
        };
        given.set("AGENTFLOW_MODEL", &mut self.model, model);
        given.set("AGENTFLOW_STORE", &mut self.store, |text| Ok(text.into()));
        given.set("AGENTFLOW_MAX_LLM_CALLS", &mut self.max_llm_calls, number);
        given.set("AGENTFLOW_MAX_OUTPUT_BYTES", &mut self.max_output_bytes, number);
        given.set("AGENTFLOW_MAX_NESTING", &mut self.max_nesting, number);
        given.set("AGENTFLOW_TRACE_CONTENT", &mut self.trace_content, |text| {
            text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
        });
        given.set("AGENTFLOW_CHANGES", &mut self.changes, rule);
        // A list from the environment replaces the list of the file; the two are not joined.
        let (mut documents, mut grant, mut networks) = (None, None, None);
        given.set("AGENTFLOW_DOCUMENTS", &mut documents, |text| {
            Ok(std::env::split_paths(text).collect())
        });
        given.set("AGENTFLOW_GRANT", &mut grant, |text| Ok(texts(text)));
        given.set("AGENTFLOW_A2A_NETWORKS", &mut networks, |text| Ok(texts(text)));
        for (variable, field) in DATA {
            let Some(read) = given.data(variable, field) else { continue };
            match field {
                "agent_models" => self.agent_models = read.agent_models,
                "app" => self.app = read.app,
                "providers" => self.providers = read.providers,
                "mcp_servers" => self.mcp_servers = read.mcp_servers,
                "a2a_agents" => self.a2a_agents = read.a2a_agents,
                _ => self.tools = read.tools,
            }
        }
        self.documents = documents.unwrap_or(self.documents);
        self.grant = grant.unwrap_or(self.grant);
        self.a2a_networks = networks.unwrap_or(self.a2a_networks);
        if given.problems.is_empty() {
            Ok(self)
        } else {
            Err(ConfigError::Variables(given.problems))
        }
    }
}

/// A source of variables, and the errors found in them.
struct Variables<V> {
    variable: V,
    problems: Vec<String>,
}

impl<V: Fn(&str) -> Option<String>> Variables<V> {
    fn set<T>(
        &mut self,
        name: &str,
        field: &mut Option<T>,
        read: impl Fn(&str) -> Result<T, String>,
    ) {
        let Some(text) = (self.variable)(name) else { return };
        match read(text.trim()) {
            Ok(value) => *field = Some(value),
            Err(problem) => self.problems.push(format!("`{name}`: {problem}")),
        }
    }

    /// Parses an object as the value of a field, by reading a configuration with only this field.
    fn data(&mut self, name: &str, field: &str) -> Option<RuntimeConfig> {
        let text = (self.variable)(name)?;
        let whole = |value: Value| {
            RuntimeConfig::read(name, &serde_json::json!({field: value}).to_string())
        };
        match values(name, &text).and_then(whole) {
            Ok(read) => Some(read),
            #[cfg(feature = "documents")]
            Err(ConfigError::File(error)) => {
                // The line is not shown, since it may contain a key.
                let said = error.problems().iter().map(|problem| format!("`{name}`: {problem}"));
                self.problems.extend(said);
                None
            }
            Err(error) => {
                self.problems.push(format!("`{name}`: {error}"));
                None
            }
        }
    }
}

/// Parses YAML or JSON.
#[cfg(feature = "documents")]
fn values<T: DeserializeOwned + Default>(name: &str, text: &str) -> Result<T, ConfigError> {
    extension::read_values(&name.into(), &text.into()).map_err(ConfigError::File)
}

#[cfg(feature = "documents")]
fn open_values<T: DeserializeOwned + Default>(path: &Path) -> Result<T, ConfigError> {
    extension::open_values(path).map_err(ConfigError::File)
}

/// Parses JSON. YAML requires the feature `documents`.
#[cfg(not(feature = "documents"))]
fn values<T: DeserializeOwned + Default>(name: &str, text: &str) -> Result<T, ConfigError> {
    let failed = |problem: String| ConfigError::Json { name: name.to_owned(), problem };
    agentflow_schema::strict::check(text).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(text).map_err(|error| failed(error.to_string()))
}

#[cfg(not(feature = "documents"))]
fn open_values<T: DeserializeOwned + Default>(path: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })?;
    values(&path.display().to_string(), &text)
}

/// Splits a list at commas.
fn texts(text: &str) -> Vec<String> {
    text.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number that fits"))
}

fn rule(text: &str) -> Result<Changes, String> {
    match text {
        "refuse" => Ok(Changes::Refuse),
        "accept-compatible" => Ok(Changes::AcceptCompatible),
        "accept-all" => Ok(Changes::AcceptAll),
        other => {
            Err(format!("`{other}` is not one of `refuse`, `accept-compatible` and `accept-all`"))
        }
    }
}

fn checked<E: serde::de::Error>(name: String) -> Result<String, E> {
    name.parse::<ModelRef>().map_err(E::custom)?;
    Ok(name)
}

fn model<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Option::<String>::deserialize(from)?.map(checked).transpose()
}

fn models<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let models = BTreeMap::<String, String>::deserialize(from)?;
    models.into_iter().map(|(agent, model)| Ok((agent, checked(model)?))).collect()
}

fn changes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Changes>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.as_deref().map(rule).transpose().map_err(serde::de::Error::custom)
}
