//! [`Runtime::execute_step`] executes a single step of a run that another process owns.

use std::sync::Arc;

use crate::error::{Error, Failure, FailureKind, Result};
use crate::executor::{Delivery, ExecutorError, RemoteRun, StepCall, drained};
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::reader_for;
#[cfg(feature = "documents")]
use crate::runtime::documents::versions::{stored_texts, stored_version};
use crate::runtime::execution::changes::{accept, differences};
use crate::workflow::spec::Spec;

/// Claims the step of a call, unless this runtime is being drained.
pub(crate) async fn taken(
    call: &StepCall,
    delivery: &Delivery,
    run: &Result<RemoteRun>,
) -> Result<(), ExecutorError> {
    match run {
        Err(Error::Draining) => Err(drained(call)),
        _ => delivery.take().await,
    }
}

/// Returns the workflow of a call, in the version of its run.
pub(crate) async fn spec_of(runtime: &Runtime, call: &StepCall) -> Result<Arc<Spec>, Failure> {
    if call.version != StepCall::VERSION {
        let message = format!(
            "the step `{}` was handed out in the form {}, and this release reads the form {}; use the same release on both \
             sides",
            call.path,
            call.version,
            StepCall::VERSION
        );
        return Err(Failure::new(FailureKind::NewerVersion, message));
    }
    let reader = reader_for(runtime, runtime.store(), Some(&call.parts)).await;
    let reader = reader.map_err(|error| Failure::from(&Error::Store(error)))?;
    let now = reader.catalogue().fetched_workflow_spec(&call.workflow).await;
    let is_it = |spec: &Spec| spec.has_hash(&call.definition) && spec.documents() == call.documents;
    let now = match now {
        Ok(spec) if spec.has_hash(&call.definition) && *spec.parts().id == *call.parts => {
            return Ok(spec);
        }
        Ok(spec) if is_it(&spec) => Ok(spec),
        #[cfg(feature = "documents")]
        now => match version_of_call(&reader, call, is_it)
            .await
            .map_err(|error| Failure::from(&error))?
        {
            Some(spec) => Ok(spec),
            None => now,
        },
        #[cfg(not(feature = "documents"))]
        now => now,
    };
    let spec = now.map_err(|error| Failure::from(&error))?;
    if !spec.has_hash(&call.definition) {
        // The definition may differ because tools of a toolset, which were available when the
        // run started, are missing here. In this case the fetch error is the better message.
        reader
            .catalogue()
            .fetch_toolsets_of(&call.workflow)
            .await
            .map_err(|error| Failure::from(&error))?;
        let message = format!(
            "the step `{}` is of the workflow `{}` with the definition {}, and here the workflow has the definition {}; \
             execute it with the program that the run goes by",
            call.path,
            call.workflow,
            call.definition,
            spec.hash()
        );
        return Err(Failure::new(FailureKind::DefinitionChanged, message));
    }
    if call.documents != spec.documents() {
        let message = format!(
            "the step `{}` is of the workflow `{}`, whose documents have another version here than the run began with, and \
             the store of this runtime does not keep that version; give it the store of the run, or the documents of the \
             run",
            call.path, call.workflow
        );
        return Err(Failure::new(FailureKind::DefinitionChanged, message));
    }
    let differences = differences(runtime, Some(Arc::clone(&call.parts)), spec.parts()).await;
    differences
        .and_then(|differences| {
            accept(runtime.host().changes(), "workflow", &spec.name, differences)
        })
        .map_err(|error| Failure::from(&error))?;
    Ok(spec)
}

/// Returns the version of a call's run, loaded from the documents in this runtime's store.
/// Returns `None` if the store does not contain that version.
#[cfg(feature = "documents")]
async fn version_of_call(
    runtime: &Runtime,
    call: &StepCall,
    is_it: impl Fn(&Spec) -> bool,
) -> Result<Option<Arc<Spec>>> {
    let (Some(store), Some(documents)) = (runtime.store(), &call.documents) else {
        return Ok(None);
    };
    if let Some(spec) =
        stored_texts(runtime, store, &call.workflow, documents).await?.transpose()?
        && is_it(&spec)
    {
        return Ok(Some(spec));
    }
    // Earlier releases stored documents only by version.
    let version = (&*call.workflow, &*call.definition, Some(&*call.parts));
    Ok(stored_version(runtime, store, version).await?.transpose()?.filter(|spec| is_it(spec)))
}
