//! Implements `EffectLog`, which counts the effects of bodies independently of the journal. The
//! journal alone cannot reveal a body that ran without being recorded.
//!
//! A body reports its effect under its own path. The log compares this with the stored journal at
//! that time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow::event::EventKind;
use agentflow::store::{MemoryStore, Store};
use agentflow::{Context, Event, RunId};
use futures_util::FutureExt;

/// Counts the effects of steps. A body, or the test double of the service that it calls, calls
/// `effects.note(cx)` where its effect happens.
///
/// In a [`CrashTest`](crate::CrashTest), each note is compared with the journal: the start of the
/// step must be stored, and its outcome must not. Clones share the counts.
///
/// ```
/// use agentflow::Workflow;
/// use agentflow_testing::{CrashTest, EffectLog};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> agentflow::Result<()> {
/// let effects = EffectLog::new();
/// let noted = effects.clone();
/// let send = Workflow::<(i64,), i64>::build("send", ["n"], move |b, (n,)| {
///     b.node("sent", (n,), move |cx, (n,)| {
///         let effects = noted.clone();
///         async move {
///             effects.note(&cx);
///             Ok::<_, agentflow::Error>(n)
///         }
///     })
/// })?;
///
/// // After a crash, the step must not run again if its outcome was recorded.
/// CrashTest::new(&send, || (1,)).effects(&effects).run().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct EffectLog(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    counts: BTreeMap<String, usize>,
    store: Option<(MemoryStore, RunId)>,
    problems: Vec<String>,
}

impl EffectLog {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an effect of the current step. Call it once per attempt.
    pub fn note(&self, cx: &Context) {
        let path = cx.path().to_string();
        let mut inner = self.inner();
        *inner.counts.entry(path.clone()).or_default() += 1;
        let Some((store, run)) = inner.store.clone() else { return };
        if *cx.run_id() != run {
            return;
        }
        // A `MemoryStore` answers without waiting.
        let events =
            store.read(&run, 0, usize::MAX).now_or_never().and_then(Result::ok).unwrap_or_default();
        let last =
            events.iter().rev().find(|event| *event.path.to_string() == *path && is_of_step(event));
        inner.problems.extend(match last.map(|event| (event.name(), &event.kind)) {
            Some((_, EventKind::NodeStarted { .. } | EventKind::ToolStarted { .. })) => None,
            Some((name, _)) => {
                Some(format!("`{path}` had an effect when its journal said `{name}` last"))
            }
            None => Some(format!("`{path}` had an effect before its start was kept")),
        });
    }

    /// Returns how often a step had its effect since the log was created. After a
    /// [`CrashTest`](crate::CrashTest), it counts only the last run.
    pub fn count(&self, path: &str) -> usize {
        self.inner().counts.get(path).copied().unwrap_or(0)
    }

    /// Returns all counts by path.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.inner().counts.clone()
    }

    /// Clears the log and attaches it to a run in a store.
    pub(super) fn attach(&self, store: &MemoryStore, run: &RunId) {
        *self.inner() = Inner { store: Some((store.clone(), run.clone())), ..Inner::default() };
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.inner().problems.clone()
    }
}

fn is_of_step(event: &Event) -> bool {
    let name = event.name();
    name.starts_with("workflow.node.") || name.starts_with("tool.")
}

impl fmt::Debug for EffectLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EffectLog").field(&self.inner().counts).finish()
    }
}
