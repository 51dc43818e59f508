//! [`StoreLayer`]: a wrapper of a store. Its methods forward to the inner store by default.

use std::fmt;

use async_trait::async_trait;

use super::{
    Append, ArtifactStore, DocumentStore, Epoch, EventFilter, LeaseStore, MessageStore, RunFilter,
    RunList, RunRecord, SessionStore, Snapshot, StateStore, Store, StoreError,
};
use crate::event::{Event, RunId};
use crate::future::BoxFuture;

/// A wrapper of another store, for metrics, encryption or fault injection.
///
/// Every method that the layer does not override forwards to [`inner`](Self::inner), including the
/// methods that have a default in [`Store`]. Every layer is a [`Store`]: pass it to
/// `Runtime::builder().store(..)`.
///
/// Override methods that belong together: `list`, `list_with_unreadable` and `count`; `create`,
/// `append` and `amend`, which all write events; `read`, `read_selected` and `snapshot`, which return
/// them. A layer that changes the events that it stores, for example to encrypt them, also restores
/// the records that `record`, `list`, `list_with_unreadable` and `claimable` return: they contain
/// the open questions. It may instead set [`RunRecord::questions`] to `None`, and the questions are
/// read from the journal. A layer that simulates another process overrides `identity`.
///
/// The inner store provides the optional parts. To change one, implement its trait for the
/// layer and return `Some(self)` from the method of the part, such as
/// [`artifacts`](Self::artifacts); the methods reach the part below through
/// [`require_artifacts`](trait.Store.html#method.require_artifacts) of the inner store. To hide
/// one, return `None`.
///
/// Both traits have the same methods. Import [`Store`], write `impl agentflow::store::StoreLayer for ..`, and call the
/// store below through [`inner`](Self::inner), as in the example: with both traits imported a call on a layer is
/// ambiguous.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use agentflow::{RunId, Runtime, async_trait};
/// use agentflow::store::{Append, Epoch, MemoryStore, Store, StoreError};
///
/// /// Counts the events that are appended.
/// #[derive(Debug)]
/// struct Counted<S> {
///     inner: S,
///     events: AtomicUsize,
/// }
///
/// #[async_trait]
/// impl<S: Store> agentflow::store::StoreLayer for Counted<S> {
///     fn inner(&self) -> &dyn Store {
///         &self.inner
///     }
///
///     async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
///         self.events.fetch_add(append.events.len(), Ordering::Relaxed);
///         self.inner().append(run, epoch, append).await
///     }
/// }
///
/// let store = Counted { inner: MemoryStore::new(), events: AtomicUsize::new(0) };
/// let runtime = Runtime::builder().store(store).build();
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "runs cannot be kept in this",
    note = "for a file, give `SqliteStore::open(path).await?` of `agentflow::store`, with the feature `sqlite`; for a test, \
            `MemoryStore::new()`",
    note = "a store of your own implements `Store`, one around another store `StoreLayer`"
)]
pub trait StoreLayer: Send + Sync + fmt::Debug + 'static {
    /// The inner store, which executes all methods that the layer does not override.
    fn inner(&self) -> &dyn Store;

    /// See [`Store::create`].
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        self.inner().create(run, events).await
    }

    /// See [`Store::open`].
    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        self.inner().open(run).await
    }

    /// See [`Store::append`].
    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.inner().append(run, epoch, append).await
    }

    /// See [`Store::amend`].
    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        self.inner().amend(run, after, events).await
    }

    /// See [`Store::read`].
    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.inner().read(run, after, limit).await
    }

    /// See [`Store::list`].
    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.inner().list(filter).await
    }

    /// See [`Store::close`].
    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        self.inner().close(run, epoch).await
    }

    /// See [`Store::record`].
    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.inner().record(run).await
    }

    /// See [`Store::claimable`].
    async fn claimable(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.inner().claimable(filter).await
    }

    /// See [`Store::runs_changed`].
    fn runs_changed(&self) -> BoxFuture<'static, ()> {
        self.inner().runs_changed()
    }

    /// See [`Store::list_with_unreadable`].
    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        self.inner().list_with_unreadable(filter).await
    }

    /// See [`Store::count`].
    async fn count(&self, filter: RunFilter) -> Result<u64, StoreError> {
        self.inner().count(filter).await
    }

    /// See [`Store::read_selected`].
    async fn read_selected(
        &self,
        run: &RunId,
        filter: &EventFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.inner().read_selected(run, filter, after, limit).await
    }

    /// See [`Store::put_snapshot`].
    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        self.inner().put_snapshot(run, epoch, snapshot).await
    }

    /// See [`Store::snapshot`].
    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        self.inner().snapshot(run).await
    }

    /// See [`Store::put_definition`].
    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        self.inner().put_definition(hash, graph).await
    }

    /// See [`Store::definition`].
    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        self.inner().definition(hash).await
    }

    /// See [`Store::identity`].
    fn identity(&self) -> Option<String> {
        self.inner().identity()
    }

    /// See [`Store::max_event_bytes`].
    fn max_event_bytes(&self) -> Option<u64> {
        self.inner().max_event_bytes()
    }

    /// See [`Store::delete`].
    async fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        self.inner().delete(run).await
    }

    /// See [`Store::sessions`].
    fn sessions(&self) -> Option<&dyn SessionStore> {
        self.inner().sessions()
    }

    /// See [`Store::artifacts`].
    fn artifacts(&self) -> Option<&dyn ArtifactStore> {
        self.inner().artifacts()
    }

    /// See [`Store::state`].
    fn state(&self) -> Option<&dyn StateStore> {
        self.inner().state()
    }

    /// See [`Store::messages`].
    fn messages(&self) -> Option<&dyn MessageStore> {
        self.inner().messages()
    }

    /// See [`Store::leases`].
    fn leases(&self) -> Option<&dyn LeaseStore> {
        self.inner().leases()
    }

    /// See [`Store::documents`].
    fn documents(&self) -> Option<&dyn DocumentStore> {
        self.inner().documents()
    }
}

// The lint reports a method of `Store` that is not forwarded.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<L: StoreLayer> Store for L {
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        StoreLayer::create(self, run, events).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        StoreLayer::open(self, run).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        StoreLayer::append(self, run, epoch, append).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        StoreLayer::amend(self, run, after, events).await
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        StoreLayer::read(self, run, after, limit).await
    }

    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        StoreLayer::list(self, filter).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        StoreLayer::close(self, run, epoch).await
    }

    async fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        StoreLayer::delete(self, run).await
    }

    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        StoreLayer::record(self, run).await
    }

    async fn claimable(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        StoreLayer::claimable(self, filter).await
    }

    fn runs_changed(&self) -> BoxFuture<'static, ()> {
        StoreLayer::runs_changed(self)
    }

    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        StoreLayer::list_with_unreadable(self, filter).await
    }

    async fn count(&self, filter: RunFilter) -> Result<u64, StoreError> {
        StoreLayer::count(self, filter).await
    }

    async fn read_selected(
        &self,
        run: &RunId,
        filter: &EventFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        StoreLayer::read_selected(self, run, filter, after, limit).await
    }

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        StoreLayer::put_snapshot(self, run, epoch, snapshot).await
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        StoreLayer::snapshot(self, run).await
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        StoreLayer::put_definition(self, hash, graph).await
    }

    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        StoreLayer::definition(self, hash).await
    }

    fn identity(&self) -> Option<String> {
        StoreLayer::identity(self)
    }

    fn max_event_bytes(&self) -> Option<u64> {
        StoreLayer::max_event_bytes(self)
    }

    fn sessions(&self) -> Option<&dyn SessionStore> {
        StoreLayer::sessions(self)
    }

    fn artifacts(&self) -> Option<&dyn ArtifactStore> {
        StoreLayer::artifacts(self)
    }

    fn state(&self) -> Option<&dyn StateStore> {
        StoreLayer::state(self)
    }

    fn messages(&self) -> Option<&dyn MessageStore> {
        StoreLayer::messages(self)
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        StoreLayer::leases(self)
    }

    fn documents(&self) -> Option<&dyn DocumentStore> {
        StoreLayer::documents(self)
    }
}
