//! The documents of the store that a runtime has read, and the named items of a runtime together
//! with them. `refresh` reads the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::document::{Document, DocumentError};
use crate::error::{Error, RegistryError};
use crate::run::Host;
use crate::runtime::catalogue::lookup::Given;
use crate::runtime::catalogue::registered_items::AddedItems;
use crate::runtime::documents::refresh::refresh_if_old;
use crate::runtime::documents::registered::{unread_of, with_documents};
use crate::runtime::documents::set::models;
use crate::store::DocumentChange;
use crate::workflow::ReferenceKind;
use crate::workflow::linked_workflow::linked;

/// Documents of a store, as read last. A runtime with another store has others.
///
/// Documents of the program and of folders are in `RegisteredItems`. A stored document whose name is
/// the name of a workflow there is ignored.
#[derive(Default)]
pub(crate) struct StoredItems {
    read: Mutex<ReadDocuments>,
    /// The items of the last request, since most requests find nothing changed.
    combined: Mutex<Option<CombinedItems>>,
    /// Held while the store is read.
    pub(crate) refreshing: tokio::sync::Mutex<()>,
}

/// The documents that were read.
#[derive(Clone, Default)]
struct ReadDocuments {
    documents: BTreeMap<Arc<str>, Document>,
    /// Documents that this release or this program cannot read.
    errors: BTreeMap<Arc<str>, DocumentError>,
    /// Number of the last change of the store that is included.
    seen: u64,
    /// Time of the last look at the store.
    looked: Option<Instant>,
    /// Incremented with each change.
    generation: u64,
}

struct CombinedItems {
    base: Arc<Given>,
    generation: u64,
    items: Arc<Given>,
}

/// A changed document, as read from the store.
pub(crate) enum ReadDocument {
    Readable(Box<Document>),
    Unreadable(DocumentError),
    /// The store could not return its text.
    Missing,
    Removed,
}

impl StoredItems {
    /// Sets the documents of a host, and adds them to its items.
    pub(crate) fn put_into(self, host: &mut Host) {
        host.set_part(self);
        host.set_part(AddedItems {
            add: |host, base| match host.part::<Self>() {
                Some(items) => items.combined_with(host, base),
                None => base,
            },
            refresh: |runtime| Box::pin(refresh_if_old(runtime)),
        });
    }

    fn read(&self) -> MutexGuard<'_, ReadDocuments> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the last change of the store that was read.
    pub(crate) fn seen(&self) -> u64 {
        self.read().seen
    }

    /// Returns `true` if the store was read at or after this time.
    pub(crate) fn looked_since(&self, time: Instant) -> bool {
        self.read().looked.is_some_and(|looked| looked >= time)
    }

    /// Notes that the store was read at this time.
    pub(crate) fn looked_at(&self, time: Instant) {
        let mut read = self.read();
        read.looked = read.looked.max(Some(time));
    }

    /// Applies changes of the store.
    pub(crate) fn apply(&self, changes: Vec<(DocumentChange, ReadDocument)>) {
        let mut read = self.read();
        for (change, document) in changes {
            read.documents.remove(&change.name);
            read.errors.remove(&change.name);
            read.seen = read.seen.max(change.number);
            read.generation += 1;
            match document {
                ReadDocument::Readable(document) => {
                    read.documents.insert(change.name, *document);
                }
                ReadDocument::Unreadable(error) => drop(read.errors.insert(change.name, error)),
                ReadDocument::Missing | ReadDocument::Removed => {}
            }
        }
    }

    /// Returns `true` if a document describes a workflow or an agent with this name.
    fn describes(&self, name: &str) -> bool {
        let read = self.read();
        let describes = |document: &Document| {
            let own = name.strip_prefix(document.name()).and_then(|rest| rest.strip_prefix('.'));
            document.graphs().any(|graph| graph.name == name)
                || document.agents().any(|agent| agent == name || Some(agent) == own)
        };
        read.errors.contains_key(name) || read.documents.values().any(describes)
    }

    /// Returns a copy in which a document replaces the stored one of its name.
    pub(crate) fn with(&self, document: &Document) -> Self {
        let mut read = self.read().clone();
        read.errors.remove(document.name());
        read.documents.insert(document.name().into(), document.clone());
        Self { read: Mutex::new(read), ..Self::default() }
    }

    /// Returns the named items of a host: `base`, which are the items of the program and of folders,
    /// and the stored documents.
    fn combined_with(&self, host: &Host, base: Arc<Given>) -> Arc<Given> {
        let (documents, errors, generation) = {
            let read = self.read();
            if read.documents.is_empty() && read.errors.is_empty() {
                return base;
            }
            if let Some(last) = &*self.last()
                && last.generation == read.generation
                && Arc::ptr_eq(&last.base, &base)
            {
                return Arc::clone(&last.items);
            }
            (read.documents.clone(), read.errors.clone(), read.generation)
        };
        let mut given = Given::clone(&base);
        // A graph of a folder may call a workflow of the store.
        given.graphs.iter_mut().for_each(|(graph, _)| *graph = graph.unread());
        given.unread.extend(unread_of(errors.values()));
        for name in errors.keys() {
            // The text may be so wrong that it names no workflow.
            given.unread.push(((ReferenceKind::Workflow, name.to_string()), Arc::clone(name)));
        }
        let mut added = Vec::new();
        for document in documents.values() {
            match has_workflow(&base, document.name()) {
                false => added.push(document),
                true => tracing::warn!(
                    name = document.name(),
                    "a stored document is ignored, since the program has a workflow with its name"
                ),
            }
        }
        let items = Arc::new(with_documents(given, added, models(host)));
        let combined = CombinedItems { base, generation, items: Arc::clone(&items) };
        *self.last() = Some(combined);
        items
    }

    fn last(&self) -> MutexGuard<'_, Option<CombinedItems>> {
        self.combined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if an error concerns a workflow or an agent that a stored document describes.
pub(crate) fn is_of_stored_document(host: &Host, error: &Error) -> bool {
    let name = match error {
        Error::Build { name, .. } => name,
        Error::Registry(RegistryError::InvalidSchema { name, .. }) => name,
        _ => return false,
    };
    host.part::<StoredItems>().is_some_and(|items| items.describes(name))
}

/// Returns `true` if the items of the program and of folders contain a workflow with this name.
pub(crate) fn has_workflow(base: &Given, name: &str) -> bool {
    base.workflows.iter().any(|(spec, _)| *spec.name == *name)
        || base.graphs.iter().any(|(graph, _)| graph.graph.name == name)
        || linked().names().any(|linked| linked == name)
}
