//! Agents in a runtime: assigns a runtime to an agent, starts agents by name, and resumes runs of
//! agents.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::agent::{Agent, ErasedAgent, RunRequest};
use crate::definition::Known;
use crate::error::{Error, Result};
use crate::event::{AgentStarted, EventKind, Redefined, RunId};
use crate::path::StepPath;
use crate::run::{
    Journal, Reservation, RunData, RunHandle, RunJournal, RunResult, RunShared, deliver,
    read_journal,
};
use crate::runtime::Runtime;
#[cfg(feature = "documents")]
use crate::runtime::documents::versions::{put_document_of, version_of_agent};
use crate::runtime::execution::changes::{accept, differences};
use crate::runtime::execution::lease::{RunLease, explained};
use crate::runtime::execution::workflow_runs::reserve_unless_executed;
use crate::tool::{StartedCompensation, can_compensate};
use crate::value::Encoded;

/// Selects how the agent of a resumed run is found.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    /// The program passed the agent.
    AtHand,
    /// By name. A run of a document's agent may have started with a different version.
    ByName,
}

impl<O: 'static> Agent<O> {
    /// Sets the runtime that provides clock, sinks, resources, models and store. Default:
    /// [`Runtime::default`].
    pub fn runtime(self, runtime: &Runtime) -> Self {
        self.host(runtime.host())
    }

    /// Resumes an unfinished run of this agent whose process ended. Model calls and tool calls with
    /// a recorded outcome are not repeated. The run must be in the store of the agent's runtime. If
    /// this process executes the run already, its handle is
    /// [attached](crate::runtime::RunRef::attach_agent).
    ///
    /// # Errors
    /// If the run does not exist or has ended, another process executes it, it is not a run of an
    /// agent with this name, or the agent has changed and its runtime does not accept the change
    /// ([`Changes`](crate::runtime::Changes)).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, this process does not execute the run and
    /// releases it in the background. The run can be resumed again.
    pub async fn resume(&self, run: &RunId) -> Result<RunHandle<RunResult<O>>> {
        let (name, host) = self.planned()?;
        let runtime = Runtime(Arc::clone(host));
        let Some(reservation) = reserve_unless_executed(&runtime, run).await? else {
            return runtime.run(run).attach_agent(self).await;
        };
        let parts = self.parts()?;
        let resumed = resume_agent(
            &runtime,
            reservation,
            run,
            Named::AtHand,
            |_, started, shared, journal| match *started.name == **name {
                true => self.check_run(shared, journal).map(|()| ((), parts)),
                false => {
                    let problem =
                        format!("the run `{run}` is one of `{}`, not of this agent", started.name);
                    Err(Error::Build { what: "agent", name: Arc::clone(name), problem })
                }
            },
        );
        match resumed.await {
            Ok((shared, ())) => self.continued(shared),
            Err(error) => Err(explained(error, &runtime.require_store()?, run).await),
        }
    }
}

pub(crate) async fn start_erased(
    runtime: &Runtime,
    agent: &ErasedAgent,
    request: RunRequest,
) -> Result<RunHandle<Encoded>> {
    let waits = request.session.as_ref().is_some_and(|session| session.waits);
    #[cfg(feature = "documents")]
    put_document_of(runtime, agent).await?;
    let run = agent.started(runtime.host(), request)?;
    // An event is visible only after it is stored. A run that cannot start has no events.
    if runtime.store().is_some() && !waits && run.events().next().await.is_none() {
        drop(run.result().await?);
    }
    Ok(run)
}

/// Prepares an unfinished run of an agent for resuming, with its journal loaded. `check`
/// receives the start event and the runtime that has the agent; it returns a value and the
/// agent's definition.
pub(crate) async fn resume_agent<C>(
    runtime: &Runtime,
    reservation: Reservation,
    run: &RunId,
    named: Named,
    check: impl FnOnce(&Runtime, &AgentStarted, &RunShared, &RunJournal) -> Result<(C, Arc<Known>)>,
) -> Result<(Arc<RunShared>, C)> {
    let store = runtime.require_store()?;
    let opened = RunLease::open(&store, run).await?;
    let epoch = opened.epoch;
    // The lease is released if any of the following fails, and passed to the run otherwise.
    let taken = async {
        let journal = read_journal(&store, run).await?;
        let started = journal.started(run)?;
        let Some(agent) = started.agent() else {
            let problem = format!(
                "the run `{run}` is one of the workflow `{}`, not of an agent",
                started.name()
            );
            return Err(Error::Build { what: "agent", name: started.name().into(), problem });
        };
        let journal_of = Journal::new(Arc::clone(&store), Some(epoch));
        let own = RunData::resumed(&runtime.host().factories, run, started)?;
        let shared =
            RunShared::new(run.clone(), runtime.host(), Some(journal_of)).with_own(Some(own), None);
        #[cfg(feature = "documents")]
        let of_version = match named {
            Named::ByName => {
                version_of_agent(runtime, &store, (run, agent), journal.parts().as_deref()).await?
            }
            Named::AtHand => None,
        };
        #[cfg(not(feature = "documents"))]
        let (of_version, _) = (None::<Runtime>, named);
        let (checked, parts) =
            check(of_version.as_ref().unwrap_or(runtime), agent, &shared, &journal)?;
        // A run that is only compensated does not execute the agent.
        let undoes = StartedCompensation::from_journal(journal.all()).is_some();
        if undoes {
            can_compensate(runtime.host(), run, &agent.name, None).await?;
        }
        let differences = differences(runtime, journal.parts(), &parts).await?;
        let redefined = match undoes || differences.is_empty() {
            true => None,
            false => {
                accept(runtime.host().changes(), "agent", &agent.name, differences)?;
                runtime.host().put_parts(&parts).await?;
                Some(Arc::new(Redefined::new(None, Vec::new(), Arc::clone(&parts.id))))
            }
        };
        let messages = store.waiting_messages(run, epoch).await?;
        let RunJournal { offset, events, kept } = journal;
        let shared = Arc::new(shared);
        shared.restore(offset, kept, events);
        shared.hold_as_recorded();
        shared.record(StepPath::root(), EventKind::recovered(redefined));
        shared.log.commit().await?;
        // Messages are delivered before the first step: a run that is to be cancelled must not
        // start one.
        messages.into_iter().for_each(|message| deliver(&shared, message));
        Ok((shared, checked))
    };
    match taken.await {
        Ok((shared, checked)) => {
            runtime.host().running.begin(&shared)?;
            opened.hand_over();
            reservation.becomes(&shared);
            Ok((shared, checked))
        }
        Err(error) => {
            opened.give_up().await?;
            Err(error)
        }
    }
}

/// Resumes a run of an agent that is registered under its name.
pub(crate) async fn resume_known_agent(
    runtime: &Runtime,
    reservation: Reservation,
    run: &RunId,
    begins: impl FnOnce(&Arc<RunShared>),
) -> Result<RunHandle<Encoded>> {
    let known = |of: &Runtime, started: &AgentStarted, shared: &RunShared, journal: &RunJournal| {
        let agent = of.catalogue().agent_of(run, started)?;
        agent.check_run(runtime.host(), shared, journal)?;
        let parts = agent.parts(runtime.host())?;
        Ok((agent, parts))
    };
    let (shared, agent) = resume_agent(runtime, reservation, run, Named::ByName, known).await?;
    begins(&shared);
    agent.continued(runtime.host(), shared)
}
