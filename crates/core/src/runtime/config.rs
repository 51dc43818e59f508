//! `RuntimeConfig`: settings of a runtime from a file and from variables of the environment, which are decided where a program is
//! installed. It has the names of keys, whose values come from a [`SecretProvider`](crate::model::SecretProvider) when a builder
//! takes it, and opens nothing before.

mod configured_models;
mod configured_servers;
mod configured_tools;
mod entry_problem;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use self::configured_models::ProviderSettings;
pub use self::configured_servers::{A2aAgentSettings, McpServerSettings};
pub use self::configured_tools::{AlertSettings, ApiToolSettings, HttpRequestSettings, StorageSettings, ToolSettings};
use self::entry_problem::EntryProblem;
use super::catalogue_entry::Origin;
use super::runtime_builder::RuntimeBuilder;
use crate::definition::Changes;
#[cfg(feature = "documents")]
use crate::document::{DocumentError, read_values};
use crate::model::{ModelRef, ModelServer, SecretProvider, full_name};
use crate::store::{StoreError, open_store_file};
use crate::tool::ToolsetRef;

/// Settings of a runtime, from a file and the environment. [`RuntimeBuilder::config`] takes them. What is `None` or empty leaves
/// the builder as it is.
///
/// A file is YAML (feature `documents`) or JSON with these fields; each may be left out. Paths in it are of its folder. A variable of the environment
/// replaces the field of the file. The variable of a field that is an object has the object as YAML or JSON:
///
/// | field | variable | |
/// | --- | --- | --- |
/// | `model` | `AGENTFLOW_MODEL` | [`RuntimeBuilder::model`] |
/// | `agent_models` | `AGENTFLOW_AGENT_MODELS` | [`RuntimeBuilder::agent_model`], by the names of agents |
/// | `app` | `AGENTFLOW_APP` | [`RuntimeBuilder::app`], by keys |
/// | `providers` | `AGENTFLOW_PROVIDERS` | servers of models, by the names of their providers: [`ProviderSettings`] |
/// | `mcp_servers` | `AGENTFLOW_MCP_SERVERS` | MCP servers by their names: [`McpServerSettings`] |
/// | `a2a_agents` | `AGENTFLOW_A2A_AGENTS` | agents of other programs by their names: [`A2aAgentSettings`] |
/// | `a2a_networks` | `AGENTFLOW_A2A_NETWORKS`, with commas | networks beside the public internet, such as `10.1.0.0/16`, in which documents may name agents by `endpoint`: [`RuntimeBuilder::a2a_guard`] |
/// | `tools` | `AGENTFLOW_TOOLS` | tools of the library: [`ToolSettings`] |
/// | `documents` | `AGENTFLOW_DOCUMENTS`, folders as in `PATH` | [`RuntimeBuilder::document_folder`] for each |
/// | `store` | `AGENTFLOW_STORE` | the file of a `SqliteStore` (feature `sqlite`) |
/// | `grant` | `AGENTFLOW_GRANT`, with commas | [`RuntimeBuilder::grant`] |
/// | `max_llm_calls` | `AGENTFLOW_MAX_LLM_CALLS` | [`RuntimeBuilder::max_llm_calls`] |
/// | `max_output_bytes` | `AGENTFLOW_MAX_OUTPUT_BYTES` | [`RuntimeBuilder::max_output_bytes`] |
/// | `max_nesting` | `AGENTFLOW_MAX_NESTING` | [`RuntimeBuilder::max_nesting`] |
/// | `trace_content` | `AGENTFLOW_TRACE_CONTENT`, `true` or `false` | [`RuntimeBuilder::trace_content`] |
/// | `changes` | `AGENTFLOW_CHANGES` | [`RuntimeBuilder::changes`]: `refuse`, `accept-compatible` or `accept-all` |
///
/// In the texts of `providers`, `mcp_servers`, `a2a_agents` and `tools`, `${NAME}` is a key of the builder's
/// [`secrets`](RuntimeBuilder::secrets), by default a variable of the environment, and `${NAME:-else}` has a text for when that is
/// not set. An entry of them that cannot be used, such as one with a missing variable, leaves all others: it is a problem of
/// [`Runtime::health`](crate::Runtime::health), and each call that needs the server or the provider fails with the reason. The page
/// configuration (page `agentflow::configuration`) has an example.
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
    /// The model of every `#[agent]`, but for those in `agent_models`.
    #[serde(deserialize_with = "model")]
    pub model: Option<String>,
    /// Models of agents, by their names.
    #[serde(deserialize_with = "models")]
    pub agent_models: BTreeMap<String, String>,
    /// Values that instructions show.
    pub app: BTreeMap<String, Value>,
    /// Servers of models, by the names of their providers.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// MCP servers, by their names: `read` of the server `files` is the tool `mcp.files.read`.
    pub mcp_servers: BTreeMap<String, McpServerSettings>,
    /// Agents of other programs, by their names: `billing` is the tool `a2a.billing`.
    pub a2a_agents: BTreeMap<String, A2aAgentSettings>,
    /// Networks beside the public internet in which documents may name agents by their addresses.
    pub a2a_networks: Vec<String>,
    /// Tools of the library.
    pub tools: ToolSettings,
    /// Folders of documents.
    pub documents: Vec<PathBuf>,
    /// The file of the store.
    pub store: Option<PathBuf>,
    /// Scopes.
    pub grant: Vec<String>,
    /// The most model calls of a run.
    pub max_llm_calls: Option<u32>,
    /// The most bytes of the output of a step.
    pub max_output_bytes: Option<usize>,
    /// How deep agents and workflows may be nested.
    pub max_nesting: Option<u32>,
    /// Whether spans hold what was said.
    pub trace_content: Option<bool>,
    /// What of a changed definition is accepted.
    #[serde(deserialize_with = "changes")]
    pub changes: Option<Changes>,
}

/// Why a configuration cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read or has mistakes, all of them.
    #[cfg(feature = "documents")]
    File(DocumentError),
    /// The text is not JSON, or has a mistake. With the feature `documents` it is [`File`](Self::File).
    #[non_exhaustive]
    Json {
        /// The name that the text was read under, such as its file's.
        name: String,
        /// The first mistake.
        problem: String,
    },
    /// The file cannot be read.
    #[non_exhaustive]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Variables of the environment that are not what they have to be, a sentence for each.
    Variables(Vec<String>),
    /// The store cannot be opened.
    Store(StoreError),
    /// The program is built without what the configuration asks for.
    Missing(String),
}

/// An entry of a configuration that cannot be used. The rest of the configuration is used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// The entry, such as `tools.storage`.
    pub entry: String,
    /// The reason. It has no key.
    pub problem: String,
}

/// The entries that a runtime's configuration has and that cannot be used.
pub(super) struct ConfigProblems(pub(super) Arc<[ConfigProblem]>);

/// The variable that names a file.
const FILE: &str = "AGENTFLOW_CONFIG";

/// Variables that have an object, and the fields that they replace.
const DATA: [(&str, &str); 6] = [
    ("AGENTFLOW_AGENT_MODELS", "agent_models"),
    ("AGENTFLOW_APP", "app"),
    ("AGENTFLOW_PROVIDERS", "providers"),
    ("AGENTFLOW_MCP_SERVERS", "mcp_servers"),
    ("AGENTFLOW_A2A_AGENTS", "a2a_agents"),
    ("AGENTFLOW_TOOLS", "tools"),
];

impl RuntimeConfig {
    /// Reads the text of a file; `name` is shown with its mistakes. Paths stay as they are written.
    ///
    /// # Errors
    /// [`ConfigError::File`] with all mistakes, each with its place; without the feature `documents` [`ConfigError::Json`] with the
    /// first one.
    pub fn read(name: &str, text: &str) -> Result<Self, ConfigError> {
        values(name, text)
    }

    /// Reads a file. A relative path in it is one of the file's folder.
    ///
    /// # Errors
    /// [`ConfigError::File`] with all mistakes, and when it cannot be read.
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
        Ok(Self { documents, store: store.map(in_folder), tools, mcp_servers, ..read })
    }

    /// The configuration of this process: the file that `AGENTFLOW_CONFIG` names, if it does, and then the variables. Variables
    /// that are empty are not set.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`with_variables`](Self::with_variables), and when a variable is not UTF-8.
    pub fn from_env() -> Result<Self, ConfigError> {
        match std::env::var_os(FILE).filter(|file| !file.is_empty()) {
            Some(file) => Self::open(file)?.with_environment(),
            None => Self::default().with_environment(),
        }
    }

    /// Applies the variables of the environment to this configuration. Empty variables count as not set.
    ///
    /// # Errors
    /// As [`with_variables`](Self::with_variables), and if a variable is not UTF-8.
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

    /// With the variables that `variable` has a value of, in place of what was read.
    ///
    /// # Errors
    /// [`ConfigError::Variables`] with every variable that is not what it has to be.
    pub fn with_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut given = Variables { variable, problems: Vec::new() };
        let model = |text: &str| text.parse::<ModelRef>().map(|_| text.to_owned()).map_err(|error| error.to_string());
        given.set("AGENTFLOW_MODEL", &mut self.model, model);
        given.set("AGENTFLOW_STORE", &mut self.store, |text| Ok(text.into()));
        given.set("AGENTFLOW_MAX_LLM_CALLS", &mut self.max_llm_calls, number);
        given.set("AGENTFLOW_MAX_OUTPUT_BYTES", &mut self.max_output_bytes, number);
        given.set("AGENTFLOW_MAX_NESTING", &mut self.max_nesting, number);
        given.set("AGENTFLOW_TRACE_CONTENT", &mut self.trace_content, |text| {
            text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
        });
        given.set("AGENTFLOW_CHANGES", &mut self.changes, rule);
        let (mut documents, mut grant, mut networks) = (None, None, None);
        given.set("AGENTFLOW_DOCUMENTS", &mut documents, |text| Ok(std::env::split_paths(text).collect()));
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
        if given.problems.is_empty() { Ok(self) } else { Err(ConfigError::Variables(given.problems)) }
    }
}

impl RuntimeBuilder {
    /// Takes over a configuration: each setting that it has replaces the one before, a server or a tool the one of its name, and
    /// its scopes and folders are further ones. The store is opened; servers are not. Call it after
    /// [`secrets`](Self::secrets), which has the keys that the configuration names.
    ///
    /// # Errors
    /// [`ConfigError::Store`] when the store cannot be opened, and [`ConfigError::Missing`] when it names one and the program is
    /// built without the feature `sqlite`.
    pub async fn config(mut self, config: RuntimeConfig) -> Result<Self, ConfigError> {
        let RuntimeConfig { model, agent_models, app, documents, store, grant, .. } = config;
        let RuntimeConfig { max_llm_calls, max_output_bytes, max_nesting, trace_content, changes, .. } = config;
        if let Some(store) = store {
            self = self.with_store_file(store).await?;
        }
        let RuntimeConfig { providers, mcp_servers, a2a_agents, a2a_networks, tools, .. } = config;
        let secrets = Arc::clone(&self.host.secrets);
        for (name, provider) in providers {
            let server = provider.server(&name, &secrets).await;
            let server =
                server.map_err(|EntryProblem(problem)| ConfigProblem { entry: format!("providers.{name}"), problem });
            self.problems.extend(server.as_ref().err().cloned());
            self = self.configured_provider(name, server);
        }
        for (name, server) in mcp_servers.into_iter().filter(|(_, server)| !server.disabled) {
            self.configured_toolset(server.toolset(&name, &secrets).await);
        }
        for (name, agent) in a2a_agents {
            self.configured_toolset(agent.toolset(&name, &secrets).await);
        }
        self = self.with_a2a_networks(&a2a_networks);
        let made = tools.made(&secrets).await;
        for tool in made.tools {
            self.given.tools.retain(|(other, _)| other.catalogue_name() != tool.catalogue_name());
            self.given.tools.push((tool.with_wire_name(), Origin::Configuration));
        }
        for (entry, EntryProblem(problem)) in made.problems {
            self.problems.push(ConfigProblem { entry, problem });
        }
        self = model.into_iter().fold(self, Self::model);
        self = agent_models.into_iter().fold(self, |builder, (agent, model)| builder.agent_model(agent, model));
        self = app.into_iter().fold(self, |builder, (key, value)| builder.app(key, value));
        self = self.with_folders(documents)?;
        self = max_llm_calls.into_iter().fold(self, Self::max_llm_calls);
        self = max_output_bytes.into_iter().fold(self, Self::max_output_bytes);
        self = max_nesting.into_iter().fold(self, Self::max_nesting);
        self = trace_content.into_iter().fold(self, Self::trace_content);
        self = changes.into_iter().fold(self, Self::changes);
        Ok(self.grant(grant))
    }

    #[cfg(feature = "documents")]
    #[allow(clippy::unnecessary_wraps, reason = "the same without the feature")]
    fn with_folders(self, folders: Vec<PathBuf>) -> Result<Self, ConfigError> {
        Ok(folders.into_iter().fold(self, Self::document_folder))
    }

    #[cfg(not(feature = "documents"))]
    fn with_folders(self, folders: Vec<PathBuf>) -> Result<Self, ConfigError> {
        match folders.first() {
            None => Ok(self),
            Some(folder) => Err(ConfigError::Missing(format!(
                "the folder `{}` needs the feature `documents`, without which this program is built",
                folder.display()
            ))),
        }
    }

    /// Allows networks for the addresses of agents in documents. A mistake in one leaves all of them refused.
    fn with_a2a_networks(mut self, networks: &[String]) -> Self {
        if networks.is_empty() {
            return self;
        }
        #[cfg(feature = "a2a-client")]
        let problem = match configured_tools::guard(networks) {
            Ok(guard) => return self.a2a_guard(guard),
            Err(EntryProblem(problem)) => problem,
        };
        #[cfg(not(feature = "a2a-client"))]
        let problem = "it needs the feature `a2a-client`, without which this program is built".to_owned();
        self.problems.push(ConfigProblem { entry: "a2a_networks".to_owned(), problem });
        self
    }

    /// Adds a provider. If its entry cannot be used, opening a model fails with the reason.
    fn configured_provider(mut self, name: String, server: Result<ModelServer, ConfigProblem>) -> Self {
        let name = full_name(&name).to_owned();
        self.given.providers.push((name.as_str().into(), Origin::Configuration));
        let open = move |model: &ModelRef, secrets: &Arc<dyn SecretProvider>| match &server {
            Ok(server) => server.open(model.model(), secrets).map_err(|error| error.message().to_owned()),
            Err(problem) => Err(problem.to_string()),
        };
        self.host.models.insert(name, Arc::new(open));
        self
    }

    fn configured_toolset(&mut self, toolset: ToolsetRef) {
        self.given.toolsets.retain(|(other, _)| other.name() != toolset.name());
        self.given.toolsets.push((toolset, Origin::Configuration));
    }

    async fn with_store_file(mut self, file: PathBuf) -> Result<Self, ConfigError> {
        let Some(open) = open_store_file() else {
            let file = file.display();
            return Err(ConfigError::Missing(format!(
                "the store `{file}` needs the feature `sqlite`, without which this program is built"
            )));
        };
        self.host.set_store(open(file).await.map_err(ConfigError::Store)?);
        Ok(self)
    }
}

/// Variables, and what is wrong with them.
struct Variables<V> {
    variable: V,
    problems: Vec<String>,
}

impl<V: Fn(&str) -> Option<String>> Variables<V> {
    fn set<T>(&mut self, name: &str, field: &mut Option<T>, read: impl Fn(&str) -> Result<T, String>) {
        let Some(text) = (self.variable)(name) else { return };
        match read(text.trim()) {
            Ok(value) => *field = Some(value),
            Err(problem) => self.problems.push(format!("`{name}`: {problem}")),
        }
    }

    /// Reads an object as the value of a field, in the configuration that has this field alone.
    fn data(&mut self, name: &str, field: &str) -> Option<RuntimeConfig> {
        let text = (self.variable)(name)?;
        let whole = |value: Value| RuntimeConfig::read(name, &serde_json::json!({field: value}).to_string());
        match values(name, &text).and_then(whole) {
            Ok(read) => Some(read),
            #[cfg(feature = "documents")]
            Err(ConfigError::File(error)) => {
                // The line is not shown, since it may have a key.
                let said = error.problems().iter().map(|problem| format!("`{name}`: {}", problem.message));
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

/// Reads YAML or JSON.
#[cfg(feature = "documents")]
fn values<T: DeserializeOwned + Default>(name: &str, text: &str) -> Result<T, ConfigError> {
    read_values(&name.into(), &text.into()).map_err(ConfigError::File)
}

#[cfg(feature = "documents")]
fn open_values<T: DeserializeOwned + Default>(path: &Path) -> Result<T, ConfigError> {
    crate::document::open_values(path).map_err(ConfigError::File)
}

/// Reads JSON; YAML needs the feature `documents`.
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

/// Reads texts with commas between them.
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
        other => Err(format!("`{other}` is not one of `refuse`, `accept-compatible` and `accept-all`")),
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

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entry `{}` of the configuration cannot be used: {}", self.entry, self.problem)
    }
}

impl StdError for ConfigProblem {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "documents")]
            Self::File(error) => write!(f, "{error}"),
            Self::Json { name, problem } => write!(f, "{name} is not a configuration in JSON: {problem}"),
            Self::Unreadable { file, source } => write!(f, "{} cannot be read: {source}", file.display()),
            Self::Variables(problems) => {
                write!(f, "variables of the environment are wrong: {}", problems.join("; "))
            }
            Self::Store(error) => write!(f, "the store of the configuration cannot be opened: {error}"),
            Self::Missing(problem) => f.write_str(problem),
        }
    }
}

impl StdError for ConfigError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            #[cfg(feature = "documents")]
            Self::File(error) => Some(error),
            Self::Unreadable { source, .. } => Some(source),
            Self::Store(error) => Some(error),
            Self::Variables(_) | Self::Missing(_) | Self::Json { .. } => None,
        }
    }
}
