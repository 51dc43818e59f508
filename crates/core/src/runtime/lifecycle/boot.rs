//! [`RuntimeBuilder::boot`] builds a runtime and checks all its dependencies, in phases. It does
//! not start or resume runs. `health.rs` repeats the checks later.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::agent::linked_agents;
#[cfg(feature = "documents")]
use crate::document::FolderError;
use crate::error::Error;
use crate::model::{ModelProvider, ModelRef, provider_named};
use crate::runtime::Runtime;
use crate::runtime::builder::configuration::ConfigProblem;
use crate::runtime::builder::runtime_builder::RuntimeBuilder;
use crate::runtime::catalogue::lookup::given;
use crate::runtime::catalogue::registered_items::registered_now;
#[cfg(feature = "documents")]
use crate::runtime::documents::set::DocumentSet;
use crate::store::{RunFilter, StoreError};

/// A phase of [`RuntimeBuilder::boot`]. The variants are in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[doc(alias = "LifespanPlugin")]
pub enum BootPhase {
    /// Checks the entries of the configuration.
    Configuration,
    /// Checks that the store can be read, by listing at most one run.
    Store,
    /// Fetches the tools of all toolsets.
    Toolsets,
    /// Reads the documents and resolves the names in them.
    #[cfg(feature = "documents")]
    Documents,
    /// Checks all names of tools, agents and workflows: see
    /// [`problems`](crate::runtime::Catalogue::problems).
    Names,
    /// Checks that the models of all agents are known and have their API keys.
    Models,
}

/// Error of [`RuntimeBuilder::boot`]: all problems of a phase. Later phases were not executed.
#[derive(Debug)]
#[non_exhaustive]
pub enum BootError {
    /// Entries of the configuration cannot be used.
    Configuration(Vec<ConfigProblem>),
    /// The store cannot be read.
    Store(StoreError),
    /// The tools of some toolsets could not be fetched.
    Toolsets(Vec<Error>),
    /// A folder cannot be listed, or documents contain errors.
    #[cfg(feature = "documents")]
    Documents(FolderError),
    /// Problems with names: the [problems](crate::runtime::Catalogue::problems) of the catalogue.
    Names(Vec<Error>),
    /// Agents have no model, an unknown model, or a model without an API key.
    Models(Vec<Error>),
}

impl BootPhase {
    /// All phases, in order.
    pub const ALL: &[Self] = &[
        Self::Configuration,
        Self::Store,
        Self::Toolsets,
        #[cfg(feature = "documents")]
        Self::Documents,
        Self::Names,
        Self::Models,
    ];
}

impl BootError {
    /// Returns the phase that failed.
    pub fn phase(&self) -> BootPhase {
        match self {
            Self::Configuration(_) => BootPhase::Configuration,
            Self::Store(_) => BootPhase::Store,
            Self::Toolsets(_) => BootPhase::Toolsets,
            #[cfg(feature = "documents")]
            Self::Documents(_) => BootPhase::Documents,
            Self::Names(_) => BootPhase::Names,
            Self::Models(_) => BootPhase::Models,
        }
    }

    /// Returns the problems, each on a line.
    pub fn found(&self) -> String {
        match self {
            Self::Configuration(problems) => {
                let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
                all.join("\n")
            }
            Self::Store(error) => error.to_string(),
            #[cfg(feature = "documents")]
            Self::Documents(error) => error.to_string(),
            Self::Toolsets(errors) | Self::Names(errors) | Self::Models(errors) => {
                let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
                all.join("\n")
            }
        }
    }
}

impl RuntimeBuilder {
    /// Builds the runtime and checks its dependencies, in this order: the entries of the
    /// configuration are valid, the store can be read, the tools of all
    /// [toolsets](Self::toolset) can be fetched, the documents can be read and their names
    /// resolved, all other names are valid, and the model of each agent is known and has its API
    /// key. Documents of the store are not checked: a mistake in one of them is an error when it is
    /// used. A program usually calls [`Runtime::recover`] next. [`build`](Self::build) builds the
    /// same runtime without checks.
    ///
    /// # Errors
    /// All problems of the first phase that failed. Later phases are not executed.
    ///
    /// ```standalone_crate
    /// use agentflow::prelude::*;
    /// use agentflow::runtime::BootPhase;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let agent = Agent::new("no-such-provider/model").name("writer");
    /// let error = Runtime::builder().agent(&agent).boot().await.unwrap_err();
    /// assert_eq!(error.phase(), BootPhase::Models);
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the checks and drops the runtime.
    pub async fn boot(self) -> Result<Runtime, BootError> {
        let runtime = self.build();
        for phase in BootPhase::ALL {
            let problem = match phase {
                #[cfg(feature = "documents")]
                BootPhase::Documents => match runtime.documents().reload_with_stored().await {
                    Ok(_) => problem_of_documents(&runtime).await,
                    Err(error) => Some(BootError::Documents(error)),
                },
                phase => problem_of(&runtime, *phase).await,
            };
            if let Some(problem) = problem {
                return Err(problem);
            }
        }
        Ok(runtime)
    }
}

/// Returns the current problems of a phase. Checks the documents that were loaded last.
pub(crate) async fn problem_of(runtime: &Runtime, phase: BootPhase) -> Option<BootError> {
    match phase {
        BootPhase::Configuration => {
            let problems = runtime.problems_of_configuration().to_vec();
            (!problems.is_empty()).then_some(BootError::Configuration(problems))
        }
        BootPhase::Store => {
            let read = runtime.store()?.list(RunFilter::new().limit(1)).await;
            read.err().map(BootError::Store)
        }
        BootPhase::Toolsets => {
            let mut problems = Vec::new();
            let toolsets = given(runtime.host(), |given| &given.toolsets);
            let checked = toolsets.iter().map(|(toolset, _)| async move {
                toolset.tools().await?;
                // Cached tools do not prove that their server is still available.
                toolset.check().await
            });
            for checked in join_all(checked).await {
                problems.extend(checked.err());
            }
            (!problems.is_empty()).then_some(BootError::Toolsets(problems))
        }
        #[cfg(feature = "documents")]
        BootPhase::Documents => problem_of_documents(runtime).await,
        BootPhase::Names => {
            let mut problems = runtime.catalogue().snapshot().await.problems;
            // The phase `Toolsets` reports toolset errors.
            problems.retain(|problem| !matches!(problem, Error::Toolset { .. }));
            // Documents that users save must not keep the program from starting.
            #[cfg(feature = "documents")]
            problems.retain(|problem| {
                !crate::runtime::documents::stored_items::is_of_stored_document(
                    runtime.host(),
                    problem,
                )
            });
            (!problems.is_empty()).then_some(BootError::Names(problems))
        }
        BootPhase::Models => {
            let problems = problems_of_models(runtime).await;
            (!problems.is_empty()).then_some(BootError::Models(problems))
        }
    }
}

/// Returns an error for each agent without a model, with an unknown model, or whose provider
/// needs an API key that is not set.
async fn problems_of_models(runtime: &Runtime) -> Vec<Error> {
    let host = runtime.host();
    // Agents of stored documents are not checked.
    let mut agents =
        registered_now(host).agents.iter().map(|(agent, _)| agent.clone()).collect::<Vec<_>>();
    agents.extend(linked_agents().once().map(|agent| agent.described()));
    let providers = runtime.catalogue().model_providers().await;
    let mut problems = Vec::new();
    for agent in agents {
        let failed = |problem: String| Error::Build {
            what: "agent",
            name: Arc::clone(agent.name()),
            problem,
        };
        let model = match agent.model_in(host) {
            Ok(model) => model,
            Err(error) => {
                problems.push(error);
                continue;
            }
        };
        if let Err(error) = host.open(&model) {
            problems.push(failed(error.to_string()));
            continue;
        }
        // A `Model` value brings its own key.
        let Some(Ok(name)) = model.model_or_name().err().map(str::parse::<ModelRef>) else {
            continue;
        };
        let Some(provider) = providers.iter().find(|provider| *provider.name == *name.provider())
        else {
            continue;
        };
        if let Some(problem) = missing_key(runtime, provider).await {
            problems.push(failed(format!("the model `{name}`: {problem}")));
        }
    }
    problems
}

/// Returns an error message if a provider with its default base URL needs an API key that is
/// not set.
async fn missing_key(runtime: &Runtime, provider: &ModelProvider) -> Option<String> {
    let known = provider_named(&provider.name).filter(|known| known.needs_key && !provider.host)?;
    let is_own = provider.base_url.as_deref() == Some(known.base_url.trim_end_matches('/'));
    // A provider with a custom base URL or key source manages its own key.
    if !is_own || provider.key_from.is_some() {
        return None;
    }
    for token in known.token_names {
        if runtime.host().secrets.secret(token).await.is_some() {
            return None;
        }
    }
    let names: Vec<String> =
        known.key_names.iter().chain(known.token_names).map(|name| format!("`{name}`")).collect();
    Some(format!("there is no key for {}; set {}", known.base_url, names.join(" or ")))
}

#[cfg(feature = "documents")]
async fn problem_of_documents(runtime: &Runtime) -> Option<BootError> {
    let set = runtime.host().part::<DocumentSet>()?;
    let mut errors = set.loaded().errors.to_vec();
    for document in set.fixed() {
        errors.extend(runtime.documents().check(document).await.err());
    }
    (!errors.is_empty()).then_some(BootError::Documents(FolderError::Documents(errors)))
}

impl fmt::Display for BootPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "configuration",
            Self::Store => "store",
            Self::Toolsets => "toolsets",
            #[cfg(feature = "documents")]
            Self::Documents => "documents",
            Self::Names => "names",
            Self::Models => "models",
        })
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the runtime cannot be used, as the phase `{}` found: {}",
            self.phase(),
            self.found()
        )
    }
}

impl StdError for BootError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Configuration(problems) => problems.first().map(|problem| problem as _),
            Self::Store(error) => Some(error),
            #[cfg(feature = "documents")]
            Self::Documents(error) => Some(error),
            Self::Toolsets(errors) | Self::Names(errors) | Self::Models(errors) => {
                errors.first().map(|error| error as _)
            }
        }
    }
}
