//! `RuntimeBuilder::boot`: makes a runtime and checks, in phases, all that it will need. It starts and resumes no run. What the
//! phases find later is in `health.rs`.

use std::error::Error as StdError;
use std::fmt;

use futures_util::future::join_all;

use super::Runtime;
use super::catalogue::given;
use super::document_set::DocumentsOfRuntime;
use super::runtime_builder::RuntimeBuilder;
use crate::document::FolderError;
use crate::error::Error;
use crate::store::{RunFilter, StoreError};

/// A phase of [`RuntimeBuilder::boot`], in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[doc(alias = "LifespanPlugin")]
pub enum BootPhase {
    /// The store is asked for a run.
    Store,
    /// The tools of all toolsets are fetched.
    Toolsets,
    /// The documents are read, and the names in them looked up.
    Documents,
    /// Everything that has a name is looked at.
    Names,
}

/// Why a runtime was not [booted](RuntimeBuilder::boot): all that is wrong in one phase. Later phases were not begun.
#[derive(Debug)]
#[non_exhaustive]
pub enum BootError {
    /// The store cannot be read.
    Store(StoreError),
    /// The tools of these toolsets could not be fetched.
    Toolsets(Vec<Error>),
    /// A folder cannot be listed, or documents have mistakes.
    Documents(FolderError),
    /// What is wrong with names: the [problems](super::Catalogue::problems) of the catalogue.
    Names(Vec<Error>),
}

impl BootPhase {
    /// All phases, in their order.
    pub const ALL: [Self; 4] = [Self::Store, Self::Toolsets, Self::Documents, Self::Names];
}

impl BootError {
    /// The phase that it was.
    pub fn phase(&self) -> BootPhase {
        match self {
            Self::Store(_) => BootPhase::Store,
            Self::Toolsets(_) => BootPhase::Toolsets,
            Self::Documents(_) => BootPhase::Documents,
            Self::Names(_) => BootPhase::Names,
        }
    }

    /// What was found, a line for each problem.
    pub fn found(&self) -> String {
        match self {
            Self::Store(error) => error.to_string(),
            Self::Documents(error) => error.to_string(),
            Self::Toolsets(errors) | Self::Names(errors) => {
                let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
                all.join("\n")
            }
        }
    }
}

impl RuntimeBuilder {
    /// The runtime, once all that it will need was found to be there. In this order: the store can be read, the tools of all
    /// [toolsets](Self::toolset) are fetched, the documents are read and the names in them found, and nothing else has a
    /// wrong name. [`Runtime::recover`] is what a program calls next. [`build`](Self::build) makes the same runtime and
    /// checks nothing.
    ///
    /// # Errors
    /// All that is wrong in the first phase that has something wrong.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::runtime::BootPhase;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = Runtime::builder().document_folder("no/such/folder").boot().await.unwrap_err();
    /// assert_eq!(error.phase(), BootPhase::Documents);
    /// # }
    /// ```
    pub async fn boot(self) -> Result<Runtime, BootError> {
        let runtime = self.build();
        for phase in BootPhase::ALL {
            let problem = match phase {
                BootPhase::Documents => match runtime.reload_documents().await {
                    Ok(_) => runtime.problem_of_documents().await,
                    Err(error) => Some(BootError::Documents(error)),
                },
                phase => runtime.problem_of(phase).await,
            };
            if let Some(problem) = problem {
                return Err(problem);
            }
        }
        Ok(runtime)
    }
}

impl Runtime {
    /// What is wrong in a phase now. Documents are those that were read last.
    pub(super) async fn problem_of(&self, phase: BootPhase) -> Option<BootError> {
        match phase {
            BootPhase::Store => {
                let read = self.store()?.list(RunFilter::new().limit(1)).await;
                read.err().map(BootError::Store)
            }
            BootPhase::Toolsets => {
                let mut problems = Vec::new();
                let toolsets = given(self.host(), |given| &given.toolsets);
                let checked = toolsets.iter().map(|(toolset, _)| async move {
                    toolset.tools().await?;
                    // Tools that were fetched before say nothing of their server now.
                    toolset.check().await
                });
                for checked in join_all(checked).await {
                    problems.extend(checked.err());
                }
                (!problems.is_empty()).then_some(BootError::Toolsets(problems))
            }
            BootPhase::Documents => self.problem_of_documents().await,
            BootPhase::Names => {
                let problems = self.catalogue().await.problems;
                (!problems.is_empty()).then_some(BootError::Names(problems))
            }
        }
    }

    async fn problem_of_documents(&self) -> Option<BootError> {
        let set = self.host().part::<DocumentsOfRuntime>()?;
        let mut errors = set.loaded().errors.to_vec();
        for document in set.fixed() {
            errors.extend(self.check(document).await.err());
        }
        (!errors.is_empty()).then_some(BootError::Documents(FolderError::Documents(errors)))
    }
}

impl fmt::Display for BootPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store => "store",
            Self::Toolsets => "toolsets",
            Self::Documents => "documents",
            Self::Names => "names",
        })
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the runtime cannot be used, as the phase `{}` found: {}", self.phase(), self.found())
    }
}

impl StdError for BootError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Documents(error) => Some(error),
            Self::Toolsets(errors) | Self::Names(errors) => errors.first().map(|error| error as _),
        }
    }
}
