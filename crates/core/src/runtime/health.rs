//! `Runtime::health`: runs the checks of `boot` again, all of them, without changing anything.
//! Documents are not reloaded and no run is started.

use std::fmt;

use super::Runtime;
use super::boot::{BootError, BootPhase};
#[cfg(feature = "documents")]
use super::document_set::DocumentSet;
#[cfg(feature = "documents")]
use crate::document::{Document, FolderError};

/// The problems of a runtime, by phase: see [`Runtime::health`]. Displayed with a line for each
/// phase.
#[derive(Debug)]
pub struct Health(Vec<BootError>);

impl Health {
    /// Returns `true` if no phase has a problem.
    pub fn is_well(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the problems, at most one for each phase, in the order of the phases.
    pub fn problems(&self) -> &[BootError] {
        &self.0
    }

    /// Returns the problem of a phase.
    pub fn problem_of(&self, phase: BootPhase) -> Option<&BootError> {
        self.0.iter().find(|problem| problem.phase() == phase)
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, phase) in BootPhase::ALL.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            match self.problem_of(*phase) {
                None => write!(f, "{end}{phase}: well")?,
                Some(problem) => write!(f, "{end}{phase}: {}", problem.found())?,
            }
        }
        Ok(())
    }
}

impl Runtime {
    /// Performs the checks of [`boot`](super::RuntimeBuilder::boot) now, in all phases: the entries
    /// of the configuration; the store, by listing a run; the tools of all toolsets; the folders of
    /// documents; all names; and the models of agents with their API keys. Use it for the health
    /// check of a service and for diagnosis.
    ///
    /// Fetches the tools of each MCP server and the card of each A2A agent, also if they were
    /// fetched before. A lost connection is reopened. For other toolsets,
    /// [`Toolset::check`](crate::tool::Toolset::check) is called. Documents are those that were
    /// loaded last: a document with an error when it was [reloaded](Self::reload_documents) is a
    /// problem until it is loaded successfully. The checks take as long as the slowest store and
    /// toolset.
    ///
    /// # Cancel safety
    /// Dropping the future stops the checks.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::runtime::BootPhase;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let agent = Agent::new("no-such-provider/model").name("writer");
    /// let health = Runtime::builder().agent(&agent).build().health().await;
    /// assert!(!health.is_well());
    /// assert!(health.problem_of(BootPhase::Models).is_some());
    /// assert!(health.to_string().starts_with("configuration: well\nstore: well\n"), "{health}");
    /// # }
    /// ```
    pub async fn health(&self) -> Health {
        let mut problems = Vec::new();
        for phase in BootPhase::ALL {
            #[cfg(feature = "documents")]
            if *phase == BootPhase::Documents
                && let Some(problem) = self.problem_of_folders().await
            {
                problems.push(problem);
                continue;
            }
            problems.extend(self.problem_of(*phase).await);
        }
        Health(problems)
    }

    /// Returns the error if a folder of documents cannot be listed.
    #[cfg(feature = "documents")]
    async fn problem_of_folders(&self) -> Option<BootError> {
        let folders = self.host().part::<DocumentSet>()?.folders.clone();
        let list =
            move || folders.iter().try_for_each(|folder| Document::paths_in(folder).map(drop));
        let listed: Result<(), FolderError> = tokio::task::spawn_blocking(list).await.ok()?;
        listed.err().map(BootError::Documents)
    }
}
