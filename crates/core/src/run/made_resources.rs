//! Resources that a runtime creates for each run or each session, and their closing.
//!
//! A value is closed exactly once: when its run has ended, when its session is idle, or when the
//! run failed to start.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::closings::Closings;
use super::options::RunBeginning;
use super::session_resources::{SessionLease, SessionResources};
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::future::BoxFuture;
use crate::resource::{ResourceKey, Resources};

/// Maximum time for closing the resources of one run or session.
const LONGEST_CLOSE: Duration = Duration::from_secs(10);

/// Creates a value and adds it to the resources.
type MakeResource = dyn Fn(&RunBeginning, &mut Resources) -> Result<(), String> + Send + Sync;

/// Starts to close the value of one type, if the resources contain it.
type CloseResource = dyn Fn(&Resources) -> Option<BoxFuture<'static, ()>> + Send + Sync;

/// A factory of a resource, for each run or each session.
#[derive(Clone)]
pub(crate) struct ResourceFactory {
    pub(crate) key: ResourceKey,
    /// Time for which an idle session keeps the value; `None` for a value of a run.
    pub(crate) keep: Option<Duration>,
    pub(crate) make: Arc<MakeResource>,
}

#[derive(Clone)]
struct ResourceCloser {
    key: ResourceKey,
    close: Arc<CloseResource>,
}

/// The factories of a host, and the functions that close their values.
#[derive(Clone, Default)]
pub(crate) struct ResourceFactories {
    factories: Vec<ResourceFactory>,
    closers: Vec<ResourceCloser>,
    pub(crate) sessions: Arc<SessionResources>,
    pub(crate) closings: Arc<Closings>,
}

impl ResourceFactories {
    /// Adds a factory. Replaces an existing factory of the same type.
    pub(crate) fn add(&mut self, factory: ResourceFactory) {
        self.factories.retain(|other| other.key != factory.key);
        self.factories.push(factory);
    }

    /// Sets the function that closes the values of a type.
    pub(crate) fn close_with(&mut self, key: ResourceKey, close: Arc<CloseResource>) {
        self.closers.retain(|other| other.key != key);
        self.closers.push(ResourceCloser { key, close });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.factories.is_empty()
    }

    /// Returns `true` if each run has a value of this type.
    pub(crate) fn makes(&self, key: ResourceKey) -> bool {
        self.factories.iter().any(|factory| factory.key == key)
    }

    /// Creates the resources of a run, except those of types that it was given as values.
    ///
    /// # Errors
    /// [`Error::RunResource`] with the error of a factory. Values that were created before are
    /// closed.
    pub(super) fn make(&self, began: &RunBeginning, given: Resources) -> Result<OwnResources> {
        let is_shared =
            |factory: &&ResourceFactory| began.session().is_some() && factory.keep.is_some();
        let shared: Vec<&ResourceFactory> = self.factories.iter().filter(is_shared).collect();
        let mut all = Resources::default();
        let mut lease = None;
        if let (Some(session), Some(keep)) =
            (began.session(), shared.iter().filter_map(|factory| factory.keep).max())
        {
            let make = || self.made(began, &shared, &Resources::default());
            let leased = SessionResources::lease(
                &self.sessions,
                (session, began.caller().map(Caller::name)),
                keep,
                make,
            )?;
            all.extend(leased.resources());
            lease = Some(leased);
        }
        // Given values override the values of the session.
        all.extend(&given);
        let own: Vec<&ResourceFactory> =
            self.factories.iter().filter(|factory| !is_shared(factory)).collect();
        let made = self.made(began, &own, &given)?;
        all.extend(&made.resources);
        Ok(OwnResources { all, made, lease })
    }

    fn made(
        &self,
        began: &RunBeginning,
        factories: &[&ResourceFactory],
        given: &Resources,
    ) -> Result<MadeResources> {
        let mut made = MadeResources {
            resources: Resources::default(),
            closers: self.closers.clone(),
            closings: Arc::clone(&self.closings),
        };
        for factory in factories.iter().filter(|factory| !given.contains(factory.key)) {
            (factory.make)(began, &mut made.resources).map_err(|problem| Error::RunResource {
                name: began.name().into(),
                problem: format!(
                    "its resource `{}` could not be made: {problem}",
                    factory.key.type_name()
                ),
            })?;
        }
        Ok(made)
    }
}

impl fmt::Debug for ResourceFactories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.factories.iter().map(|factory| factory.key.type_name()))
            .finish()
    }
}

/// Resources of one run: the given values, and the values created for the run or its session.
#[derive(Debug)]
pub(crate) struct OwnResources {
    pub(super) all: Resources,
    made: MadeResources,
    lease: Option<SessionLease>,
}

impl OwnResources {
    /// Closes the run's values, and returns the session's values to the session.
    pub(super) async fn close(self) {
        let Self { all, made, lease } = self;
        // Copies are released first, so that closing gets the last reference.
        drop((all, lease));
        made.close().await;
    }
}

/// Values created by factories. Dropping them closes them on another task.
pub(super) struct MadeResources {
    pub(super) resources: Resources,
    closers: Vec<ResourceCloser>,
    closings: Arc<Closings>,
}

impl MadeResources {
    async fn close(mut self) {
        if let Some(closing) = self.begin_closing() {
            // The values are closed on another task, so dropping this future leaves no value half
            // closed.
            let _ = closing.await;
        }
    }

    /// Starts a task that closes the values; draining waits for it. Outside of a tokio runtime the
    /// values are dropped without being closed.
    fn begin_closing(&mut self) -> Option<JoinHandle<()>> {
        let resources = std::mem::take(&mut self.resources);
        if resources.is_empty() {
            return None;
        }
        let handle = Handle::try_current().ok()?;
        let _in_runtime = handle.enter();
        let closings: Vec<_> =
            self.closers.iter().filter_map(|closer| (closer.close)(&resources)).collect();
        drop(resources);
        if closings.is_empty() {
            return None;
        }
        // Counted before the task starts, so that draining cannot miss it.
        let closing = self.closings.begin();
        Some(handle.spawn(async move {
            let all = AssertUnwindSafe(join_all(closings)).catch_unwind();
            match tokio::time::timeout(LONGEST_CLOSE, all).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => tracing::warn!("closing the resources of a run panicked"),
                Err(_) => tracing::warn!(limit = ?LONGEST_CLOSE, "closing the resources of a run took too long"),
            }
            drop(closing);
        }))
    }
}

impl Drop for MadeResources {
    fn drop(&mut self) {
        drop(self.begin_closing());
    }
}

impl fmt::Debug for MadeResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.resources, f)
    }
}
