//! [`Documents::reload`] reads the documents of folders again. New runs use the new
//! versions. `versions.rs` keeps each existing run at the version with which it started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::document::{Document, DocumentError, FolderError};
use crate::run::Host;
use crate::runtime::Runtime;
use crate::runtime::catalogue::registered_items::{RegisteredItems, registered_now};
use crate::runtime::catalogue::unusable_item::unusable;
use crate::runtime::documents::documents_handle::Documents;
use crate::runtime::documents::refresh::refresh_if_old;
use crate::runtime::documents::registered::{Unread, unread_of};
use crate::runtime::documents::set::{
    DocumentSet, DocumentsByFile, FileStamps, LoadedDocuments, models,
};

/// Result of [`Documents::reload`]. The lists are ordered by name.
#[derive(Clone, Debug, Default)]
#[must_use = "`errors` says which documents were left as they were"]
#[non_exhaustive]
pub struct Reloaded {
    /// Names of new workflows.
    pub added: Vec<Arc<str>>,
    /// Names of workflows whose documents have changed.
    pub changed: Vec<Arc<str>>,
    /// Names of workflows that do not exist any more.
    pub removed: Vec<Arc<str>>,
    /// All errors in documents. The previous version of such a document is kept, and a new document
    /// is ignored. This includes errors in unchanged documents that are caused by changes of other
    /// documents.
    pub errors: Vec<DocumentError>,
}

/// Result of reading the folders.
struct FolderContents {
    /// Documents by file: the current version, or the previous one if the file has an error now.
    documents: DocumentsByFile,
    errors: Vec<DocumentError>,
    stamps: FileStamps,
}

impl Documents<'_> {
    /// Reads the documents of the runtime's
    /// [folders](crate::runtime::RuntimeBuilder::document_folder) again. New documents become
    /// known, documents of deleted files are removed, and new runs use the versions that were read.
    /// If a document has an error, for example an unresolved name, its previous version is kept.
    /// All changes take effect atomically. Concurrent calls are executed one after another.
    ///
    /// A run that has started continues with its version, also after a restart: the store keeps the
    /// documents of each run, and [`recover`](crate::Runtime::recover) and
    /// [`RunRef::resume`](crate::runtime::RunRef::resume) build the workflow from them if the
    /// runtime has a different version or none. With
    /// [`Changes::AcceptAll`](crate::runtime::Changes::AcceptAll), such a run continues with the
    /// current version of the runtime.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    /// [`FolderError::Io`] if a folder cannot be listed; in this case nothing changes. Errors in
    /// documents are returned in [`Reloaded::errors`].
    #[doc(alias = "reload_documents")]
    pub async fn reload(self) -> Result<Reloaded, FolderError> {
        let Some(set) = self.0.host().part::<DocumentSet>() else { return Ok(Reloaded::default()) };
        let _alone = set.reloading.lock().await;
        let before = set.loaded().documents;
        let (folders, known) = (set.folders.clone(), Arc::clone(&before));
        let reading = tokio::task::spawn_blocking(move || read(&folders, &known));
        let read =
            reading.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        let FolderContents { mut documents, mut errors, stamps } = read;
        let mut unread = unread_of(&errors);
        // Each round removes at least one changed document with an error. The others are checked
        // again, since they may refer to it.
        let candidate = loop {
            resolve_duplicate_names(set, &mut documents, &before, &mut errors);
            let candidate = self.with_given(set, &documents, &unread);
            let mut is_whole = true;
            for file in changed(&documents, &before) {
                let Some(document) = documents.get(&file) else { continue };
                let checked = match candidate.documents().check(document).await {
                    Ok(()) => candidate.documents().check_names(document).await,
                    wrong => wrong,
                };
                if let Err(error) = checked {
                    unread.extend(
                        document
                            .describes()
                            .into_iter()
                            .map(|of| (of, Arc::clone(document.source().name()))),
                    );
                    errors.push(error);
                    restore_previous(&file, &mut documents, &before);
                    is_whole = false;
                }
            }
            if is_whole {
                break candidate;
            }
        };
        // Adds unresolved names to the errors of unreadable documents, so that one pass reports
        // everything.
        for error in &mut errors {
            *error = candidate.documents().check_readable_parts(error.clone()).await;
        }
        for (file, document) in
            documents.iter().filter(|(file, document)| is_same(document, before.get(*file)))
        {
            // The unchanged document was valid, but an item that it names may have been removed.
            if let Err(error) = candidate.documents().check(document).await
                && !errors.iter().any(|other| *other.name() == **file)
            {
                errors.push(error);
            }
        }
        errors.sort_by(|one, other| one.name().cmp(other.name()));
        let reloaded = compared(&before, &documents, errors);
        let errors = reloaded.errors.as_slice().into();
        set.set_loaded(LoadedDocuments { documents: Arc::new(documents), stamps, errors });
        if let Some(now) = self.0.host().part::<RegisteredItems>() {
            now.replace(registered_now(candidate.host()));
        }
        let Reloaded { added, changed, removed, errors } = &reloaded;
        for error in errors {
            tracing::warn!(%error, "a document has mistakes, and its former version stays");
        }
        tracing::info!(?added, ?changed, ?removed, mistaken = errors.len(), "documents were read");
        Ok(reloaded)
    }

    /// Reads the documents of the store and then the folders, whose documents may call them.
    pub(crate) async fn reload_with_stored(self) -> Result<Reloaded, FolderError> {
        if let Err(error) = refresh_if_old(self.0).await {
            tracing::warn!(%error, "documents of folders are read without documents of the store");
        }
        self.reload().await
    }

    /// Checks that the workflows of a document can be started by name: no other workflow may have
    /// the same name.
    pub(super) async fn check_names(self, document: &Document) -> Result<(), DocumentError> {
        for graph in document.graphs() {
            if let Err(error) = self.0.catalogue().fetched_workflow_spec(&graph.name).await {
                let found = unusable("workflow", &graph.name, &error);
                return Err(document.source().error(vec![found.at_pointer("")]));
            }
        }
        Ok(())
    }

    /// Returns the runtime as it would be with these documents in its folders.
    fn with_given(
        self,
        set: &DocumentSet,
        documents: &DocumentsByFile,
        unread: &[Unread],
    ) -> Runtime {
        let mut host = Host::clone(self.0.host());
        let mut given = set.given_with(documents, models(self.0.host()));
        given.unread.extend_from_slice(unread);
        host.set_part(RegisteredItems::new(given));
        Runtime(Arc::new(host))
    }

    /// Polls the sizes and modification times of the documents in the runtime's
    /// [folders](crate::runtime::RuntimeBuilder::document_folder) at the interval `every`, at least
    /// 100 ms. [Reloads](Self::reload) all documents if one was changed, added or removed, and
    /// passes the result to `on_reload`. A change that preserves the size and time of a file is not
    /// noticed. The watch keeps the runtime alive until it is dropped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[doc(alias = "watch_documents")]
    pub fn watch(
        self,
        every: Duration,
        mut on_reload: impl FnMut(Result<Reloaded, FolderError>) + Send + 'static,
    ) -> DocumentWatch {
        let (runtime, every) = (self.0.clone(), every.max(SHORTEST));
        DocumentWatch(tokio::spawn(async move {
            let Some(set) = runtime.host().part::<DocumentSet>() else { return };
            // The stamps of a folder that could not be listed differ, so its error is reported
            // once.
            let mut seen = set.loaded().stamps;
            loop {
                tokio::time::sleep(every).await;
                let folders = set.folders.clone();
                let look = tokio::task::spawn_blocking(move || {
                    folders.iter().map(|folder| stamps_of(folder)).collect()
                });
                let Ok(now) = look.await else { return };
                if now != seen && now != set.loaded().stamps {
                    on_reload(runtime.documents().reload().await);
                }
                seen = now;
            }
        }))
    }
}

fn read(folders: &[PathBuf], before: &DocumentsByFile) -> Result<FolderContents, FolderError> {
    let (mut documents, mut errors, mut stamps) =
        (DocumentsByFile::new(), Vec::new(), FileStamps::new());
    for folder in folders {
        // Taken before the files are read, so that a write during the reading is noticed next time.
        stamps.push(stamps_of(folder));
        for path in Document::paths_in(folder)? {
            let file: Arc<str> = path.display().to_string().into();
            let known = before.get(&file).cloned();
            match (Document::open_in(folder, &path), known) {
                (Ok(now), Some(known)) if now.source().text() == known.source().text() => {
                    documents.insert(file, known);
                }
                (Ok(now), _) => drop(documents.insert(file, now)),
                (Err(error), known) => {
                    errors.push(error);
                    documents.extend(known.map(|known| (file, known)));
                }
            }
        }
    }
    Ok(FolderContents { documents, errors, stamps })
}

/// `true` if a document is unchanged.
fn is_same(document: &Document, before: Option<&Document>) -> bool {
    before.is_some_and(|before| Arc::ptr_eq(before.source(), document.source()))
}

/// Returns the files whose documents have changed.
fn changed(documents: &DocumentsByFile, before: &DocumentsByFile) -> Vec<Arc<str>> {
    let changed = documents.iter().filter(|(file, document)| !is_same(document, before.get(*file)));
    changed.map(|(file, _)| Arc::clone(file)).collect()
}

fn restore_previous(file: &Arc<str>, documents: &mut DocumentsByFile, before: &DocumentsByFile) {
    match before.get(file) {
        Some(former) => drop(documents.insert(Arc::clone(file), former.clone())),
        None => drop(documents.remove(file)),
    }
}

/// Resolves duplicate names by restoring the previous version of the changed document. Terminates
/// because each round reduces the number of changed documents.
fn resolve_duplicate_names(
    set: &DocumentSet,
    documents: &mut DocumentsByFile,
    before: &DocumentsByFile,
    errors: &mut Vec<DocumentError>,
) {
    loop {
        let mut names: BTreeMap<&str, (Option<&Arc<str>>, &Document)> =
            set.fixed().map(|document| (document.name(), (None, document))).collect();
        let mut wrong = None;
        for (file, document) in &*documents {
            let Some((other_file, other)) = names.insert(document.name(), (Some(file), document))
            else {
                continue;
            };
            let this_is_new = !is_same(document, before.get(file));
            wrong = match other_file {
                Some(other_file) if !this_is_new => {
                    Some((Arc::clone(other_file), other.same_name(document)))
                }
                _ => Some((Arc::clone(file), document.same_name(other))),
            };
            break;
        }
        let Some((file, error)) = wrong else { return };
        errors.push(error);
        let was = documents.get(&file).map(|document| Arc::as_ptr(document.source()));
        restore_previous(&file, documents, before);
        if documents.get(&file).map(|document| Arc::as_ptr(document.source())) == was {
            // The duplicate existed before, so restoring the previous version did not help.
            documents.remove(&file);
        }
    }
}

fn compared(
    before: &DocumentsByFile,
    now: &DocumentsByFile,
    errors: Vec<DocumentError>,
) -> Reloaded {
    let by_name = |documents: &DocumentsByFile| -> BTreeMap<Arc<str>, Arc<str>> {
        documents.values().map(|document| (document.name().into(), document.hash())).collect()
    };
    let (before, now) = (by_name(before), by_name(now));
    let only = |one: &BTreeMap<Arc<str>, Arc<str>>, other: &BTreeMap<Arc<str>, Arc<str>>| {
        one.keys().filter(|name| !other.contains_key(*name)).cloned().collect::<Vec<_>>()
    };
    let differs =
        |name: &&Arc<str>| before.get(*name).is_some_and(|hash| now.get(*name) != Some(hash));
    Reloaded {
        added: only(&now, &before),
        changed: now.keys().filter(differs).cloned().collect(),
        removed: only(&before, &now),
        errors,
    }
}

/// Minimum polling interval.
const SHORTEST: Duration = Duration::from_millis(100);

/// Watches the folders of a runtime until it is dropped: see [`Documents::watch`].
#[derive(Debug)]
#[must_use = "dropping it ends the watching"]
pub struct DocumentWatch(JoinHandle<()>);

impl Drop for DocumentWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the paths, sizes and modification times of the documents in a folder.
pub(crate) fn stamps_of(folder: &Path) -> <FileStamps as IntoIterator>::Item {
    let paths = Document::paths_in(folder).ok()?;
    let stamp = |path: PathBuf| {
        let about = std::fs::metadata(&path).ok()?;
        Some((path, about.len(), about.modified().ok()))
    };
    Some(paths.into_iter().filter_map(stamp).collect())
}
