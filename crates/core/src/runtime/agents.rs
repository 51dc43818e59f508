//! Agents in a runtime: which runtime an agent uses, and how an agent resumes a run that an earlier process left
//! unfinished.

use std::sync::Arc;

use futures_util::StreamExt;

use super::Runtime;
use super::changes::accept;
use super::known_by_name::AgentName;
use super::opened::{Opened, explained};
use crate::agent::{Agent, AgentDefinition, ErasedAgent, RunRequest, linked_agents, two_linked_agents};
use crate::definition::Known;
use crate::error::{Error, RegistryError, Result, noted};
use crate::event::{AgentStarted, EventKind, Redefined, RunId};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::{
    Journal, Reservation, RunHandle, RunJournal, RunOwn, RunResult, RunShared, attach, deliver, read_journal,
};
use crate::tool::{BegunCompensation, can_compensate};
use crate::value::Encoded;

/// How the agent of a run that is resumed is found.
#[derive(Clone, Copy)]
pub(super) enum Named {
    /// The program has it.
    AtHand,
    /// By its name. A run of a document's agent may have begun with another version.
    ByName,
}

impl<O: 'static> Agent<O> {
    /// The runtime whose clock, sinks, resources, models and store the agent uses. Default: [`Runtime::default`].
    pub fn runtime(self, runtime: &Runtime) -> Self {
        self.host(runtime.host())
    }

    /// Resumes a run of this agent that its process left unfinished: model calls and tool calls that have an outcome
    /// are not retried. The run is found in the store of the agent's runtime; one that this process executes already is
    /// [attached](Runtime::attach_agent) to.
    ///
    /// # Errors
    /// When there is no such run, it has ended, another process executes it, it is not one of an agent of this name, or the
    /// agent has changed and its runtime does not accept that ([`Changes`](super::Changes)).
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
                        let problem = format!("the run `{run}` is one of `{}`, not of this agent", started.name);
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
    /// Returns the handle of a run of an agent, wherever it is executed: [`attach`](Self::attach) with the agent's result.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn attach_agent<O: 'static>(&self, run: &RunId, agent: &Agent<O>) -> Result<RunHandle<RunResult<O>>> {
        Ok(agent.attached(attach(self.host(), run).await?))
    }

    /// The `#[agent]`s that are linked into the program, ordered by name.
    ///
    /// # Errors
    /// [`RegistryError::DuplicateAgent`] when two have one name.
    pub fn agents(&self) -> Result<Vec<&'static AgentDefinition>, RegistryError> {
        let linked = linked_agents();
        match linked.twice().next() {
            Some(two) => Err(two_linked_agents(two)),
            None => Ok(linked.once().copied().collect()),
        }
    }

    /// Starts the agent of a name on a task of its own: one that the runtime was given, or an `#[agent]` that is linked into
    /// the program and takes no arguments. The output is JSON: text as a JSON string. A request without a text asks what
    /// the `#[agent]` asks. Dropping the handle cancels a run in memory; a run with a store continues. As with
    /// [`start`](Self::start), the run is kept in the store when this returns. One that [waits](crate::session::Session::waiting)
    /// for its turn in a session begins later, so this does not wait for it; nor does [`Agent::start`](crate::Agent::start),
    /// which is not async. Dropping the future may leave a run with a store that has begun and continues.
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
    /// [`RegistryError::Unknown`] when there is no such agent; when it takes arguments, cannot be built, or lacks a
    /// resource; with a store also when the run cannot begin, since the store has one of its id, its session is busy, or a
    /// middleware refuses it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_agent(
        &self,
        name: impl AgentName,
        request: impl Into<RunRequest>,
    ) -> BoxFuture<'_, Result<RunHandle<Encoded>>> {
        // A future of its own type would report each mistake in the arguments three times.
        let (name, request) = (name.as_name().to_owned(), request.into());
        Box::pin(async move {
            let started = async { self.start_erased(&self.agent_named(&name)?, request).await };
            noted(started.await)
        })
    }

    async fn start_erased(&self, agent: &ErasedAgent, request: RunRequest) -> Result<RunHandle<Encoded>> {
        let waits = request.session.as_ref().is_some_and(|session| session.waits);
        #[cfg(feature = "documents")]
        self.put_document_of(agent).await?;
        let run = agent.started(self.host(), request)?;
        // Nobody sees an event before the store has it. A run that cannot begin has none.
        if self.store().is_some() && !waits && run.events().next().await.is_none() {
            drop(run.result().await?);
        }
        Ok(run)
    }

    /// The same of an agent with arguments, as JSON text: an `#[agent]` that is linked into the program has them; one that
    /// the runtime was given is asked the `message` among them, unless the request has a conversation.
    #[cfg(any(feature = "a2a-server", feature = "mcp-server"))]
    pub(crate) async fn start_agent_with(
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

    /// The shared part of an agent's run that its process left unfinished, with its journal in the log, and what `check`
    /// makes of what it began with and of the runtime that has the agent; `check` also gives the agent's definition.
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
        let taken = async {
            let journal = read_journal(&store, run).await?;
            let started = journal.started(run)?;
            let Some(agent) = started.agent() else {
                let problem = format!("the run `{run}` is one of the workflow `{}`, not of an agent", started.name());
                return Err(Error::Build { what: "agent", name: started.name().into(), problem });
            };
            let journal_of = Journal::new(Arc::clone(&store), Some(epoch));
            let own = RunOwn::resumed(&self.host().factories, run, started)?;
            let shared = RunShared::new(run.clone(), self.host(), Some(journal_of)).with_own(Some(own), None);
            #[cfg(feature = "documents")]
            let of_version = match named {
                Named::ByName => self.version_of_agent(&store, (run, agent), journal.parts().as_deref()).await?,
                Named::AtHand => None,
            };
            #[cfg(not(feature = "documents"))]
            let (of_version, _) = (None::<Self>, named);
            let (checked, parts) = check(of_version.as_ref().unwrap_or(self), agent, &shared, &journal)?;
            // Nothing of the agent is executed by a run that is only undone.
            let undoes = BegunCompensation::of_journal(journal.all()).is_some();
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
            let messages = store.receive(run, epoch).await?;
            let RunJournal { offset, events, kept } = journal;
            let shared = Arc::new(shared);
            shared.restore(offset, kept, events);
            shared.hold_as_recorded();
            shared.record(StepPath::root(), EventKind::recovered(redefined));
            shared.log.commit().await?;
            // Before its first step: a run that is to be cancelled takes none.
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

    /// Resumes a run of an agent that is known here by its name.
    pub(super) async fn resume_known_agent(
        &self,
        reservation: Reservation,
        run: &RunId,
        begins: impl FnOnce(&Arc<RunShared>),
    ) -> Result<RunHandle<Encoded>> {
        let known = |of: &Self, started: &AgentStarted, shared: &RunShared, journal: &RunJournal| {
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
