//! Runs of workflows: started, taken up again after a crash, found by their id.

use std::collections::HashSet;
use std::sync::Arc;

use super::Runtime;
use super::journal::{RunJournal, read_journal};
use crate::agent::{Agent, RunResult};
use crate::context::RunShared;
use crate::control::ControlError;
use crate::error::{Error, Result};
use crate::event::{Event, EventKind, Journal, Redefined, RunId, WorkflowStarted};
use crate::handle::{Ended, RunHandle};
use crate::path::StepPath;
use crate::store::{Epoch, RunFilter, RunRecord, RunStatus, Store, StoreError};
use crate::value::{Encoded, NodeValue};
use crate::workflow::driver::WorkflowRun;
use crate::workflow::inputs::from_object;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, Inputs, IntoInputs, Workflow};

/// What [`Runtime::recover`] found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// The runs that go on, or wait for somebody's word.
    pub resumed: Vec<RunHandle<Encoded>>,
    /// The runs that could not be taken up, and why.
    pub left: Vec<(RunId, Error)>,
}

impl Runtime {
    /// Starts a run of a workflow on a task of its own. With a store, the run is kept there when this returns.
    ///
    /// # Errors
    /// When the input has no JSON form, or the store cannot keep the run.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start<In, Out>(
        &self,
        workflow: Workflow<In, Out>,
        input: impl IntoInputs<In>,
    ) -> Result<RunHandle<Out>>
    where
        In: Inputs,
        Out: NodeValue,
    {
        self.start_as(self.new_run_id(), workflow, input).await
    }

    /// Like [`start`](Self::start), with an id of the caller's, so that the same request is not started twice.
    ///
    /// # Errors
    /// Also when the store has a run of this id.
    pub async fn start_as<In, Out>(
        &self,
        run: RunId,
        workflow: Workflow<In, Out>,
        input: impl IntoInputs<In>,
    ) -> Result<RunHandle<Out>>
    where
        In: Inputs,
        Out: NodeValue,
    {
        let inputs = input.into_inputs().encode().map_err(|error| Error::value(&workflow.spec().name, &error))?;
        self.start_spec(run, workflow.spec(), inputs, decoder::<In, Out>(&workflow)).await
    }

    /// Starts a workflow that this runtime, or the program, knows by name; the input is an object of its inputs' names.
    ///
    /// # Errors
    /// Also when no workflow has this name, or the input does not fit its names and types.
    pub async fn start_named(&self, run: Option<RunId>, name: &str, input: &Encoded) -> Result<RunHandle<Encoded>> {
        let spec = self.workflow_spec(name)?;
        let wrong = |problem| Error::Input { workflow: name.into(), problem };
        let inputs = from_object(&spec.input_names(), input).map_err(wrong)?;
        spec.check_inputs(&inputs).map_err(wrong)?;
        self.start_spec(run.unwrap_or_else(|| self.new_run_id()), &spec, inputs, undecoded).await
    }

    async fn start_spec<T>(
        &self,
        run: RunId,
        spec: &Arc<Spec>,
        inputs: Vec<Encoded>,
        decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
    ) -> Result<RunHandle<T>> {
        if let Some(store) = self.store() {
            store.put_definition(spec.hash(), Graph::of(spec).to_json().to_string()).await?;
        }
        let shared = Arc::new(RunShared::new(run, self, self.new_journal()));
        let started = WorkflowRun::new(spec, inputs, Arc::clone(&shared));
        shared.log.commit().await?;
        self.remember(&shared);
        Ok(handle(shared, started, decode))
    }

    /// Takes up a run that its process left unfinished: what is recorded is not done again.
    ///
    /// The workflow is found by its name among those that the runtime was given or that are linked into the program.
    ///
    /// # Errors
    /// When there is no such run or workflow, the run has ended, it is going on elsewhere, or the workflow's definition
    /// is another one than the run began with ([`resume_changed`](Self::resume_changed) goes on all the same).
    pub async fn resume(&self, run: &RunId) -> Result<RunHandle<Encoded>> {
        let name = self.require_store()?.record(run).await?.ok_or_else(|| StoreError::not_found(run))?.name;
        let spec = self.workflow_spec(&name)?;
        self.take_up(run, &spec, false, undecoded).await
    }

    /// Like [`resume`](Self::resume), of a workflow that is at hand, with its output's type.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub async fn resume_as<In: Inputs, Out: NodeValue>(
        &self,
        run: &RunId,
        workflow: &Workflow<In, Out>,
    ) -> Result<RunHandle<Out>> {
        self.take_up(run, workflow.spec(), false, decoder::<In, Out>(workflow)).await
    }

    /// Like [`resume_as`](Self::resume_as), also when the workflow has changed since the run began: what was done by
    /// nodes that are the same, and depend only on such, is kept; all else runs again.
    ///
    /// # Errors
    /// As [`resume`](Self::resume); also when the inputs are others.
    pub async fn resume_changed<In: Inputs, Out: NodeValue>(
        &self,
        run: &RunId,
        workflow: &Workflow<In, Out>,
    ) -> Result<RunHandle<Out>> {
        self.take_up(run, workflow.spec(), true, decoder::<In, Out>(workflow)).await
    }

    /// Takes up a run of an agent that its process left unfinished: model calls and tools that have an outcome are not
    /// called again. The agent uses this runtime.
    ///
    /// # Errors
    /// When there is no such run, it has ended, it is going on elsewhere, or it is not one of an agent of this name.
    pub async fn resume_agent<O: 'static>(&self, run: &RunId, agent: &Agent<O>) -> Result<RunHandle<RunResult<O>>> {
        agent.clone().runtime(self).resume(run).await
    }

    /// Takes up every run of the store that has not ended and is not going on elsewhere; after a restart this is all
    /// there is to do. Runs of agents are left: [`resume_agent`](Self::resume_agent) takes those up.
    ///
    /// # Errors
    /// When the store cannot list its runs.
    pub async fn recover(&self) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        let runs = self.require_store()?.list(RunFilter::unfinished()).await?;
        for run in runs.into_iter().rev().filter(|run| run.definition.is_some()) {
            if self.live(&run.run_id).is_some() {
                continue;
            }
            match self.resume(&run.run_id).await {
                Ok(handle) => recovered.resumed.push(handle),
                Err(error) => recovered.left.push((run.run_id, error)),
            }
        }
        Ok(recovered)
    }

    async fn take_up<T>(
        &self,
        run: &RunId,
        spec: &Arc<Spec>,
        changed: bool,
        decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
    ) -> Result<RunHandle<T>> {
        let store = self.require_store()?;
        let epoch = self.open_unfinished(&store, run).await?;
        let taken = self.prepare(run, spec, changed, &store, Journal::new(Arc::clone(&store), Some(epoch))).await;
        match taken {
            Ok((shared, resumed)) => {
                self.remember(&shared);
                Ok(handle(shared, resumed, decode))
            }
            Err(error) => {
                store.close(run, epoch).await?;
                Err(error)
            }
        }
    }

    /// The shared part of an agent's run that its process left unfinished, with its journal in the log.
    pub(crate) async fn take_up_agent(&self, run: &RunId, agent: &str) -> Result<Arc<RunShared>> {
        let store = self.require_store()?;
        let epoch = self.open_unfinished(&store, run).await?;
        let taken = async {
            let journal = read_journal(&store, run).await?;
            let started = journal.started(run)?;
            if started.agent().is_none_or(|of| *of.name != *agent) {
                let problem = format!("the run `{run}` is one of `{}`, not of this agent", started.name());
                return Err(Error::Build { what: "agent", name: agent.into(), problem });
            }
            let RunJournal { offset, events, kept } = journal;
            let shared =
                Arc::new(RunShared::new(run.clone(), self, Some(Journal::new(Arc::clone(&store), Some(epoch)))));
            shared.log.restore(offset, kept, events);
            shared.record(StepPath::root(), EventKind::RunResumed { recovered: true, redefined: None });
            shared.log.commit().await?;
            Ok(shared)
        };
        let taken = taken.await;
        if taken.is_err() {
            store.close(run, epoch).await?;
        }
        taken
    }

    /// Opens a run that has not ended and is not going on.
    async fn open_unfinished(&self, store: &Arc<dyn Store>, run: &RunId) -> Result<Epoch> {
        if self.live(run).is_some() {
            return Err(ControlError::state("taken up", "going on in this process").into());
        }
        let record = store.record(run).await?.ok_or_else(|| StoreError::not_found(run))?;
        match record.status {
            RunStatus::Failed => {
                Err(ControlError::state("taken up", "failed; retry the node that failed first").into())
            }
            status if status.has_ended() => Err(ControlError::state("taken up", format!("over ({status})")).into()),
            _ => Ok(store.open(run).await?),
        }
    }

    async fn prepare(
        &self,
        run: &RunId,
        spec: &Arc<Spec>,
        changed: bool,
        store: &Arc<dyn Store>,
        journal: Journal,
    ) -> Result<(Arc<RunShared>, WorkflowRun)> {
        let journal_read = read_journal(store, run).await?;
        let started = journal_read.workflow(run)?.clone();
        let definition = journal_read.definition().unwrap_or(&started.definition).clone();
        let forgotten = match definition == *spec.hash() {
            true => Vec::new(),
            false => self.forgotten(store, &started, &definition, spec, changed).await?,
        };
        let wrong = |problem| Error::Input { workflow: Arc::clone(&spec.name), problem };
        let inputs = from_object(&spec.input_names(), &started.input).map_err(wrong)?;
        let shared = Arc::new(RunShared::new(run.clone(), self, Some(journal)));
        let RunJournal { offset, events, kept } = journal_read;
        shared.log.restore(offset, kept, events);
        let redefined = match definition == *spec.hash() {
            true => None,
            false => {
                store.put_definition(spec.hash(), Graph::of(spec).to_json().to_string()).await?;
                Some(Arc::new(Redefined::new(Arc::clone(spec.hash()), forgotten)))
            }
        };
        let resumed = EventKind::RunResumed { recovered: true, redefined };
        shared.record(StepPath::root(), resumed);
        shared.log.commit().await?;
        let run = WorkflowRun::resumed(spec, inputs, Arc::clone(&shared));
        Ok((shared, run))
    }

    /// The nodes whose records no longer count under a new definition.
    async fn forgotten(
        &self,
        store: &Arc<dyn Store>,
        started: &WorkflowStarted,
        definition: &str,
        spec: &Arc<Spec>,
        changed: bool,
    ) -> Result<Vec<String>> {
        let new = Graph::of(spec);
        let old: Option<Graph> =
            store.definition(definition).await?.and_then(|graph| serde_json::from_str(&graph).ok());
        let differing = old.as_ref().map_or_else(|| all_names(&new), |old| changed_nodes(old, &new));
        if changed {
            return Ok(differing);
        }
        Err(Error::DefinitionChanged { workflow: Arc::clone(&started.name), nodes: differing })
    }

    /// The journal of a run, from the store.
    ///
    /// # Errors
    /// When there is no such run, or its journal cannot be read.
    pub async fn journal(&self, run: &RunId) -> Result<Vec<Event>> {
        self.journal_after(run, 0).await
    }

    /// The part of a run's journal after an event of a number: what has happened since it was looked at last.
    ///
    /// # Errors
    /// When there is no such run, or its journal cannot be read.
    pub async fn journal_after(&self, run: &RunId, seq: u64) -> Result<Vec<Event>> {
        Ok(super::journal::read_events(&self.require_store()?, run, seq).await?)
    }

    /// The runs of the store, the newest first.
    ///
    /// # Errors
    /// When the runtime has no store, or it cannot list its runs.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>> {
        Ok(self.require_store()?.list(filter).await?)
    }

    /// What the store's list says of a run.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run_record(&self, run: &RunId) -> Result<RunRecord> {
        Ok(self.require_store()?.record(run).await?.ok_or_else(|| StoreError::not_found(run))?)
    }
}

fn handle<T>(
    shared: Arc<RunShared>,
    run: WorkflowRun,
    decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
) -> RunHandle<T> {
    let ended = async move {
        match run.run_through().await {
            Ok(output) => Ok(Ended::Workflow(output)),
            Err(failed) => Err(failed.error),
        }
    };
    RunHandle::spawn(shared, ended, decode)
}

fn undecoded(ended: Ended) -> Result<Encoded> {
    match ended {
        Ended::Workflow(output) => Ok(output),
        Ended::Agent(_) => Err(Error::Lost { reason: "an agent's run is none of a workflow".to_owned() }),
    }
}

fn decoder<In: Inputs, Out: NodeValue>(
    workflow: &Workflow<In, Out>,
) -> impl Fn(Ended) -> Result<Out> + Send + Sync + 'static {
    let name = Arc::clone(&workflow.spec().name);
    move |ended| {
        let output = undecoded(ended)?;
        Out::decode(&output).map_err(|error| Error::value(&name, &error))
    }
}

fn all_names(graph: &Graph) -> Vec<String> {
    graph.nodes.iter().map(|node| node.name.clone()).collect()
}

/// The nodes of `new` that are not the same in `old`, or depend on one that is not.
pub(crate) fn changed_nodes(old: &Graph, new: &Graph) -> Vec<String> {
    let mut changed = HashSet::new();
    let mut names = Vec::new();
    for node in &new.nodes {
        let same = old.node(&node.name).is_some_and(|before| old.shape(before) == new.shape(node));
        let guard = node.guard.iter().map(|guard| &guard.router);
        let moved = node.reads.iter().chain(&node.after).chain(guard).any(|before| changed.contains(before));
        if !same || moved {
            changed.insert(node.name.clone());
            names.push(node.name.clone());
        }
    }
    names
}
