//! Runs of workflows: starts a run, resumes a run after a crash, and recovers all runs.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::oneshot;

use super::Runtime;
use super::changes::{accept, all_names, changed_nodes, written};
use super::known_by_name::WorkflowName;
use super::opened::{Opened, explained};
use super::start_run::{Decode, Described, StartRun};
use crate::definition::Changes;
use crate::error::{ControlError, Error, Result};
use crate::event::{EventKind, PauseReason, Redefined, RunId, WorkflowStarted};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::{
    Ended, Found, Journal, Reservation, RunData, RunHandle, RunJournal, RunOptions, RunShared,
    attach, deliver, read_events, read_journal,
};
use crate::store::{
    Epoch, RunFilter, RunList, RunRecord, RunStatus, Store, StoreError, StoreErrorKind,
};
use crate::tool::StartedCompensation;
use crate::value::{Encoded, NodeValue};
use crate::workflow::driver::{CompensatingRun, WorkflowRun, places_of_saved};
use crate::workflow::input_object::from_object;
use crate::workflow::spec::Spec;
use crate::workflow::{
    Graph, Inputs, IntoInputs, IntoNamedInputs, IntoWorkflow, Workflow, begun, check_needs,
};

/// Result of [`Runtime::recover`], oldest run first.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// Runs that are executed here now, including those in `waiting`.
    pub resumed: Vec<RunHandle<Encoded>>,
    /// Runs among `resumed` that wait for a person's answer. They continue when it is given.
    /// [`Runtime::approvals`] returns their questions.
    pub waiting: Vec<RunId>,
    /// Runs that could not be resumed, with the reason: the workflow or agent is unknown, its
    /// definition has changed, or a resource is missing.
    pub left: Vec<(RunId, Error)>,
    /// Runs that another process executes.
    pub elsewhere: Vec<RunId>,
}

/// Number of runs that are resumed concurrently.
const AT_ONCE: usize = 64;

impl Runtime {
    /// Starts a run of a workflow on a separate task when it is awaited. Before that, options such
    /// as an id, tags and limits can be set: see [`StartRun`]. With a store, the run is stored
    /// there when the future completes.
    ///
    /// # Errors
    /// If the input has no JSON form; a resource that a tool of the workflow needs is missing
    /// ([`Error::RunResource`]); a node that every run executes needs a [state](crate::state) key
    /// that is never set ([`Error::Build`]); a compensating tool is unknown or does not accept its
    /// arguments ([`RegistryError::Compensation`](crate::error::RegistryError::Compensation)); the
    /// runtime is being [drained](Self::drain); or the store cannot store the run, for example
    /// because it has a run with the same id.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<W: IntoWorkflow>(
        &self,
        workflow: W,
        input: impl IntoInputs<W::In>,
    ) -> StartRun<'_, W::Out> {
        let workflow = workflow.into_workflow();
        let inputs = input
            .into_inputs()
            .encode()
            .map_err(|error| Error::value(&workflow.spec().name, &error));
        let described = inputs.map(|inputs| (Arc::clone(workflow.spec()), inputs));
        StartRun::new(
            self,
            Described::Workflow(described),
            Box::new(decoder::<W::In, W::Out>(&workflow)),
        )
    }

    /// Starts a run like [`start`](Self::start), of a workflow that is registered with this runtime
    /// or linked into the program. The input is a JSON object with the names of the workflow's
    /// inputs, such as `json!({"url": "https://example.com"})`.
    ///
    /// # Errors
    /// As [`start`](Self::start), and if no workflow has this name, or the input does not match its
    /// names and types. If a tool of a node cannot be fetched, only the node fails, with
    /// [`FailureKind::Toolset`](crate::error::FailureKind::Toolset).
    #[doc(alias = "run_workflow")]
    pub fn start_named(
        &self,
        name: impl WorkflowName,
        input: impl IntoNamedInputs,
    ) -> StartRun<'_, Encoded> {
        let name = Arc::from(name.as_name());
        let input = input.into_named_inputs().map_err(|error| Error::value(&name, &error));
        StartRun::new(self, Described::Named(name, input), Box::new(undecoded))
    }

    /// Returns a workflow by name with its checked inputs. The toolsets that it names are fetched.
    pub(super) async fn named(
        &self,
        name: &Arc<str>,
        input: &Encoded,
    ) -> Result<(Arc<Spec>, Vec<Encoded>)> {
        let spec = self.fetched_workflow_spec(name).await?;
        let wrong = |problem| Error::Input { workflow: Arc::clone(name), problem };
        let inputs = from_object(&spec.input_names(), input).map_err(wrong)?;
        spec.check_inputs(&inputs).map_err(wrong)?;
        Ok((spec, inputs))
    }

    pub(super) async fn start_spec<T: 'static>(
        &self,
        mut options: RunOptions,
        spec: &Arc<Spec>,
        inputs: Vec<Encoded>,
        decode: Decode<T>,
        begins: impl FnOnce(&Arc<RunShared>),
    ) -> Result<RunHandle<T>> {
        self.host().running.check()?;
        self.check_compensations(spec, &options).await?;
        let run = options.run_id.get_or_insert_with(|| self.host().new_run_id()).clone();
        // The reservation prevents another start or resume of the same id in this process.
        let reservation = match self.host().live.as_ref() {
            None => None,
            Some(live) => match live.find(&run).await {
                Found::Free(reservation) => Some(reservation),
                Found::Live(_) => return Err(StoreError::exists(&run).into()),
            },
        };
        let (shared, terms) =
            begun(self.host(), spec, options, &self.host().scopes, self.host().new_journal())?;
        if let Some(store) = self.store() {
            self.put_definition(store, spec).await?;
        }
        let shared = Arc::new(shared);
        self.host().running.begin(&shared)?;
        begins(&shared);
        let started = WorkflowRun::new(spec, inputs, Arc::clone(&shared), terms);
        // From now on control requests find the run, and wait for its first commit.
        if let Some(reservation) = reservation {
            reservation.becomes(&shared);
        }
        // The run is executed after its first commit, independent of the caller's future.
        let (created, is_created) = oneshot::channel();
        let log = Arc::clone(&shared);
        let run = async move {
            let kept = log.log.commit().await;
            let failed = kept.as_ref().err().cloned();
            // The caller may have dropped its future.
            let _ = created.send(kept);
            match failed {
                Some(error) => Err(error.into()),
                None => run_to_end(started).await,
            }
        };
        let handle = RunHandle::spawn(shared, run, decode);
        match is_created.await {
            Ok(kept) => kept?,
            Err(_) => drop(handle.result().await?),
        }
        Ok(handle)
    }

    /// Stores the definition of a workflow, at most once for each store.
    pub(super) async fn put_definition(&self, store: &Arc<dyn Store>, spec: &Arc<Spec>) -> Result<()> {
        self.host().put_parts(spec.parts()).await?;
        #[cfg(feature = "documents")]
        self.put_documents(store, spec).await?;
        let Some(live) =
            self.host().live.as_ref().filter(|live| live.lacks_definition(spec.hash()))
        else {
            return Ok(());
        };
        store.put_definition(spec.hash(), Graph::from_plan(spec).to_json().to_string()).await?;
        live.has_definition(spec.hash());
        Ok(())
    }

    /// Resumes an unfinished run whose process ended. Recorded work is not repeated.
    ///
    /// If this process executes the run already, its handle is [attached](Self::attach).
    ///
    /// The workflow or agent is found by name among the items that are registered with the runtime
    /// or linked into the program. An agent continues with the recorded instructions of its run.
    ///
    /// # Errors
    /// If the run, workflow or agent does not exist, the run has ended, another process executes
    /// it, a required resource is missing ([`Error::RunResource`]), the runtime is being
    /// [drained](Self::drain), or the definition differs from the one with which the run started
    /// and the runtime does not accept the difference ([`Changes`]).
    pub async fn resume(&self, run: &RunId) -> Result<RunHandle<Encoded>> {
        self.resume_and(run, |_| ()).await
    }

    /// Resumes a run like [`resume`](Self::resume). Calls `begins` before the run executes its next
    /// step, unless this process executes the run already.
    pub(super) async fn resume_and(
        &self,
        run: &RunId,
        begins: impl FnOnce(&Arc<RunShared>),
    ) -> Result<RunHandle<Encoded>> {
        let store = self.require_store()?;
        let record = store.record(run).await?.ok_or_else(|| StoreError::not_found(run))?;
        let Some(reservation) = self.reserve_unless_executed(run).await? else {
            return self.attach(run).await;
        };
        match self.resume_record(reservation, &store, &record, begins).await {
            Ok(handle) => Ok(handle),
            Err(error) => Err(explained(error, &store, run).await),
        }
    }

    /// Resumes a run like [`resume`](Self::resume), with the given workflow and its output type.
    ///
    /// # Errors
    /// As [`resume`](Self::resume), and if this process executes the run with another definition.
    /// With [`Changes::AcceptAll`] also if the inputs of a changed workflow differ, or if a node
    /// that may have had side effects would run again or was removed ([`Error::WriteForgotten`]).
    pub async fn resume_as<In: Inputs, Out: NodeValue>(
        &self,
        run: &RunId,
        workflow: &Workflow<In, Out>,
    ) -> Result<RunHandle<Out>> {
        let live = self.host().live.as_ref().and_then(|live| live.get(run));
        if live
            .and_then(|live| live.log.definition())
            .is_some_and(|hash| hash == *workflow.spec().hash())
        {
            return Ok(RunHandle::from_task(
                attach(self.host(), run).await?,
                decoder::<In, Out>(workflow),
            ));
        }
        self.resume_spec(run, workflow.spec(), decoder::<In, Out>(workflow)).await
    }

    /// Resumes every unfinished run in the store that no process executes, of workflows and of
    /// agents. A program calls it once after a restart. Several runs are loaded concurrently. A run
    /// that waits for a person is resumed too and waits again; it is listed in
    /// [`Recovered::waiting`].
    ///
    /// # Cancel safety
    /// Dropping the future stops between two runs. Runs that were resumed are executed here.
    ///
    /// # Errors
    /// If the store cannot list its runs, or the runtime is being [drained](Self::drain).
    pub async fn recover(&self) -> Result<Recovered> {
        self.host().running.check()?;
        let RunList { mut runs, unreadable, .. } =
            self.require_store()?.list_with_unreadable(RunFilter::unfinished()).await?;
        // The store lists the newest run first, but the oldest should continue first.
        runs.reverse();
        let found = futures_util::stream::iter(runs)
            .map(|run| async move { (self.recover_one(&run).await, run) });
        let mut found = found.buffered(AT_ONCE);
        let mut recovered = Recovered::default();
        recovered.left.extend(unreadable.into_iter().map(|(run, error)| (run, error.into())));
        while let Some((one, run)) = found.next().await {
            match one {
                Ok(Some(handle)) => {
                    if run.pause_reason == Some(PauseReason::Approval) {
                        recovered.waiting.push(run.run_id);
                    }
                    recovered.resumed.push(handle);
                }
                Ok(None) => {}
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Busy => {
                    recovered.elsewhere.push(run.run_id);
                }
                // The run has ended since the runs were listed.
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Ended => {}
                Err(error) => {
                    let run = run.run_id;
                    tracing::warn!(%run, error = self.host().redacted(&error), "a run could not be resumed");
                    recovered.left.push((run, error));
                }
            }
        }
        let (resumed, waiting) = (recovered.resumed.len(), recovered.waiting.len());
        let (left, elsewhere) = (recovered.left.len(), recovered.elsewhere.len());
        tracing::info!(resumed, waiting, left, elsewhere, "runs were recovered");
        Ok(recovered)
    }

    /// Resumes a run. Returns `None` if this process executes it already.
    pub(super) async fn recover_one(&self, record: &RunRecord) -> Result<Option<RunHandle<Encoded>>> {
        let (store, run) = (self.require_store()?, &record.run_id);
        let Some(Found::Free(reservation)) = self.find(run).await else { return Ok(None) };
        self.resume_record(reservation, &store, record, |_| ()).await.map(Some)
    }

    /// Resumes a run with the workflow or agent that is registered under its name.
    async fn resume_record(
        &self,
        reservation: Reservation,
        store: &Arc<dyn Store>,
        record: &RunRecord,
        begins: impl FnOnce(&Arc<RunShared>),
    ) -> Result<RunHandle<Encoded>> {
        match &record.definition {
            None => self.resume_known_agent(reservation, &record.run_id, begins).await,
            #[allow(unused_variables, reason = "only documents are kept by it")]
            Some(definition) => {
                let reader = self.reader_for_run(store, &record.run_id).await?;
                // All toolsets must be available: an interrupted call is handled by the policy of
                // its tool, so the tool must be known.
                let found = reader.complete_workflow_spec(&record.name).await;
                // A compensating run executes no part of the workflow, so the workflow may be
                // missing.
                let may_lack = record.status == RunStatus::Compensating;
                #[cfg(feature = "documents")]
                let may_lack =
                    may_lack || found.is_err() && self.has_documents(store, definition).await;
                let version = match found {
                    Err(error) if !may_lack => return Err(error),
                    found => Version::OfName(found, reader),
                };
                let (shared, resumed) =
                    self.resume_journal(reservation, store, &record.run_id, version).await?;
                begins(&shared);
                Ok(RunHandle::spawn(shared, resumed.run_through(), undecoded))
            }
        }
    }

    /// Returns the state of a run in this process, or `None` without a store.
    pub(super) async fn find(&self, run: &RunId) -> Option<Found> {
        match self.host().live.as_ref() {
            Some(live) => Some(live.find(run).await),
            None => None,
        }
    }

    /// Reserves the right to resume a run. Returns `None` if this process executes it.
    pub(super) async fn reserve_unless_executed(&self, run: &RunId) -> Result<Option<Reservation>> {
        match self.find(run).await {
            Some(Found::Free(reservation)) => {
                self.host().running.check()?;
                Ok(Some(reservation))
            }
            Some(Found::Live(_)) => Ok(None),
            None => Err(StoreError::no_store().into()),
        }
    }

    async fn resume_spec<T>(
        &self,
        run: &RunId,
        spec: &Arc<Spec>,
        decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
    ) -> Result<RunHandle<T>> {
        let store = self.require_store()?;
        let Some(reservation) = self.reserve_unless_executed(run).await? else {
            return Err(ControlError::state("resumed", "running in this process").into());
        };
        match self.resume_journal(reservation, &store, run, Version::AtHand(Arc::clone(spec))).await
        {
            Ok((shared, resumed)) => Ok(RunHandle::spawn(shared, resumed.run_through(), decode)),
            Err(error) => Err(explained(error, &store, run).await),
        }
    }

    async fn resume_journal(
        &self,
        reservation: Reservation,
        store: &Arc<dyn Store>,
        run: &RunId,
        version: Version,
    ) -> Result<(Arc<RunShared>, ResumedRun)> {
        let opened = Opened::open(store, run).await?;
        match self.prepare(run, version, store, opened.epoch).await {
            Ok((shared, resumed)) => {
                opened.hand_over();
                reservation.becomes(&shared);
                Ok((shared, resumed))
            }
            Err(error) => {
                opened.give_up().await?;
                Err(error)
            }
        }
    }

    async fn prepare(
        &self,
        run: &RunId,
        version: Version,
        store: &Arc<dyn Store>,
        epoch: Epoch,
    ) -> Result<(Arc<RunShared>, ResumedRun)> {
        let journal_read = read_journal(store, run).await?;
        // A compensating run executes no part of the workflow, so its definition does not matter.
        if let Some(begun) = StartedCompensation::from_journal(journal_read.all()) {
            let (shared, run) =
                self.prepare_compensation(run, journal_read, begun, (store, epoch)).await?;
            return Ok((shared, ResumedRun::Undoing(run)));
        }
        let journal = Journal::new(Arc::clone(store), Some(epoch));
        let started = journal_read.workflow(run)?.clone();
        let own = RunData::resumed(&self.host().factories, run, journal_read.started(run)?)?;
        let definition = journal_read.definition().unwrap_or(&started.definition).clone();
        let spec = &match version {
            Version::AtHand(spec) => spec,
            #[cfg(feature = "documents")]
            Version::OfName(found, reader) => {
                let parts = journal_read.parts();
                reader
                    .version_of_run(store, (&started.name, &definition, parts.as_deref()), found)
                    .await?
            }
            #[cfg(not(feature = "documents"))]
            Version::OfName(found, _) => found?,
        };
        let differences = self.differences(journal_read.parts(), spec.parts()).await?;
        let is_same = differences.is_empty() && definition == *spec.hash();
        let forgotten = match definition == *spec.hash() {
            // The graph is unchanged, so no recorded node is invalidated.
            true => {
                accept(self.changes(), "workflow", &spec.name, differences)?;
                Vec::new()
            }
            false => {
                let names = self.forgotten(store, run, &started, &definition, spec).await?;
                names.iter().map(|name| StepPath::root().child(name)).collect()
            }
        };
        let wrong = |problem| Error::Input { workflow: Arc::clone(&spec.name), problem };
        let inputs = from_object(&spec.input_names(), &started.input).map_err(wrong)?;
        let shared = RunShared::new(run.clone(), self.host(), Some(journal));
        let shared = Arc::new(shared.with_own(Some(own), started.terms.max_llm_calls));
        check_needs(spec, &shared)?;
        let RunJournal { offset, events, kept } = journal_read;
        shared.restore(offset, kept, events);
        let redefined = match is_same {
            true => {
                // Steps may be dispatched to other processes, which look up these exact sources.
                // They may differ in comments from the recorded ones.
                #[cfg(feature = "documents")]
                self.put_documents(store, spec).await?;
                None
            }
            false => {
                self.put_definition(store, spec).await?;
                shared.close_invalidated(&forgotten);
                let parts = Arc::clone(&spec.parts().id);
                let places = places_of_saved(spec, &shared);
                Some(Arc::new(
                    Redefined::new(Some(Arc::clone(spec.hash())), forgotten, parts)
                        .with_places(places),
                ))
            }
        };
        shared.record(StepPath::root(), EventKind::recovered(redefined));
        shared.log.commit().await?;
        let messages = store.waiting_messages(run, epoch).await?;
        self.host().running.begin(&shared)?;
        let run = WorkflowRun::resumed(spec, inputs, Arc::clone(&shared));
        // Messages that arrived while no process executed the run are applied before its first
        // step.
        messages.into_iter().for_each(|message| deliver(&shared, message));
        Ok((shared, ResumedRun::Workflow(Box::new(run))))
    }

    /// Returns the nodes whose records are invalidated by a new definition.
    async fn forgotten(
        &self,
        store: &Arc<dyn Store>,
        run: &RunId,
        started: &WorkflowStarted,
        definition: &str,
        spec: &Arc<Spec>,
    ) -> Result<Vec<String>> {
        let new = Graph::from_plan(spec);
        let old: Option<Graph> =
            store.definition(definition).await?.and_then(|graph| serde_json::from_str(&graph).ok());
        let differing =
            old.as_ref().map_or_else(|| all_names(&new), |old| changed_nodes(old, &new));
        if self.changes() != Changes::AcceptAll {
            return Err(Error::DefinitionChanged {
                workflow: Arc::clone(&started.name),
                nodes: differing,
            });
        }
        let gone = old
            .iter()
            .flat_map(|old| &old.nodes)
            .map(|node| &node.name)
            .filter(|name| new.node(name).is_none());
        let forgotten: Vec<String> = differing.into_iter().chain(gone.cloned()).collect();
        // Reads all events: a snapshot omits the events below a finished node.
        let wrote = written(old.as_ref(), &read_events(store, run, 0).await?, &forgotten);
        match wrote.is_empty() {
            true => Ok(forgotten),
            false => {
                Err(Error::WriteForgotten { workflow: Arc::clone(&started.name), nodes: wrote })
            }
        }
    }
}

/// Selects the workflow with which a run is resumed.
enum Version {
    AtHand(Arc<Spec>),
    /// The workflow with the recorded name, and the runtime that loads other versions: a run of a
    /// document may have started with a different version.
    #[cfg_attr(
        not(feature = "documents"),
        allow(dead_code, reason = "only documents have other versions")
    )]
    OfName(Result<Arc<Spec>>, Runtime),
}

/// The task that executes a resumed run.
enum ResumedRun {
    Workflow(Box<WorkflowRun>),
    Undoing(CompensatingRun),
}

impl ResumedRun {
    fn run_through(self) -> BoxFuture<'static, Result<Ended>> {
        match self {
            Self::Workflow(run) => Box::pin(run_to_end(*run)),
            Self::Undoing(run) => {
                Box::pin(async move { run.run_through().await.map(Ended::Workflow) })
            }
        }
    }
}

async fn run_to_end(run: WorkflowRun) -> Result<Ended> {
    match run.run_through().await {
        Ok(output) => Ok(Ended::Workflow(output)),
        Err(failed) => Err(failed.error),
    }
}

pub(super) fn undecoded(ended: Ended) -> Result<Encoded> {
    match ended {
        Ended::Workflow(output) => Ok(output),
        Ended::Agent(_) => {
            Err(Error::Lost { reason: "an agent's run is not one of a workflow".to_owned() })
        }
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
