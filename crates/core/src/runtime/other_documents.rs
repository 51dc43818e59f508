//! Copies of a runtime with other documents, for the command line.

use std::sync::Arc;

use super::Runtime;
use super::document_set::{DocumentSet, models};
use super::given_documents::unread_of;
use super::given_now::RegisteredItems;
use crate::definition::Known;
use crate::document::{Document, DocumentError};
use crate::error::Result;
use crate::run::Host;

impl Runtime {
    /// Returns the runtime with additional documents. `unread` are errors of documents that these
    /// may refer to.
    #[doc(hidden)]
    pub fn with_documents<'e>(
        &self,
        documents: &[Document],
        unread: impl IntoIterator<Item = &'e DocumentError>,
    ) -> Self {
        let mut host = Host::clone(self.host());
        DocumentSet::from_host(&host).beside(documents, unread_of(unread)).put_into(&mut host);
        super::runtime_builder::set_name_lookups(&mut host);
        Self(Arc::new(host))
    }

    /// Returns the runtime with this document instead of its document with the same name.
    #[doc(hidden)]
    pub fn with_only_document(&self, document: &Document) -> Self {
        let mut host = Host::clone(self.host());
        let (set, models) = (DocumentSet::from_host(&host), models(self.host()));
        let others: Vec<Document> =
            set.all().filter(|other| other.name() != document.name()).collect();
        let given = set.given_with_only(others.iter().chain([document]), models);
        host.set_part(RegisteredItems::new(given));
        Self(Arc::new(host))
    }

    /// Returns the definition hash of a workflow, and its parts.
    #[doc(hidden)]
    pub async fn definition_of(&self, name: &str) -> Result<(Arc<str>, Arc<Known>)> {
        let spec = self.fetched_workflow_spec(name).await?;
        Ok((Arc::clone(spec.hash()), Arc::clone(spec.parts())))
    }
}
