//! Registers documents with a runtime. They are read by other modules.

use std::path::Path;

use crate::document::Document;
#[cfg(doc)]
use crate::runtime::Runtime;
use crate::runtime::builder::runtime_builder::RuntimeBuilder;

impl RuntimeBuilder {
    /// Registers the workflow of a document, and the agents that it describes, under their names.
    /// Tools, agents and workflows that it refers to may be registered before or after. An agent of
    /// a document uses the replacement [model](Self::model) of the runtime, like an `#[agent]`.
    ///
    /// Unresolved names in it are reported together, with line and column, when the workflow is
    /// used, and as a problem of the
    /// [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
    /// [`Documents::check`](crate::runtime::Documents::check) checks a document explicitly.
    pub fn document(mut self, document: Document) -> Self {
        self.documents.push(document);
        self
    }

    /// Registers several documents, for example from a [folder](Document::read_folder).
    pub fn documents(self, documents: impl IntoIterator<Item = Document>) -> Self {
        documents.into_iter().fold(self, Self::document)
    }

    /// Adds a folder of documents, whose files may change while the program runs. Several folders
    /// may be added. [`boot`](Self::boot) and
    /// [`Documents::reload`](crate::runtime::Documents::reload) read them;
    /// [`build`](Self::build) alone reads nothing.
    /// [`Document::read_folder`](crate::document::Document::read_folder) describes which files are
    /// documents.
    #[doc(alias = "discover")]
    pub fn document_folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folders.push(folder.as_ref().to_owned());
        self
    }
}
