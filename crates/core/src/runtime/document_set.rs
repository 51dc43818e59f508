//! The documents of a runtime: those it was given, those of its folders, and what of the program they are made with. It
//! reads no file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::catalogue::Given;
use super::given_documents::{Unread, with_documents};
use super::given_now::GivenNow;
use crate::agent::AgentModels;
use crate::document::{Document, DocumentError, included};
use crate::error::Result;
use crate::run::Host;

/// Documents by the names of their files.
pub(super) type ByFile = BTreeMap<Arc<str>, Document>;

/// Sizes and times of the files in a folder, by which a change is noticed; `None` for one that cannot be listed.
pub(super) type Stamps = Vec<Option<Vec<(PathBuf, u64, Option<SystemTime>)>>>;

/// What the documents of a runtime are made of, shared by all that is made of the runtime.
#[derive(Default)]
pub(super) struct DocumentsOfRuntime {
    /// What the program gave beside documents.
    program: Mutex<Given>,
    given: Vec<Document>,
    /// What the command line read that has problems.
    unread: Vec<Unread>,
    pub(super) folders: Vec<PathBuf>,
    loaded: Mutex<Loaded>,
    /// Held while documents are read again.
    pub(super) reloading: tokio::sync::Mutex<()>,
}

/// What was read from the folders.
#[derive(Clone, Default)]
pub(super) struct Loaded {
    pub(super) documents: Arc<ByFile>,
    pub(super) stamps: Stamps,
    /// What was wrong with them.
    pub(super) errors: Arc<[DocumentError]>,
}

impl DocumentsOfRuntime {
    pub(super) fn new(program: Given, given: Vec<Document>, folders: Vec<PathBuf>) -> Self {
        Self { program: Mutex::new(program), given, folders, ..Self::default() }
    }

    /// A copy of what a host has.
    #[cfg(feature = "cli")]
    pub(super) fn of(host: &Host) -> Self {
        let Some(of) = host.part::<Self>() else { return Self::default() };
        let loaded = Mutex::new(of.loaded());
        let unread = of.unread.clone();
        Self { loaded, unread, ..Self::new(of.program().clone(), of.given.clone(), of.folders.clone()) }
    }

    /// With these documents, too, and those that could not be read.
    #[cfg(feature = "cli")]
    pub(super) fn beside(mut self, documents: &[Document], unread: Vec<Unread>) -> Self {
        self.given.extend_from_slice(documents);
        self.unread.extend(unread);
        self
    }

    pub(super) fn loaded(&self) -> Loaded {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_loaded(&self, loaded: Loaded) {
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// The documents that belong to no folder: those in the program and those that were given.
    pub(super) fn fixed(&self) -> impl Iterator<Item = &Document> {
        included().iter().chain(&self.given)
    }

    /// All documents.
    #[cfg(feature = "cli")]
    pub(super) fn all(&self) -> impl Iterator<Item = Document> {
        let loaded = self.loaded().documents;
        let of_folders: Vec<Document> = loaded.values().cloned().collect();
        self.fixed().cloned().chain(of_folders)
    }

    /// All that a runtime has with these documents of its folders. What names refer to is looked up anew.
    pub(super) fn given_with(&self, documents: &ByFile, models: &AgentModels) -> Given {
        let all = self.fixed().chain(documents.values());
        Given { unread: self.unread.clone(), ..with_documents(self.program_anew(), all, models) }
    }

    /// The same with these documents alone.
    pub(super) fn given_with_only<'d>(
        &self,
        documents: impl IntoIterator<Item = &'d Document>,
        models: &AgentModels,
    ) -> Given {
        with_documents(self.program_anew(), documents, models)
    }

    fn program(&self) -> MutexGuard<'_, Given> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the program's part, or leaves it unchanged after an error.
    pub(super) fn change_program(&self, change: impl FnOnce(&mut Given) -> Result<()>) -> Result<()> {
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

    /// Makes a host know what these are.
    pub(super) fn put_into(self, host: &mut Host) {
        let given = self.given_with(&self.loaded().documents, models(host));
        host.set_part(GivenNow::new(given).changing(!self.folders.is_empty()));
        host.set_part(self);
    }
}

/// The models that agents of a host have in place of their own.
pub(super) fn models(host: &Host) -> &AgentModels {
    static NONE: AgentModels = AgentModels::NONE;
    host.part::<AgentModels>().unwrap_or(&NONE)
}
