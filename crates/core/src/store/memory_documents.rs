//! The documents of a [`MemoryStore`].

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;

use super::document_record::{
    DocumentChange, DocumentCommit, DocumentRecord, DocumentWrite, ExpectedVersion, StoredDocument,
};
use super::{DocumentStore, MemoryStore, StoreError};

/// Documents in memory.
#[derive(Default)]
pub(super) struct MemoryDocuments {
    names: BTreeMap<Arc<str>, NamedDocument>,
    /// Number of changes of all documents.
    changes: u64,
}

/// The versions of a name.
#[derive(Default)]
struct NamedDocument {
    /// Version `n` is at `n - 1`.
    versions: Vec<StoredVersion>,
    is_removed: bool,
    /// Number of the last change.
    change: u64,
}

struct StoredVersion {
    record: DocumentRecord,
    text: Arc<str>,
}

impl NamedDocument {
    fn current(&self) -> Option<&StoredVersion> {
        self.versions.last().filter(|_| !self.is_removed)
    }

    fn current_version(&self) -> Option<u64> {
        self.current().map(|version| version.record.version)
    }
}

impl MemoryDocuments {
    fn put(&mut self, write: &DocumentWrite, expected: ExpectedVersion) -> DocumentCommit {
        let current = self.names.get(write.name()).and_then(NamedDocument::current_version);
        if !expected.admits(current) {
            return DocumentCommit::Conflict { current };
        }
        self.changes += 1;
        let named = self.names.entry(Arc::clone(write.name())).or_default();
        let record = write.record(named.versions.len() as u64 + 1);
        let text = Arc::clone(write.text());
        named.versions.push(StoredVersion { record: record.clone(), text });
        (named.is_removed, named.change) = (false, self.changes);
        DocumentCommit::Done(record)
    }

    fn remove(&mut self, name: &str, expected: ExpectedVersion) -> DocumentCommit {
        let Some(named) = self.names.get_mut(name) else {
            return DocumentCommit::Conflict { current: None };
        };
        let current = named.current_version();
        let Some(version) = named.current().filter(|_| expected.admits(current)) else {
            return DocumentCommit::Conflict { current };
        };
        let record = version.record.clone();
        self.changes += 1;
        (named.is_removed, named.change) = (true, self.changes);
        DocumentCommit::Done(record)
    }

    fn find(&self, name: &str, version: Option<u64>) -> Option<&StoredVersion> {
        let named = self.names.get(name)?;
        match version {
            None => named.current(),
            Some(number) => named.versions.get(usize::try_from(number.checked_sub(1)?).ok()?),
        }
    }
}

#[async_trait]
impl DocumentStore for MemoryStore {
    async fn put_document(
        &self,
        write: DocumentWrite,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        Ok(self.runs().documents.put(&write, expected))
    }

    async fn remove_document(
        &self,
        name: &str,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        Ok(self.runs().documents.remove(name, expected))
    }

    async fn document(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<StoredDocument>, StoreError> {
        let runs = self.runs();
        let found = runs.documents.find(name, version);
        found.map(|of| StoredDocument::new(of.record.clone(), Arc::clone(&of.text))).transpose()
    }

    async fn list_documents(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        let runs = self.runs();
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = runs.documents.names.range::<str, _>((after, Bound::Unbounded));
        let current = names.filter_map(|(_, named)| Some(named.current()?.record.clone()));
        Ok(current.take(limit).collect())
    }

    async fn document_versions(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        let runs = self.runs();
        let versions = runs.documents.names.get(name).map_or(&[][..], |named| &named.versions);
        let records = versions.iter().rev().map(|version| &version.record);
        let older = records.filter(|record| before.is_none_or(|before| record.version < before));
        Ok(older.take(limit).cloned().collect())
    }

    async fn document_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DocumentChange>, StoreError> {
        let runs = self.runs();
        let changed = runs.documents.names.iter().filter(|(_, named)| named.change > after);
        let mut changes: Vec<DocumentChange> = changed
            .map(|(name, named)| {
                DocumentChange::new(named.change, Arc::clone(name), named.current_version())
            })
            .collect();
        changes.sort_by_key(|change| change.number);
        changes.truncate(limit);
        Ok(changes)
    }
}
