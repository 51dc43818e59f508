//! `RegisteredItems`: the currently registered items of a runtime. Documents may be reloaded while
//! runs are executed, so readers take a snapshot.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::definition::Definition;
use crate::error::Result;
use crate::event::RunId;
use crate::future::BoxFuture;
use crate::run::{Host, read_journal};
use crate::runtime::Runtime;
use crate::runtime::catalogue::lookup::Given;
use crate::store::{Store, StoreError};
use crate::tool::ToolsetRef;

/// Registered items of a host, shared by all clones of the host.
pub(crate) struct RegisteredItems {
    given: RwLock<Arc<Given>>,
    /// `true` if the items can change.
    #[cfg(feature = "documents")]
    changes: bool,
}

impl RegisteredItems {
    pub(crate) fn new(given: Given) -> Self {
        Self {
            given: RwLock::new(Arc::new(given)),
            #[cfg(feature = "documents")]
            changes: false,
        }
    }

    /// Sets if the items can change.
    #[cfg(feature = "documents")]
    pub(crate) fn changing(self, changes: bool) -> Self {
        Self { changes, ..self }
    }

    fn now(&self) -> Arc<Given> {
        Arc::clone(&self.given.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies a change. After an error the items remain unchanged.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Given) -> Result<()>) -> Result<()> {
        let mut now = self.given.write().unwrap_or_else(PoisonError::into_inner);
        let mut given = Given::clone(&now);
        change(&mut given)?;
        *now = Arc::new(given);
        Ok(())
    }

    /// Replaces all items.
    #[cfg(feature = "documents")]
    pub(crate) fn replace(&self, given: Arc<Given>) {
        *self.given.write().unwrap_or_else(PoisonError::into_inner) = given;
    }
}

/// Returns a snapshot of the named items: the registered items and the documents of the store.
pub(crate) fn given_now(host: &Host) -> Arc<Given> {
    let registered = registered_now(host);
    match host.part::<AddedItems>() {
        Some(added) => (added.add)(host, registered),
        None => registered,
    }
}

/// Items that are added to the registered ones: the documents of the store.
#[cfg_attr(not(feature = "documents"), allow(dead_code, reason = "only documents are added"))]
pub(crate) struct AddedItems {
    /// Adds the items to a snapshot of the registered items.
    pub(crate) add: fn(&Host, Arc<Given>) -> Arc<Given>,
    /// Reads the changes of other processes, unless they were read a moment ago.
    pub(crate) refresh: fn(&Runtime) -> BoxFuture<'_, Result<(), StoreError>>,
}

/// Reads the changes that other processes have made to the added items, unless they were read a
/// moment ago.
pub(crate) async fn refresh_items(runtime: &Runtime) -> Result<(), StoreError> {
    match runtime.host().part::<AddedItems>() {
        Some(added) => (added.refresh)(runtime).await,
        None => Ok(()),
    }
}

/// Returns a snapshot of the registered items: the items of the program and the documents of
/// folders.
pub(crate) fn registered_now(host: &Host) -> Arc<Given> {
    static OF_PROCESS: OnceLock<Arc<Given>> = OnceLock::new();
    match host.part::<RegisteredItems>() {
        Some(given) => given.now(),
        // The default runtime of the process has no registered items, but documents may be linked
        // into the program.
        #[cfg(feature = "documents")]
        None => Arc::clone(
            OF_PROCESS
                .get_or_init(|| Arc::new(crate::runtime::documents::registered::of_process())),
        ),
        #[cfg(not(feature = "documents"))]
        None => Arc::clone(OF_PROCESS.get_or_init(Arc::default)),
    }
}

/// The registered items of a kind, in a snapshot.
pub(crate) struct RegisteredList<T: 'static> {
    given: Arc<Given>,
    of: fn(&Given) -> &Vec<T>,
}

impl<T> RegisteredList<T> {
    /// Returns the snapshot from which the list was taken.
    #[cfg(feature = "dynamic")]
    pub(crate) fn moment(&self) -> &Arc<Given> {
        &self.given
    }
}

/// Returns a copy of the host that is fixed to a snapshot. It ensures that documents that refer to
/// each other are resolved in the same version. Returns `None` if the host cannot change.
#[cfg(feature = "documents")]
pub(crate) fn fixed_to_snapshot(host: &Host, given: &Arc<Given>) -> Option<Host> {
    let may_change = host.part::<RegisteredItems>().is_some_and(|now| now.changes)
        || host.part::<AddedItems>().is_some();
    if !may_change {
        return None;
    }
    let mut host = Host::clone(host);
    set_all_items(&mut host, Arc::clone(given));
    Some(host)
}

/// Sets all items of a host. Nothing is added to them.
pub(crate) fn set_all_items(host: &mut Host, given: Arc<Given>) {
    host.set_part(RegisteredItems {
        given: RwLock::new(given),
        #[cfg(feature = "documents")]
        changes: false,
    });
    host.remove_part::<AddedItems>();
}

impl<T> Deref for RegisteredList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        (self.of)(&self.given)
    }
}

/// Returns the registered items of a kind. Empty for the default runtime of the process, except for
/// linked documents.
pub(crate) fn given<T: 'static>(host: &Host, of: fn(&Given) -> &Vec<T>) -> RegisteredList<T> {
    RegisteredList { given: given_now(host), of }
}

/// Toolsets whose tools were unknown when a run started.
struct UnknownToolsets(BTreeSet<String>);

/// `true` if the graphs of this host are resolved without the tools of a toolset.
#[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "only graphs name toolsets"))]
pub(crate) fn is_unknown(host: &Host, toolset: &ToolsetRef) -> bool {
    host.part::<UnknownToolsets>().is_some_and(|unknown| unknown.0.contains(&**toolset.name()))
}

/// Returns a runtime that resolves graphs as for the start of a run: toolsets that were
/// unavailable remain unknown.
pub(crate) async fn reader_for_run(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    run: &RunId,
) -> Result<Runtime, StoreError> {
    match given(runtime.host(), |given| &given.toolsets).is_empty() {
        true => Ok(runtime.clone()),
        false => {
            let parts = read_journal(store, run).await?.parts();
            reader_for(runtime, Some(store), parts.as_deref()).await
        }
    }
}

/// Returns a runtime that resolves graphs as for the definition with the id `parts`. Without a
/// store, this is the runtime itself.
pub(crate) async fn reader_for(
    runtime: &Runtime,
    store: Option<&Arc<dyn Store>>,
    parts: Option<&str>,
) -> Result<Runtime, StoreError> {
    let (Some(store), Some(parts)) = (store, parts) else { return Ok(runtime.clone()) };
    if given(runtime.host(), |given| &given.toolsets).is_empty() {
        return Ok(runtime.clone());
    }
    let stored = store.definition(parts).await?;
    let definition: Definition =
        stored.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let unknown: BTreeSet<String> = definition.unknown_toolsets().map(ToOwned::to_owned).collect();
    if unknown.is_empty() {
        return Ok(runtime.clone());
    }
    let mut host = Host::clone(runtime.host());
    #[allow(unused_mut, reason = "without graphs there is nothing to read")]
    let mut given = (*given_now(&host)).clone();
    #[cfg(feature = "dynamic")]
    given.graphs.iter_mut().for_each(|(graph, _)| *graph = graph.unread());
    set_all_items(&mut host, Arc::new(given));
    host.set_part(UnknownToolsets(unknown));
    Ok(Runtime(Arc::new(host)))
}
