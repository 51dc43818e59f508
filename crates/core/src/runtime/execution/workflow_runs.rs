//! Runs of workflows: starts a run, resumes a run after a crash, and recovers all runs.

use agentflow_schema::diagnostic::Diagnostic;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::definition::Changes;
use crate::error::{ControlError, Error, Result};
use crate::event::{EventKind, Redefined, RunId, WorkflowStarted};
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::{
    Ended, Found, Journal, Reservation, RunData, RunHandle, RunJournal, RunOptions, RunShared,
    deliver, read_events, read_journal,
};
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::reader_for_run;
#[cfg(feature = "documents")]
use crate::runtime::documents::version_start::{current_workflow, workflow_of_version};
#[cfg(feature = "documents")]
use crate::runtime::documents::versions::{has_documents, put_documents, version_of_run};
use crate::runtime::execution::agent_runs::resume_known_agent;
use crate::runtime::execution::changes::{accept, all_names, changed_nodes, differences, written};
use crate::runtime::execution::compensate_run::{check_compensating_tools, prepare_compensation};
use crate::runtime::execution::lease::{RunLease, explained};
use crate::runtime::execution::start_run::Decode;
use crate::store::{Epoch, RunRecord, RunStatus, Store, StoreError};
use crate::tool::StartedCompensation;
use crate::value::{Encoded, NodeValue};
use crate::workflow::driver::{CompensatingRun, WorkflowRun, places_of_saved};
use crate::workflow::input_object::from_object;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, Inputs, Workflow, begun, check_needs};

/// Returns a workflow by name with its checked inputs. The toolsets that it names are fetched. With
/// a version, it is this version of a stored document.
pub(crate) async fn named(
    runtime: &Runtime,
    name: &Arc<str>,
    input: &Encoded,
    version: Option<u64>,
) -> Result<(Arc<Spec>, Vec<Encoded>)> {
    #[cfg(feature = "documents")]
    let spec = match version {
        Some(version) => workflow_of_version(runtime, name, version).await?,
        None => current_workflow(runtime, name).await?,
    };
    #[cfg(not(feature = "documents"))]
    let spec = match version {
        Some(version) => {
            let (workflow, current) = (Arc::clone(name), None);
            return Err(Error::UnknownVersion { workflow, version, current });
        }
        None => runtime.catalogue().fetched_workflow_spec(name).await?,
    };
    let wrong = |problem: Diagnostic| Error::Input {
        workflow: Arc::clone(name),
        problem: problem.message(),
    };
    let inputs = from_object(&spec.input_names(), input).map_err(wrong)?;
    spec.check_inputs(&inputs).map_err(wrong)?;
    Ok((spec, inputs))
}

pub(crate) async fn start_spec<T: 'static>(
    runtime: &Runtime,
    mut options: RunOptions,
    spec: &Arc<Spec>,
    inputs: Vec<Encoded>,
    decode: Decode<T>,
    begins: impl FnOnce(&Arc<RunShared>),
) -> Result<RunHandle<T>> {
    runtime.host().running.check()?;
    options.grant_scopes_of_caller();
    note_document(&mut options, spec);
    check_compensating_tools(runtime, spec, &options).await?;
    let run = options.run_id.get_or_insert_with(|| runtime.host().new_run_id()).clone();
    // The reservation prevents another start or resume of the same id in this process.
    let reservation = match runtime.host().live.as_ref() {
        None => None,
        Some(live) => match live.find(&run).await {
            Found::Free(reservation) => Some(reservation),
            Found::Live(_) => return Err(StoreError::exists(&run).into()),
        },
    };
    let (shared, terms) =
        begun(runtime.host(), spec, options, &runtime.host().scopes, runtime.host().new_journal())?;
    if let Some(store) = runtime.store() {
        put_definition(runtime, store, spec).await?;
    }
    let shared = Arc::new(shared);
    runtime.host().running.begin(&shared)?;
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

/// Notes the stored document of the workflow, which is recorded with the start of the run.
#[cfg_attr(not(feature = "documents"), allow(unused_variables, reason = "only documents have it"))]
pub(super) fn note_document(options: &mut RunOptions, spec: &Spec) {
    #[cfg(feature = "documents")]
    {
        options.document.clone_from(&spec.document);
    }
}

/// Stores the definition of a workflow, at most once for each store.
pub(super) async fn put_definition(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    spec: &Arc<Spec>,
) -> Result<()> {
    runtime.host().put_parts(spec.parts()).await?;
    #[cfg(feature = "documents")]
    put_documents(runtime, store, spec).await?;
    let Some(live) = runtime.host().live.as_ref().filter(|live| live.lacks_definition(spec.hash()))
    else {
        return Ok(());
    };
    store.put_definition(spec.hash(), Graph::from_plan(spec).to_json().to_string()).await?;
    live.has_definition(spec.hash());
    Ok(())
}

/// Resumes a run. Returns `None` if this process executes it already.
pub(crate) async fn recover_one(
    runtime: &Runtime,
    record: &RunRecord,
) -> Result<Option<RunHandle<Encoded>>> {
    let (store, run) = (runtime.require_store()?, &record.run_id);
    let Some(Found::Free(reservation)) = find(runtime, run).await else { return Ok(None) };
    resume_record(runtime, reservation, &store, record, |_| ()).await.map(Some)
}

/// Resumes a run with the workflow or agent that is registered under its name.
pub(crate) async fn resume_record(
    runtime: &Runtime,
    reservation: Reservation,
    store: &Arc<dyn Store>,
    record: &RunRecord,
    begins: impl FnOnce(&Arc<RunShared>),
) -> Result<RunHandle<Encoded>> {
    match &record.definition {
        None => resume_known_agent(runtime, reservation, &record.run_id, begins).await,
        #[allow(unused_variables, reason = "only documents are kept by it")]
        Some(definition) => {
            let reader = reader_for_run(runtime, store, &record.run_id).await?;
            // All toolsets must be available: an interrupted call is handled by the policy of
            // its tool, so the tool must be known.
            let found = reader.catalogue().complete_workflow_spec(&record.name).await;
            // A compensating run executes no part of the workflow, so the workflow may be
            // missing.
            let may_lack = record.status == RunStatus::Compensating;
            #[cfg(feature = "documents")]
            let may_lack = may_lack || found.is_err() && has_documents(store, definition).await;
            let version = match found {
                Err(error) if !may_lack => return Err(error),
                found => Version::OfName(found, reader),
            };
            let (shared, resumed) =
                resume_journal(runtime, reservation, store, &record.run_id, version).await?;
            begins(&shared);
            Ok(RunHandle::spawn(shared, resumed.run_through(), undecoded))
        }
    }
}

/// Returns the state of a run in this process, or `None` without a store.
pub(crate) async fn find(runtime: &Runtime, run: &RunId) -> Option<Found> {
    match runtime.host().live.as_ref() {
        Some(live) => Some(live.find(run).await),
        None => None,
    }
}

/// Reserves the right to resume a run. Returns `None` if this process executes it.
pub(crate) async fn reserve_unless_executed(
    runtime: &Runtime,
    run: &RunId,
) -> Result<Option<Reservation>> {
    match find(runtime, run).await {
        Some(Found::Free(reservation)) => {
            runtime.host().running.check()?;
            Ok(Some(reservation))
        }
        Some(Found::Live(_)) => Ok(None),
        None => Err(StoreError::no_store().into()),
    }
}

pub(crate) async fn resume_spec<T>(
    runtime: &Runtime,
    run: &RunId,
    spec: &Arc<Spec>,
    decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
) -> Result<RunHandle<T>> {
    let store = runtime.require_store()?;
    let Some(reservation) = reserve_unless_executed(runtime, run).await? else {
        return Err(ControlError::state("resumed", "running in this process").into());
    };
    match resume_journal(runtime, reservation, &store, run, Version::AtHand(Arc::clone(spec))).await
    {
        Ok((shared, resumed)) => Ok(RunHandle::spawn(shared, resumed.run_through(), decode)),
        Err(error) => Err(explained(error, &store, run).await),
    }
}

async fn resume_journal(
    runtime: &Runtime,
    reservation: Reservation,
    store: &Arc<dyn Store>,
    run: &RunId,
    version: Version,
) -> Result<(Arc<RunShared>, ResumedRun)> {
    let opened = RunLease::open(store, run).await?;
    match prepare(runtime, run, version, store, opened.epoch).await {
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
    runtime: &Runtime,
    run: &RunId,
    version: Version,
    store: &Arc<dyn Store>,
    epoch: Epoch,
) -> Result<(Arc<RunShared>, ResumedRun)> {
    let journal_read = read_journal(store, run).await?;
    // A compensating run executes no part of the workflow, so its definition does not matter.
    if let Some(begun) = StartedCompensation::from_journal(journal_read.all()) {
        let (shared, run) =
            prepare_compensation(runtime, run, journal_read, begun, (store, epoch)).await?;
        return Ok((shared, ResumedRun::Undoing(run)));
    }
    let journal = Journal::new(Arc::clone(store), Some(epoch));
    let started = journal_read.workflow(run)?.clone();
    let own = RunData::resumed(&runtime.host().factories, run, journal_read.started(run)?)?;
    let definition = journal_read.definition().unwrap_or(&started.definition).clone();
    let spec = &match version {
        Version::AtHand(spec) => spec,
        #[cfg(feature = "documents")]
        Version::OfName(found, reader) => {
            let parts = journal_read.parts();
            version_of_run(&reader, store, (&started.name, &definition, parts.as_deref()), found)
                .await?
        }
        #[cfg(not(feature = "documents"))]
        Version::OfName(found, _) => found?,
    };
    let differences = differences(runtime, journal_read.parts(), spec.parts()).await?;
    let has_hash = spec.has_hash(&definition);
    let is_same = differences.is_empty() && has_hash;
    let forgotten = match has_hash {
        // The graph is unchanged, so no recorded node is invalidated.
        true => {
            accept(runtime.host().changes(), "workflow", &spec.name, differences)?;
            Vec::new()
        }
        false => {
            let names = forgotten(runtime, store, run, &started, &definition, spec).await?;
            names.iter().map(|name| StepPath::root().child(name)).collect()
        }
    };
    let wrong = |problem: Diagnostic| Error::Input {
        workflow: Arc::clone(&spec.name),
        problem: problem.message(),
    };
    let inputs = from_object(&spec.input_names(), &started.input).map_err(wrong)?;
    let shared = RunShared::new(run.clone(), runtime.host(), Some(journal));
    let shared = Arc::new(shared.with_own(Some(own), started.terms.max_llm_calls));
    check_needs(spec, &shared)?;
    let RunJournal { offset, events, kept } = journal_read;
    shared.restore(offset, kept, events);
    let redefined = match is_same {
        true => {
            // Steps may be dispatched to other processes, which look up these exact sources.
            // They may differ in comments from the recorded ones.
            #[cfg(feature = "documents")]
            put_documents(runtime, store, spec).await?;
            None
        }
        false => {
            put_definition(runtime, store, spec).await?;
            shared.close_invalidated(&forgotten);
            let parts = Arc::clone(&spec.parts().id);
            let places = places_of_saved(spec, &shared);
            Some(Arc::new(
                Redefined::new(Some(Arc::clone(spec.hash())), forgotten, parts).with_places(places),
            ))
        }
    };
    shared.record(StepPath::root(), EventKind::recovered(redefined));
    shared.log.commit().await?;
    let messages = store.waiting_messages(run, epoch).await?;
    runtime.host().running.begin(&shared)?;
    let run = WorkflowRun::resumed(spec, inputs, Arc::clone(&shared));
    // Messages that arrived while no process executed the run are applied before its first
    // step.
    messages.into_iter().for_each(|message| deliver(&shared, message));
    Ok((shared, ResumedRun::Workflow(Box::new(run))))
}

/// Returns the nodes whose records are invalidated by a new definition.
async fn forgotten(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    run: &RunId,
    started: &WorkflowStarted,
    definition: &str,
    spec: &Arc<Spec>,
) -> Result<Vec<String>> {
    let new = Graph::from_plan(spec);
    let old: Option<Graph> =
        store.definition(definition).await?.and_then(|graph| serde_json::from_str(&graph).ok());
    let differing = old.as_ref().map_or_else(|| all_names(&new), |old| changed_nodes(old, &new));
    if runtime.host().changes() != Changes::AcceptAll {
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
        false => Err(Error::WriteForgotten { workflow: Arc::clone(&started.name), nodes: wrote }),
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

pub(crate) fn undecoded(ended: Ended) -> Result<Encoded> {
    match ended {
        Ended::Workflow(output) => Ok(output),
        Ended::Agent(_) => {
            Err(Error::Lost { reason: "an agent's run is not one of a workflow".to_owned() })
        }
    }
}

pub(crate) fn decoder<In: Inputs, Out: NodeValue>(
    workflow: &Workflow<In, Out>,
) -> impl Fn(Ended) -> Result<Out> + Send + Sync + 'static {
    let name = Arc::clone(&workflow.spec().name);
    move |ended| {
        let output = undecoded(ended)?;
        Out::decode(&output).map_err(|error| Error::value(&name, &error))
    }
}
