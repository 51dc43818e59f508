//! Runs that started while a toolset was unavailable. The plan of such a run does not contain the
//! tools of the toolset; a node fetches its tool when it runs. The definition of the run records
//! the toolset, so that a later process creates the same plan, whether or not the toolset is
//! available then.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Runtime;
use super::given_now::{RegisteredItems, given, given_now};
use crate::definition::Definition;
use crate::event::RunId;
use crate::run::{Host, read_journal};
use crate::store::{Store, StoreError};
use crate::tool::ToolsetRef;

/// Toolsets whose tools were unknown when a run started.
struct UnknownToolsets(BTreeSet<String>);

/// `true` if the graphs of this host are resolved without the tools of a toolset.
#[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "only graphs name toolsets"))]
pub(super) fn is_unknown(host: &Host, toolset: &ToolsetRef) -> bool {
    host.part::<UnknownToolsets>().is_some_and(|unknown| unknown.0.contains(&**toolset.name()))
}

impl Runtime {
    /// Returns a runtime that resolves graphs as for the start of a run: toolsets that were
    /// unavailable remain unknown.
    pub(super) async fn reader_for_run(
        &self,
        store: &Arc<dyn Store>,
        run: &RunId,
    ) -> Result<Self, StoreError> {
        match given(self.host(), |given| &given.toolsets).is_empty() {
            true => Ok(self.clone()),
            false => {
                let parts = read_journal(store, run).await?.parts();
                self.reader_for(Some(store), parts.as_deref()).await
            }
        }
    }

    /// Returns a runtime that resolves graphs as for the definition with the id `parts`. Without a
    /// store, this is the runtime itself.
    pub(super) async fn reader_for(
        &self,
        store: Option<&Arc<dyn Store>>,
        parts: Option<&str>,
    ) -> Result<Self, StoreError> {
        let (Some(store), Some(parts)) = (store, parts) else { return Ok(self.clone()) };
        if given(self.host(), |given| &given.toolsets).is_empty() {
            return Ok(self.clone());
        }
        let stored = store.definition(parts).await?;
        let definition: Definition =
            stored.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
        let unknown: BTreeSet<String> =
            definition.unknown_toolsets().map(ToOwned::to_owned).collect();
        if unknown.is_empty() {
            return Ok(self.clone());
        }
        let mut host = Host::clone(self.host());
        #[allow(unused_mut, reason = "without graphs there is nothing to read")]
        let mut given = (*given_now(&host)).clone();
        #[cfg(feature = "dynamic")]
        given.graphs.iter_mut().for_each(|(graph, _)| *graph = graph.unread());
        host.set_part(RegisteredItems::new(given));
        host.set_part(UnknownToolsets(unknown));
        Ok(Self(Arc::new(host)))
    }
}
