//! What a runtime is given as documents. It reads none.

use std::path::Path;

#[cfg(doc)]
use super::Runtime;
use super::runtime_builder::RuntimeBuilder;
use crate::document::Document;

impl RuntimeBuilder {
    /// Makes the workflow of a document, and the agents that it describes, known by their names. Tools, agents and workflows
    /// that it names may be given before or after; an agent of a document is asked with the [model](Self::model) that the
    /// runtime has in place of others, as an `#[agent]` is.
    ///
    /// What is wrong with the names in it is an error where the workflow is used and a problem of the
    /// [`catalogue`](Runtime::catalogue), all of it at once with line and column; [`Runtime::check`] asks for it.
    pub fn document(mut self, document: Document) -> Self {
        self.documents.push(document);
        self
    }

    /// The same of several, such as those of a [folder](Document::read_folder).
    pub fn documents(self, documents: impl IntoIterator<Item = Document>) -> Self {
        documents.into_iter().fold(self, Self::document)
    }

    /// The documents of a folder, which may change while the program runs; several folders may be given.
    /// [`boot`](Self::boot) reads them, and [`Runtime::reload_documents`](super::Runtime::reload_documents) does whenever it
    /// is called; [`build`](Self::build) alone reads nothing. Which files are documents, says
    /// [`Document::read_folder`](crate::document::Document::read_folder).
    #[doc(alias = "discover")]
    pub fn document_folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folders.push(folder.as_ref().to_owned());
        self
    }
}
