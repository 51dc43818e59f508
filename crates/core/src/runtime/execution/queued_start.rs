//! Queued runs: a run that is stored by the process that starts it, and executed by a
//! [`Worker`](super::worker::Worker) or another process that resumes it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::RunId;
use crate::run::{Found, RunOptions};
use crate::runtime::Runtime;
use crate::runtime::execution::compensate_run::check_compensating_tools;
use crate::runtime::execution::workflow_runs::{find, note_document, put_definition};
use crate::store::{StoreError, StoreErrorKind};
use crate::value::Encoded;
use crate::workflow::begun;
use crate::workflow::driver::WorkflowRun;
use crate::workflow::spec::Spec;

/// Stores a workflow run for another process: see [`StartRun::queued`](crate::StartRun::queued).
pub(super) async fn queue(
    runtime: &Runtime,
    mut options: RunOptions,
    spec: Arc<Spec>,
    inputs: Vec<Encoded>,
) -> Result<RunId> {
    runtime.host().running.check()?;
    runtime.require_store()?;
    check_no_resource(&options, &spec)?;
    check_compensating_tools(runtime, &spec, &options).await?;
    options.queued = true;
    note_document(&mut options, &spec);
    let run = options.run_id.get_or_insert_with(|| runtime.host().new_run_id()).clone();
    let stored = store_queued(runtime.clone(), options, run, spec, inputs);
    // On a separate task: if the caller is dropped while the store creates the run, the run must
    // still be released, or this process would hold it without executing it.
    tokio::spawn(stored).await.unwrap_or_else(|_| {
        let message = "the run could not be queued, since the program is ending";
        Err(StoreError::new(StoreErrorKind::Io, message).into())
    })
}

/// Checks that a run was given no resource, which cannot leave this process.
fn check_no_resource(options: &RunOptions, spec: &Spec) -> Result<()> {
    if options.resources.is_empty() {
        return Ok(());
    }
    Err(Error::RunResource {
        name: Arc::clone(&spec.name),
        problem: format!(
            "a queued run is executed by another process, where the value of {} cannot go; give \
             the runtime of that process a factory with `run_resource`",
            options.resources.quoted_names()
        ),
    })
}

async fn store_queued(
    runtime: Runtime,
    options: RunOptions,
    run: RunId,
    spec: Arc<Spec>,
    inputs: Vec<Encoded>,
) -> Result<RunId> {
    let store = runtime.require_store()?;
    // Held until the run is released, so that no task of this process resumes it earlier.
    let _reservation = match find(&runtime, &run).await {
        Some(Found::Free(reservation)) => reservation,
        Some(Found::Live(_)) => return Err(StoreError::exists(&run).into()),
        None => return Err(StoreError::no_store().into()),
    };
    let host = runtime.host();
    let (shared, terms) = begun(host, &spec, options, &host.scopes, host.new_journal())?;
    put_definition(&runtime, &store, &spec).await?;
    let shared = Arc::new(shared);
    let started = WorkflowRun::new(&spec, inputs, Arc::clone(&shared), terms);
    let stored = shared.log.commit().await;
    let released = match &stored {
        Ok(()) => shared.log.release().await,
        Err(_) => Ok(()),
    };
    // Closed before it is dropped, so that dropping it records nothing.
    shared.close();
    drop(started);
    stored?;
    released?;
    Ok(run)
}
