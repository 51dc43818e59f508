//! Agents in a runtime: which runtime an agent uses, and how an agent resumes a run that an earlier process left
//! unfinished.

use std::sync::Arc;

use super::Runtime;
use super::opened::{Opened, explained};
use crate::agent::{Agent, AgentDefinition, linked_agents};
use crate::error::{Error, RegistryError, Result};
use crate::event::{EventKind, RunId};
use crate::path::StepPath;
use crate::run::{Journal, RunHandle, RunJournal, RunResult, RunShared, deliver, read_journal};

impl<O: 'static> Agent<O> {
    /// The runtime whose clock, sinks, resources, models and store the agent uses. Default: [`Runtime::default`].
    pub fn runtime(self, runtime: &Runtime) -> Self {
        self.host(runtime.host())
    }

    /// Resumes a run of this agent that its process left unfinished: model calls and tool calls that have an outcome
    /// are not retried. The run is found in the store of the agent's runtime.
    ///
    /// # Errors
    /// When there is no such run, it has ended, another process executes it, or it is not one of an agent of this name.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn resume(&self, run: &RunId) -> Result<RunHandle<RunResult<O>>> {
        let (name, host) = self.planned()?;
        let shared = Runtime(Arc::clone(host)).resume_agent(run, name).await?;
        self.continued(shared)
    }
}

impl Runtime {
    /// The `#[agent]`s that are linked into the program, ordered by name.
    ///
    /// # Errors
    /// [`RegistryError::DuplicateAgent`] when two have one name.
    pub fn agents(&self) -> Result<Vec<&'static AgentDefinition>, RegistryError> {
        Ok(linked_agents()?.into_values().collect())
    }

    /// The shared part of an agent's run that its process left unfinished, with its journal in the log.
    async fn resume_agent(&self, run: &RunId, agent: &str) -> Result<Arc<RunShared>> {
        let store = self.require_store()?;
        let reservation = self.reserve(run).await?;
        let opened = match Opened::open(&store, run).await {
            Ok(opened) => opened,
            Err(error) => return Err(explained(error.into(), &store, run).await),
        };
        let epoch = opened.epoch;
        let taken = async {
            let journal = read_journal(&store, run).await?;
            let started = journal.started(run)?;
            if started.agent().is_none_or(|of| *of.name != *agent) {
                let problem = format!("the run `{run}` is one of `{}`, not of this agent", started.name());
                return Err(Error::Build { what: "agent", name: agent.into(), problem });
            }
            let messages = store.receive(run, epoch).await?;
            let RunJournal { offset, events, kept } = journal;
            let shared =
                Arc::new(RunShared::new(run.clone(), self.host(), Some(Journal::new(Arc::clone(&store), Some(epoch)))));
            shared.restore(offset, kept, events);
            shared.record(StepPath::root(), EventKind::recovered(None));
            shared.log.commit().await?;
            // Before its first step: a run that is to be cancelled takes none.
            messages.into_iter().for_each(|message| deliver(&shared, message));
            Ok(shared)
        };
        match taken.await {
            Ok(shared) => {
                opened.hand_over();
                reservation.becomes(&shared);
                Ok(shared)
            }
            Err(error) => {
                opened.give_up().await?;
                Err(error)
            }
        }
    }
}
