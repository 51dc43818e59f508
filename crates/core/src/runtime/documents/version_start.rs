//! Finds the workflow of a run that is started by name: of the current version of a stored document,
//! or of a certain version.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::registered_now;
use crate::runtime::documents::refresh::{read_stored, refresh, refresh_if_old};
use crate::runtime::documents::save::with_document;
use crate::runtime::documents::stored_items::has_workflow;
use crate::workflow::spec::Spec;

/// Returns the workflow of a version. The other documents have their current versions.
///
/// # Errors
/// [`Error::UnknownVersion`] if the workflow is not a stored document, if the document was removed,
/// or if it has no such version.
pub(crate) async fn workflow_of_version(
    runtime: &Runtime,
    name: &Arc<str>,
    version: u64,
) -> Result<Arc<Spec>> {
    let unknown = |current| Error::UnknownVersion { workflow: Arc::clone(name), version, current };
    let store = runtime.require_store()?;
    let documents = store.require_documents()?;
    refresh_if_old(runtime).await?;
    if has_workflow(&registered_now(runtime.host()), name) {
        return Err(unknown(None));
    }
    // A removed document is not started, although its versions can be read.
    let Some(last) = documents.document(name, None).await? else { return Err(unknown(None)) };
    let stored = match last.record.version == version {
        true => last,
        false => {
            let current = Some(last.record.version);
            documents.document(name, Some(version)).await?.ok_or_else(|| unknown(current))?
        }
    };
    let document = read_stored(&stored).map_err(|error| Error::Build {
        what: "workflow",
        name: Arc::clone(name),
        problem: format!("its document, version {version}, has problems\n{error}"),
    })?;
    with_document(runtime, &document).catalogue().fetched_workflow_spec(name).await
}

/// Returns a workflow by name. Changes of stored documents are at most one second old. A name that
/// is unknown here may have been saved just now by another process.
pub(crate) async fn current_workflow(runtime: &Runtime, name: &Arc<str>) -> Result<Arc<Spec>> {
    refresh_if_old(runtime).await?;
    match runtime.catalogue().fetched_workflow_spec(name).await {
        Err(Error::UnknownWorkflow { .. }) if runtime.store().is_some() => {
            refresh(runtime).await?;
            runtime.catalogue().fetched_workflow_spec(name).await
        }
        found => found,
    }
}
