//! `RuntimeConfig`: what of a runtime is decided where a program is installed and not where it is written: a file, and variables
//! of the environment. It has no secrets, which are a [`SecretProvider`](crate::secret::SecretProvider)'s, and opens nothing
//! before a builder takes it.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::runtime_builder::RuntimeBuilder;
use crate::definition::Changes;
use crate::document::{DocumentError, open_values, read_values};
use crate::model::ModelRef;
use crate::store::StoreError;

/// Settings of a runtime, from a file and the environment. [`RuntimeBuilder::config`] takes them. What is `None` or empty leaves
/// the builder as it is.
///
/// A file is YAML or JSON with these fields; each may be left out. Paths in it are of its folder. A variable of the environment
/// stands in place of the field of the file:
///
/// | field | variable | |
/// | --- | --- | --- |
/// | `model` | `AGENTFLOW_MODEL` | [`RuntimeBuilder::model`] |
/// | `agent_models` | | [`RuntimeBuilder::agent_model`], by the names of agents |
/// | `app` | | [`RuntimeBuilder::app`], by keys |
/// | `documents` | `AGENTFLOW_DOCUMENTS`, folders as in `PATH` | [`RuntimeBuilder::document_folder`] for each |
/// | `store` | `AGENTFLOW_STORE` | the file of a [`SqliteStore`](crate::store::SqliteStore) (feature `sqlite`) |
/// | `grant` | `AGENTFLOW_GRANT`, with commas | [`RuntimeBuilder::grant`] |
/// | `max_llm_calls` | `AGENTFLOW_MAX_LLM_CALLS` | [`RuntimeBuilder::max_llm_calls`] |
/// | `max_output_bytes` | `AGENTFLOW_MAX_OUTPUT_BYTES` | [`RuntimeBuilder::max_output_bytes`] |
/// | `max_nesting` | `AGENTFLOW_MAX_NESTING` | [`RuntimeBuilder::max_nesting`] |
/// | `trace_content` | `AGENTFLOW_TRACE_CONTENT`, `true` or `false` | [`RuntimeBuilder::trace_content`] |
/// | `changes` | `AGENTFLOW_CHANGES` | [`RuntimeBuilder::changes`]: `refuse`, `accept-compatible` or `accept-all` |
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::runtime::RuntimeConfig;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = RuntimeConfig::read("service.yaml", "model: openai/gpt-5-mini\nmax_llm_calls: 50\ngrant: [mail.send]\n")?;
/// let config = config.with_variables(|name| (name == "AGENTFLOW_MAX_LLM_CALLS").then(|| "20".to_owned()))?;
/// assert_eq!(config.max_llm_calls, Some(20));
/// let runtime = Runtime::builder().config(config).await?.build();
///
/// let error = RuntimeConfig::read("service.yaml", "max_llm_cals: 50\n").unwrap_err();
/// assert!(error.to_string().contains("did you mean `max_llm_calls`?"), "{error}");
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
    File(DocumentError),
    /// Variables of the environment that are not what they have to be, a sentence for each.
    Variables(Vec<String>),
    /// The store cannot be opened.
    Store(StoreError),
    /// The program is built without what the configuration asks for.
    Missing(String),
}

/// The variable that names a file.
const FILE: &str = "AGENTFLOW_CONFIG";

impl RuntimeConfig {
    /// Reads the text of a file; `name` is shown with its mistakes. Paths stay as they are written.
    ///
    /// # Errors
    /// [`ConfigError::File`] with all mistakes, each with its place.
    pub fn read(name: &str, text: &str) -> Result<Self, ConfigError> {
        read_values(&name.into(), &text.into()).map_err(ConfigError::File)
    }

    /// Reads a file. A relative path in it is one of the file's folder.
    ///
    /// # Errors
    /// [`ConfigError::File`] with all mistakes, and when it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let read: Self = open_values(path).map_err(ConfigError::File)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let in_folder = |path: PathBuf| folder.join(path);
        let (documents, store) = (read.documents, read.store);
        Ok(Self { documents: documents.into_iter().map(in_folder).collect(), store: store.map(in_folder), ..read })
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
        let (mut documents, mut grant) = (None, None);
        given.set("AGENTFLOW_DOCUMENTS", &mut documents, |text| Ok(std::env::split_paths(text).collect()));
        given.set("AGENTFLOW_GRANT", &mut grant, |text| {
            Ok(text.split(',').map(|scope| scope.trim().to_owned()).filter(|scope| !scope.is_empty()).collect())
        });
        self.documents = documents.unwrap_or(self.documents);
        self.grant = grant.unwrap_or(self.grant);
        if given.problems.is_empty() { Ok(self) } else { Err(ConfigError::Variables(given.problems)) }
    }
}

impl RuntimeBuilder {
    /// Takes over a configuration: each setting that it has stands in place of the one before, and its scopes and folders are
    /// further ones. The store is opened.
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
        self = model.into_iter().fold(self, Self::model);
        self = agent_models.into_iter().fold(self, |builder, (agent, model)| builder.agent_model(agent, model));
        self = app.into_iter().fold(self, |builder, (key, value)| builder.app(key, value));
        self = documents.into_iter().fold(self, Self::document_folder);
        self = max_llm_calls.into_iter().fold(self, Self::max_llm_calls);
        self = max_output_bytes.into_iter().fold(self, Self::max_output_bytes);
        self = max_nesting.into_iter().fold(self, Self::max_nesting);
        self = trace_content.into_iter().fold(self, Self::trace_content);
        self = changes.into_iter().fold(self, Self::changes);
        Ok(self.grant(grant))
    }

    #[cfg(feature = "sqlite")]
    async fn with_store_file(self, file: PathBuf) -> Result<Self, ConfigError> {
        Ok(self.store(crate::store::SqliteStore::open(file).await.map_err(ConfigError::Store)?))
    }

    #[cfg(not(feature = "sqlite"))]
    #[allow(clippy::unused_async, reason = "the same with the feature")]
    async fn with_store_file(self, file: PathBuf) -> Result<Self, ConfigError> {
        let file = file.display();
        Err(ConfigError::Missing(format!(
            "the store `{file}` needs the feature `sqlite`, without which this program is built"
        )))
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

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
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
            Self::File(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Variables(_) | Self::Missing(_) => None,
        }
    }
}
