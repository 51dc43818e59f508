//! The documents of a runtime: registered documents, documents of folders, and the items of the
//! program to which they refer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::agent::AgentModels;
use crate::document::{Document, DocumentError, included};
use crate::error::Result;
use crate::run::Host;
use crate::runtime::catalogue::lookup::Given;
use crate::runtime::catalogue::registered_items::RegisteredItems;
use crate::runtime::documents::registered::{Unread, with_documents};

/// Documents by file name.
pub(crate) type DocumentsByFile = BTreeMap<Arc<str>, Document>;

/// Path, size and modification time of each file in a folder, to detect changes. `None` for a
/// folder that cannot be listed.
pub(crate) type FileStamps = Vec<Option<Vec<(PathBuf, u64, Option<SystemTime>)>>>;

/// The documents of a runtime, shared by all clones of the runtime.
#[derive(Default)]
pub(crate) struct DocumentSet {
    /// Items that the program registered in addition to documents.
    program: Mutex<Given>,
    given: Vec<Document>,
    /// Items of documents with errors that the command line has read.
    unread: Vec<Unread>,
    pub(crate) folders: Vec<PathBuf>,
    loaded: Mutex<LoadedDocuments>,
    /// Held while documents are reloaded.
    pub(crate) reloading: tokio::sync::Mutex<()>,
}

/// The documents of folders, as read last.
#[derive(Clone, Default)]
pub(crate) struct LoadedDocuments {
    pub(crate) documents: Arc<DocumentsByFile>,
    pub(crate) stamps: FileStamps,
    /// Errors in these documents.
    pub(crate) errors: Arc<[DocumentError]>,
}

impl DocumentSet {
    pub(crate) fn new(program: Given, given: Vec<Document>, folders: Vec<PathBuf>) -> Self {
        Self { program: Mutex::new(program), given, folders, ..Self::default() }
    }

    /// Returns a copy of a host's documents.
    pub(crate) fn from_host(host: &Host) -> Self {
        let Some(of) = host.part::<Self>() else { return Self::default() };
        let loaded = Mutex::new(of.loaded());
        let unread = of.unread.clone();
        Self {
            loaded,
            unread,
            ..Self::new(of.program().clone(), of.given.clone(), of.folders.clone())
        }
    }

    /// Adds documents, and items of documents with errors.
    pub(crate) fn beside(mut self, documents: &[Document], unread: Vec<Unread>) -> Self {
        self.given.extend_from_slice(documents);
        self.unread.extend(unread);
        self
    }

    pub(crate) fn loaded(&self) -> LoadedDocuments {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_loaded(&self, loaded: LoadedDocuments) {
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// Returns the documents that do not belong to a folder: included in the program or registered.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = &Document> {
        included().iter().chain(&self.given)
    }

    /// Returns all documents.
    pub(crate) fn all(&self) -> impl Iterator<Item = Document> {
        let loaded = self.loaded().documents;
        let of_folders: Vec<Document> = loaded.values().cloned().collect();
        self.fixed().cloned().chain(of_folders)
    }

    /// Returns the items of a runtime with these documents in its folders. All names are resolved
    /// again.
    pub(crate) fn given_with(&self, documents: &DocumentsByFile, models: &AgentModels) -> Given {
        let all = self.fixed().chain(documents.values());
        Given { unread: self.unread.clone(), ..with_documents(self.program_anew(), all, models) }
    }

    /// Returns the items of a runtime with only these documents.
    pub(crate) fn given_with_only<'d>(
        &self,
        documents: impl IntoIterator<Item = &'d Document>,
        models: &AgentModels,
    ) -> Given {
        with_documents(self.program_anew(), documents, models)
    }

    fn program(&self) -> MutexGuard<'_, Given> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the items of the program. After an error they remain unchanged.
    pub(crate) fn change_program(
        &self,
        change: impl FnOnce(&mut Given) -> Result<()>,
    ) -> Result<()> {
        let mut program = self.program();
        let mut changed = program.clone();
        change(&mut changed)?;
        *program = changed;
        Ok(())
    }

    fn program_anew(&self) -> Given {
        let mut program = self.program().clone();
        program.graphs.iter_mut().for_each(|(graph, _)| *graph = graph.unread());
        program
    }

    /// Registers the documents and their items with a host.
    pub(crate) fn put_into(self, host: &mut Host) {
        let given = self.given_with(&self.loaded().documents, models(host));
        host.set_part(RegisteredItems::new(given).changing(!self.folders.is_empty()));
        host.set_part(self);
    }
}

/// Returns the models that replace the models of a host's agents.
pub(crate) fn models(host: &Host) -> &AgentModels {
    static NONE: AgentModels = AgentModels::NONE;
    host.part::<AgentModels>().unwrap_or(&NONE)
}
