//! `Runtime::health`: runs the checks of `boot` again, all of them, without changing anything.
//! Documents are not reloaded and no run is started.

use std::fmt;

#[cfg(feature = "documents")]
use crate::document::{Document, FolderError};
use crate::runtime::Runtime;
#[cfg(feature = "documents")]
use crate::runtime::documents::set::DocumentSet;
use crate::runtime::lifecycle::boot::{BootError, BootPhase, problem_of};

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
    /// Performs all checks, phase by phase.
    pub(crate) async fn check(runtime: &Runtime) -> Self {
        let mut problems = Vec::new();
        for phase in BootPhase::ALL {
            #[cfg(feature = "documents")]
            if *phase == BootPhase::Documents
                && let Some(problem) = problem_of_folders(runtime).await
            {
                problems.push(problem);
                continue;
            }
            problems.extend(problem_of(runtime, *phase).await);
        }
        Self(problems)
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

/// Returns the error if a folder of documents cannot be listed.
#[cfg(feature = "documents")]
async fn problem_of_folders(runtime: &Runtime) -> Option<BootError> {
    let folders = runtime.host().part::<DocumentSet>()?.folders.clone();
    let list = move || folders.iter().try_for_each(|folder| Document::paths_in(folder).map(drop));
    let listed: Result<(), FolderError> = tokio::task::spawn_blocking(list).await.ok()?;
    listed.err().map(BootError::Documents)
}
