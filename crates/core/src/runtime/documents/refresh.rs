//! Reads the changes of stored documents that other processes have made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};

use crate::document::{Document, DocumentError};
use crate::runtime::Runtime;
use crate::runtime::documents::stored_items::{ReadDocument, StoredItems};
use crate::store::{DocumentChange, Store, StoreError, StoreErrorKind, StoredDocument};

/// Longest time after which a runtime uses the changes of other processes. Within this time, it
/// does not look at the store again.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(1);

/// Number of changes that are read at once.
const PAGE: usize = 200;

/// Number of texts that are read concurrently.
const AT_ONCE: usize = 8;

/// Reads the changes of the store's documents, unless they were read within [`MAX_AGE`].
pub(crate) async fn refresh_if_old(runtime: &Runtime) -> Result<(), StoreError> {
    let now = Instant::now();
    refresh_since(runtime, now.checked_sub(MAX_AGE).unwrap_or(now)).await
}

/// Reads the changes of the store's documents now. Does nothing without a store, or if the store
/// has no documents.
///
/// # Cancel safety
/// Changes that were read before the future is dropped take effect; the others are read next time.
pub(crate) async fn refresh(runtime: &Runtime) -> Result<(), StoreError> {
    refresh_since(runtime, Instant::now()).await
}

/// Reads the changes of the store's documents, unless they were read at or after this time.
async fn refresh_since(runtime: &Runtime, time: Instant) -> Result<(), StoreError> {
    let Some(items) = runtime.host().part::<StoredItems>() else { return Ok(()) };
    let Some(store) = runtime.store() else { return Ok(()) };
    let Some(documents) = store.documents() else { return Ok(()) };
    if items.looked_since(time) {
        return Ok(());
    }
    let _alone = items.refreshing.lock().await;
    // Another task may have read the store while this one waited.
    if items.looked_since(time) {
        return Ok(());
    }
    let begun = Instant::now();
    loop {
        let changes = documents.document_changes(items.seen(), PAGE).await?;
        let is_whole = changes.len() < PAGE;
        let reading = changes.into_iter().map(|change| async move {
            let read = read_changed(store, &change).await?;
            Ok::<_, StoreError>((change, read))
        });
        let read: Vec<_> =
            futures_util::stream::iter(reading).buffered(AT_ONCE).try_collect().await?;
        let names: Vec<_> = read.iter().map(|(change, _)| Arc::clone(&change.name)).collect();
        if !names.is_empty() {
            items.apply(read);
            tracing::info!(?names, "documents of the store were read");
        }
        if is_whole {
            items.looked_at(begun);
            return Ok(());
        }
    }
}

async fn read_changed(
    store: &Arc<dyn Store>,
    change: &DocumentChange,
) -> Result<ReadDocument, StoreError> {
    let Some(version) = change.version else { return Ok(ReadDocument::Removed) };
    let found = match store.require_documents()?.document(&change.name, Some(version)).await {
        Ok(found) => found,
        // One damaged text must not hide the other documents.
        Err(error) if error.kind() == StoreErrorKind::Damaged => {
            tracing::error!(name = %change.name, version, %error, "a stored document is damaged");
            None
        }
        Err(error) => return Err(error),
    };
    let Some(stored) = found else { return Ok(ReadDocument::Missing) };
    let read = tokio::task::spawn_blocking(move || read_stored(&stored)).await;
    match read.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) {
        Ok(document) => Ok(ReadDocument::Readable(Box::new(document))),
        Err(error) => {
            tracing::warn!(name = %change.name, version, %error, "a stored document cannot be used");
            Ok(ReadDocument::Unreadable(error))
        }
    }
}

/// Reads the text of a version.
pub(crate) fn read_stored(stored: &StoredDocument) -> Result<Document, DocumentError> {
    let name = Arc::clone(&stored.record.name);
    let document = Document::read(name, Arc::clone(&stored.text))?;
    Ok(document.with_version(stored.record.to_version()))
}
