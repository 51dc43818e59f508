//! `Runtime::health`: what the phases of `boot` find now, all of them. It changes nothing: no document is read again, no run is
//! started.

use std::fmt;

use super::Runtime;
use super::boot::{BootError, BootPhase};
#[cfg(feature = "documents")]
use super::document_set::DocumentsOfRuntime;
#[cfg(feature = "documents")]
use crate::document::{Document, FolderError};

/// What a runtime lacks of what it needs, phase by phase: see [`Runtime::health`]. It prints a line for each phase.
#[derive(Debug)]
pub struct Health(Vec<BootError>);

impl Health {
    /// Whether no phase has a problem.
    pub fn is_well(&self) -> bool {
        self.0.is_empty()
    }

    /// The problems, one for each phase that has any, in the order of the phases.
    pub fn problems(&self) -> &[BootError] {
        &self.0
    }

    /// What is wrong in a phase.
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
    /// Looks at what [`boot`](super::RuntimeBuilder::boot) looks at, now and in all phases: the entries of the
    /// configuration, the store, which is asked for a run, toolsets for their tools, folders of documents for their files, all
    /// names, and the models of agents with their keys. For the health check of a service, and
    /// for whoever wants to know why it answers as it does.
    ///
    /// Each MCP server is asked for its tools, and each A2A agent for its card, also where those were fetched before; a
    /// connection that was lost is opened anew. Of another toolset [`Toolset::check`](crate::tool::Toolset::check) decides.
    /// Documents are those that were read last: one that had a mistake
    /// when it was [read again](Self::reload_documents) is a problem until it is read without one. The whole takes as long as the
    /// slowest store and toolset; dropping the future ends it.
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

    /// Why a folder of documents cannot be listed.
    #[cfg(feature = "documents")]
    async fn problem_of_folders(&self) -> Option<BootError> {
        let folders = self.host().part::<DocumentsOfRuntime>()?.folders.clone();
        let list = move || folders.iter().try_for_each(|folder| Document::paths_in(folder).map(drop));
        let listed: Result<(), FolderError> = tokio::task::spawn_blocking(list).await.ok()?;
        listed.err().map(BootError::Documents)
    }
}
