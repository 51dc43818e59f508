//! Agents in a runtime: assigns a runtime to an agent, starts agents by name, and resumes runs of
//! agents.

use std::sync::Arc;

use futures_util::StreamExt;

use super::Runtime;
use super::changes::accept;
use super::known_by_name::AgentName;
use super::opened::{Opened, explained};
use crate::agent::{
    Agent, AgentDefinition, ErasedAgent, RunRequest, linked_agents, two_linked_agents,
};
use crate::definition::Known;
use crate::error::{Error, RegistryError, Result, noted};
use crate::event::{AgentStarted, EventKind, Redefined, RunId};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::{
    Journal, Reservation, RunData, RunHandle, RunJournal, RunResult, RunShared, attach, deliver,
    read_journal,
};
use crate::tool::{StartedCompensation, can_compensate};
use crate::value::Encoded;

/// Selects how the agent of a resumed run is found.
#[derive(Clone, Copy)]
pub(super) enum Named {
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
    /// this process executes the run already, its handle is [attached](Runtime::attach_agent).
    ///
    /// # Errors
    /// If the run does not exist or has ended, another process executes it, it is not a run of an
    /// agent with this name, or the agent has changed and its runtime does not accept the change
    /// ([`Changes`](super::Changes)).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn resume(&self, run: &RunId) -> Result<RunHandle<RunResult<O>>> {
        let (name, host) = self.planned()?;
        let runtime = Runtime(Arc::clone(host));
        let Some(reservation) = runtime.reserve_unless_executed(run).await? else {
            return runtime.attach_agent(run, self).await;
        };
        let parts = self.parts()?;
        let resumed =
            runtime.resume_agent(reservation, run, Named::AtHand, |_, started, shared, journal| {
                match *started.name == **name {
                    true => self.check_run(shared, journal).map(|()| ((), parts)),
                    false => {
                        let problem = format!(
                            "the run `{run}` is one of `{}`, not of this agent",
                            started.name
                        );
                        Err(Error::Build { what: "agent", name: Arc::clone(name), problem })
                    }
                }
            });
        match resumed.await {
            Ok((shared, ())) => self.continued(shared),
            Err(error) => Err(explained(error, &runtime.require_store()?, run).await),
        }
    }
}

impl Runtime {
    /// Returns a handle to a run of an agent, in any process: [`attach`](Self::attach) with the
    /// agent's result type.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn attach_agent<O: 'static>(
        &self,
        run: &RunId,
        agent: &Agent<O>,
    ) -> Result<RunHandle<RunResult<O>>> {
        Ok(agent.attached(attach(self.host(), run).await?))
    }

    /// Returns the `#[agent]` functions that are linked into the program, ordered by name.
    ///
    /// # Errors
    /// [`RegistryError::DuplicateAgent`] if two have the same name.
    pub fn agents(&self) -> Result<Vec<&'static AgentDefinition>, RegistryError> {
        let linked = linked_agents();
        match linked.twice().next() {
            Some(two) => Err(two_linked_agents(two)),
            None => Ok(linked.once().copied().collect()),
        }
    }

    /// Starts an agent by name on a separate task: an agent that is registered with the runtime, or
    /// an `#[agent]` without arguments that is linked into the program. The output is JSON: text is
    /// a JSON string. An empty request uses the prompt of the `#[agent]`. Dropping the handle
    /// cancels a run in memory; a run with a store continues.
    ///
    /// With a store, the run is stored when the future completes, as with [`start`](Self::start).
    /// An exception is a run that [waits](crate::session::Session::waiting) for its turn in a
    /// session: it starts later, and this function does not wait for it. Neither does
    /// [`Agent::start`](crate::Agent::start), which is not async.
    ///
    /// # Cancel safety
    /// If the future is dropped, a run with a store may have been started and continue.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// /// Greet whoever speaks.
    /// #[agent]
    /// async fn greeter(cx: &Context) -> Result<String>;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().model(ScriptedModel::new([Turn::text("Hello Ada.")])).build();
    /// let answer = runtime.start_agent("greeter", "I am Ada.").await?.result().await?;
    /// assert_eq!(answer.decode::<String>().unwrap(), "Hello Ada.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::Unknown`] if the agent is unknown. Also if it requires arguments, cannot be
    /// built, or a resource is missing. With a store also if the run cannot start, because the
    /// store has a run with the same id, its session is busy, or middleware refuses it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_agent(
        &self,
        name: impl AgentName,
        request: impl Into<RunRequest>,
    ) -> BoxFuture<'_, Result<RunHandle<Encoded>>> {
        // Boxed: otherwise the compiler would report each error in the arguments three times.
        let (name, request) = (name.as_name().to_owned(), request.into());
        Box::pin(async move {
            let started = async { self.start_erased(&self.agent_named(&name)?, request).await };
            noted(started.await)
        })
    }

    async fn start_erased(
        &self,
        agent: &ErasedAgent,
        request: RunRequest,
    ) -> Result<RunHandle<Encoded>> {
        let waits = request.session.as_ref().is_some_and(|session| session.waits);
        #[cfg(feature = "documents")]
        self.put_document_of(agent).await?;
        let run = agent.started(self.host(), request)?;
        // An event is visible only after it is stored. A run that cannot start has no events.
        if self.store().is_some() && !waits && run.events().next().await.is_none() {
            drop(run.result().await?);
        }
        Ok(run)
    }

    /// Starts an agent by name with arguments, which are JSON text. An `#[agent]` that is linked
    /// into the program receives the arguments. A registered agent receives their field `message`,
    /// unless the request has a conversation.
    #[doc(hidden)]
    pub async fn start_agent_with(
        &self,
        name: &str,
        arguments: &str,
        mut request: RunRequest,
    ) -> Result<RunHandle<Encoded>> {
        if request.conversation.is_empty() && self.is_given_agent(name) {
            let read: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
            request.conversation = read["message"].as_str().unwrap_or_default().into();
        }
        self.start_erased(&self.agent_asked(name, arguments)?, request).await
    }

    /// Prepares an unfinished run of an agent for resuming, with its journal loaded. `check`
    /// receives the start event and the runtime that has the agent; it returns a value and the
    /// agent's definition.
    pub(super) async fn resume_agent<C>(
        &self,
        reservation: Reservation,
        run: &RunId,
        named: Named,
        check: impl FnOnce(&Self, &AgentStarted, &RunShared, &RunJournal) -> Result<(C, Arc<Known>)>,
    ) -> Result<(Arc<RunShared>, C)> {
        let store = self.require_store()?;
        let opened = Opened::open(&store, run).await?;
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
            let own = RunData::resumed(&self.host().factories, run, started)?;
            let shared = RunShared::new(run.clone(), self.host(), Some(journal_of))
                .with_own(Some(own), None);
            #[cfg(feature = "documents")]
            let of_version = match named {
                Named::ByName => {
                    self.version_of_agent(&store, (run, agent), journal.parts().as_deref()).await?
                }
                Named::AtHand => None,
            };
            #[cfg(not(feature = "documents"))]
            let (of_version, _) = (None::<Self>, named);
            let (checked, parts) =
                check(of_version.as_ref().unwrap_or(self), agent, &shared, &journal)?;
            // A run that is only compensated does not execute the agent.
            let undoes = StartedCompensation::from_journal(journal.all()).is_some();
            if undoes {
                can_compensate(self.host(), run, &agent.name, None).await?;
            }
            let differences = self.differences(journal.parts(), &parts).await?;
            let redefined = match undoes || differences.is_empty() {
                true => None,
                false => {
                    accept(self.changes(), "agent", &agent.name, differences)?;
                    self.host().put_parts(&parts).await?;
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
                self.host().running.begin(&shared)?;
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
    pub(super) async fn resume_known_agent(
        &self,
        reservation: Reservation,
        run: &RunId,
        begins: impl FnOnce(&Arc<RunShared>),
    ) -> Result<RunHandle<Encoded>> {
        let known =
            |of: &Self, started: &AgentStarted, shared: &RunShared, journal: &RunJournal| {
                let agent = of.agent_of(run, started)?;
                agent.check_run(self.host(), shared, journal)?;
                let parts = agent.parts(self.host())?;
                Ok((agent, parts))
            };
        let (shared, agent) = self.resume_agent(reservation, run, Named::ByName, known).await?;
        begins(&shared);
        agent.continued(self.host(), shared)
    }
}
