//! Versions of documents: the store keeps the document sources with which runs started, and a
//! resumed run uses the matching workflow or agent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::ErasedAgent;
use crate::definition::{Changes, sha256};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::event::{AgentStarted, RunId};
use crate::run::Host;
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::{given, set_all_items};
use crate::runtime::documents::registered::DocumentText;
use crate::runtime::documents::set::{DocumentSet, models};
use crate::store::{Store, StoreError};
use crate::workflow::spec::Spec;

/// The documents of a workflow and of everything it calls, as stored.
#[derive(Serialize, Deserialize)]
struct RunDocuments {
    documents: Vec<RunDocument>,
}

#[derive(Serialize, Deserialize)]
struct RunDocument {
    name: Arc<str>,
    text: Arc<str>,
}

/// Returns the store key for the documents of a definition. `parts` additionally selects the
/// version of the agents.
fn key(definition: &str, parts: Option<&str>) -> Arc<str> {
    let parts = parts.unwrap_or_default();
    sha256(format!("documents of the definition {definition} {parts}").as_bytes()).into()
}

/// Returns the store key for documents with exactly these sources. Documents of a definition may
/// differ in comments.
fn key_of_texts(texts: &str) -> Arc<str> {
    sha256(format!("documents with the texts {texts}").as_bytes()).into()
}

/// Returns the store key for the document of an agent's version.
fn key_of_agent(name: &str, parts: &str) -> Arc<str> {
    sha256(format!("document of the agent {name} {parts}").as_bytes()).into()
}

/// Stores the documents of a workflow, at most once for each store.
pub(crate) async fn put_documents(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    spec: &Spec,
) -> Result<(), StoreError> {
    let Some(live) = runtime.host().live.as_ref().filter(|_| !spec.written.is_empty()) else {
        return Ok(());
    };
    let texts = spec.documents().map(|texts| key_of_texts(&texts));
    // Stored under three keys: by definition and agents, by definition only, and by exact text
    // for dispatched steps.
    for key in
        [key(spec.hash(), Some(&spec.parts().id)), key(spec.hash(), None)].into_iter().chain(texts)
    {
        if live.lacks_definition(&key) {
            let written = spec.written.iter().cloned();
            let documents = written.map(|(name, text)| RunDocument { name, text }).collect();
            let json = serde_json::to_string(&RunDocuments { documents }).unwrap_or_default();
            store.put_definition(&key, json).await?;
            live.has_definition(&key);
        }
    }
    Ok(())
}

/// `true` if the store has documents of a definition.
pub(crate) async fn has_documents(store: &Arc<dyn Store>, definition: &str) -> bool {
    matches!(store.definition(&key(definition, None)).await, Ok(Some(_)))
}

/// Stores the document of an agent that is described by a document, at most once for each
/// store.
pub(crate) async fn put_document_of(runtime: &Runtime, agent: &ErasedAgent) -> Result<()> {
    let (Some(store), Some(live)) = (runtime.store(), runtime.host().live.as_ref()) else {
        return Ok(());
    };
    let Some((name, text)) = document_of_agent(runtime, agent) else { return Ok(()) };
    let key = key_of_agent(agent.name(), &agent.parts(runtime.host())?.id);
    if live.lacks_definition(&key) {
        let documents = vec![RunDocument { name, text }];
        let json = serde_json::to_string(&RunDocuments { documents }).unwrap_or_default();
        store.put_definition(&key, json).await?;
        live.has_definition(&key);
    }
    Ok(())
}

fn document_of_agent(runtime: &Runtime, agent: &ErasedAgent) -> Option<DocumentText> {
    let agents = given(runtime.host(), |given| &given.written_agents);
    agents.iter().find(|(other, _)| other.is(agent)).map(|(_, written)| written.clone())
}

/// Returns the workflow with which a run started, if it comes from documents and this runtime
/// has a different version or none. Otherwise returns `now`.
pub(crate) async fn version_of_run(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    (name, definition, parts): (&str, &str, Option<&str>),
    now: Result<Arc<Spec>>,
) -> Result<Arc<Spec>> {
    let is_it = |spec: &Spec| {
        spec.has_hash(definition) && parts.is_none_or(|parts| *spec.parts().id == *parts)
    };
    match &now {
        Ok(spec) if is_it(spec) => return now,
        // The operator has chosen the current version.
        Ok(_) if runtime.host().changes() == Changes::AcceptAll => return now,
        _ => {}
    }
    match stored_version(runtime, store, (name, definition, parts)).await? {
        Some(Ok(spec)) if spec.has_hash(definition) => Ok(spec),
        // The difference is in the program itself, not in the documents.
        Some(Ok(spec)) => now.or(Ok(spec)),
        // The toolset may become available again, so the current version is not a substitute.
        Some(Err(error @ Error::Toolset { .. })) => Err(error),
        Some(Err(error)) => now.map_err(|_| error),
        None => now,
    }
}

/// Builds the workflow of a definition from the documents in the store. Returns `None` if the
/// store has none that this release can read.
pub(crate) async fn stored_version(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    (name, definition, parts): (&str, &str, Option<&str>),
) -> Result<Option<Result<Arc<Spec>>>> {
    let kept = match store.definition(&key(definition, parts)).await? {
        None if parts.is_some() => store.definition(&key(definition, None)).await?,
        kept => kept,
    };
    match with_stored_documents(runtime, kept) {
        Some(runtime) => Ok(Some(runtime.catalogue().complete_workflow_spec(name).await)),
        None => Ok(None),
    }
}

/// Builds the workflow from documents with these sources. Returns `None` if the store has none
/// that this release can read.
pub(crate) async fn stored_texts(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    name: &str,
    texts: &str,
) -> Result<Option<Result<Arc<Spec>>>> {
    match with_stored_documents(runtime, store.definition(&key_of_texts(texts)).await?) {
        Some(runtime) => Ok(Some(runtime.catalogue().complete_workflow_spec(name).await)),
        None => Ok(None),
    }
}

/// Returns a runtime with the agent of a run, if it comes from a document and this runtime has
/// a different version or none.
pub(crate) async fn version_of_agent(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    (run, started): (&RunId, &AgentStarted),
    parts: Option<&str>,
) -> Result<Option<Runtime>> {
    let Some(parts) = parts else { return Ok(None) };
    let now =
        runtime.catalogue().agent_of(run, started).and_then(|agent| agent.parts(runtime.host()));
    match &now {
        Ok(now) if *now.id == *parts => return Ok(None),
        // The operator has chosen the current version.
        Ok(_) if runtime.host().changes() == Changes::AcceptAll => return Ok(None),
        _ => {}
    }
    let kept = store.definition(&key_of_agent(&started.name, parts)).await?;
    // Changes of the program itself are compared with the recorded definition as usual.
    Ok(with_stored_documents(runtime, kept)
        .filter(|runtime| runtime.catalogue().agent_of(run, started).is_ok()))
}

/// Returns this runtime with stored documents instead of the current ones.
fn with_stored_documents(runtime: &Runtime, kept: Option<String>) -> Option<Runtime> {
    let RunDocuments { documents } = kept.and_then(|kept| serde_json::from_str(&kept).ok())?;
    let read = documents.into_iter().map(|kept| Document::read(kept.name, kept.text)).collect();
    let documents: Vec<Document> = match read {
        Ok(documents) => documents,
        Err(error) => {
            tracing::warn!(%error, "a document that a run began with is not read by this release");
            return None;
        }
    };
    let none = DocumentSet::default();
    let set = runtime.host().part::<DocumentSet>().unwrap_or(&none);
    let mut host = Host::clone(runtime.host());
    set_all_items(&mut host, Arc::new(set.given_with_only(&documents, models(runtime.host()))));
    Some(Runtime(Arc::new(host)))
}
