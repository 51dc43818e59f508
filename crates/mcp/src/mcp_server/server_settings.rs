//! State that all connections of a server share: its settings, and the permits that limit
//! concurrent calls.

use std::collections::BTreeSet;
#[cfg(feature = "server-http")]
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::offered::Offer;
use super::served_prompt::ServedPrompt;
use super::served_reads::ParsedResource;
use super::served_resource::ServedResource;
use super::served_subscriptions::Subscriptions;
use agentflow_core::runtime::Runtime;
#[cfg(feature = "server-http")]
use agentflow_front::{Authenticate, CallerPermit, CallerPermits};

/// JSON-RPC error code for a call that exceeds a limit on concurrent calls.
pub(super) const BUSY: ErrorCode = ErrorCode(-32000);

/// Settings and limits of a server.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) instructions: Option<String>,
    pub(super) tools: Option<BTreeSet<Arc<str>>>,
    pub(super) agents: BTreeSet<Arc<str>>,
    pub(super) workflows: BTreeSet<Arc<str>>,
    pub(super) resources: Vec<ServedResource>,
    pub(super) prompts: Vec<ServedPrompt>,
    pub(super) grants: Vec<Arc<str>>,
    pub(super) clients_approve: bool,
    pub(super) max_calls: usize,
    /// Default: a quarter of `max_calls`.
    #[cfg(feature = "server-http")]
    pub(super) max_calls_of_caller: Option<usize>,
    pub(super) max_waiting: usize,
    pub(super) max_open_runs: usize,
    pub(super) max_arguments: usize,
    pub(super) max_message: usize,
    pub(super) handshake: Duration,
    #[cfg(feature = "server-http")]
    pub(super) http: HttpSettings,
}

#[cfg(feature = "server-http")]
/// Settings for HTTP.
#[derive(Clone)]
pub(super) struct HttpSettings {
    /// Permitted hosts in addition to `localhost` and the loopback addresses.
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    pub(super) authenticate: Option<Arc<dyn Authenticate>>,
    pub(super) max_connections: usize,
    pub(super) max_sessions: usize,
    pub(super) max_sessions_of_caller: usize,
    pub(super) session_idle: Duration,
    pub(super) session_age: Duration,
}

#[cfg(feature = "server-http")]
impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSettings")
            .field("hosts", &self.hosts)
            .field("authenticates", &self.authenticate.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "server-http")]
impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            authenticate: None,
            max_connections: 256,
            max_sessions: 256,
            max_sessions_of_caller: 64,
            session_idle: Duration::from_secs(10 * 60),
            session_age: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "agentflow".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            tools: None,
            agents: BTreeSet::new(),
            workflows: BTreeSet::new(),
            resources: Vec::new(),
            prompts: Vec::new(),
            grants: Vec::new(),
            clients_approve: false,
            max_calls: 32,
            #[cfg(feature = "server-http")]
            max_calls_of_caller: None,
            max_waiting: 256,
            max_open_runs: 1000,
            max_arguments: 1 << 20,
            max_message: 4 << 20,
            handshake: Duration::from_secs(60),
            #[cfg(feature = "server-http")]
            http: HttpSettings::default(),
        }
    }
}

pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) settings: Settings,
    pub(super) readable: Vec<ParsedResource>,
    /// Ordered by name.
    pub(super) prompts: Vec<ServedPrompt>,
    /// The tools from the last listing.
    pub(super) last: Mutex<Arc<[Arc<Offer>]>>,
    /// Subscriptions to resources.
    pub(super) subscriptions: Subscriptions,
    turns: Semaphore,
    waiting: AtomicUsize,
    #[cfg(feature = "server-http")]
    turns_of: Arc<CallerPermits>,
}

/// Counts a call as waiting. Dropping it ends the wait.
struct Waiting<'s>(&'s AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The permit to execute a call. Dropping it releases the permit.
pub(super) struct Turn<'s> {
    shared: &'s Shared,
    #[cfg(feature = "server-http")]
    caller: Option<String>,
    held: Mutex<Option<Held<'s>>>,
}

/// The semaphore permits of a call that is being executed.
struct Held<'s> {
    #[expect(dead_code, reason = "held until the turn is over")]
    permit: Option<SemaphorePermit<'s>>,
    #[cfg(feature = "server-http")]
    /// Permit among the calls of the same caller.
    #[expect(dead_code, reason = "held until the turn is over")]
    own: Option<CallerPermit>,
}

impl Turn<'_> {
    /// Releases the permit while the call waits for a person.
    pub(super) fn give_back(&self) {
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Waits for the permit again.
    pub(super) async fn reacquire(&self) {
        #[cfg(feature = "server-http")]
        // The call was already admitted, so it may exceed the limit of waiting calls.
        let own = match &self.caller {
            Some(caller) => self.shared.turns_of.take(caller, usize::MAX).await,
            None => None,
        };
        let held = Held {
            permit: self.shared.turns.acquire().await.ok(),
            #[cfg(feature = "server-http")]
            own,
        };
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
    }
}

impl Shared {
    pub(super) fn new(runtime: Runtime, settings: Settings) -> Self {
        // `Semaphore::new` panics if the number is too large.
        let turns = Semaphore::new(settings.max_calls.min(Semaphore::MAX_PERMITS));
        let readable = ParsedResource::all(&settings.resources);
        let mut prompts = settings.prompts.clone();
        prompts.sort_by(|one, other| one.name.cmp(&other.name));
        let last = Mutex::new(Arc::new([]) as Arc<[_]>);
        let (subscriptions, waiting) = (Subscriptions::default(), AtomicUsize::new(0));
        #[cfg(feature = "server-http")]
        let turns_of =
            CallerPermits::new(settings.max_calls_of_caller.unwrap_or(settings.max_calls / 4));
        Self {
            runtime,
            settings,
            readable,
            prompts,
            last,
            subscriptions,
            turns,
            waiting,
            #[cfg(feature = "server-http")]
            turns_of,
        }
    }

    /// Returns `true` if calls can become tasks. This needs an agent or a workflow, and a store in
    /// which later requests find the run.
    pub(super) fn has_tasks(&self) -> bool {
        let Settings { agents, workflows, .. } = &self.settings;
        self.runtime.store().is_some() && !(agents.is_empty() && workflows.is_empty())
    }

    /// Returns the maximum number of open calls of one client.
    pub(super) fn most_open(&self) -> usize {
        self.settings.max_calls.saturating_add(self.settings.max_waiting)
    }

    /// Waits for the permit to execute a call. If the caller is known, the call first waits among
    /// the calls of the same caller, so that it does not delay other callers.
    pub(super) async fn turn(&self, caller: Option<String>) -> Result<Turn<'_>, ErrorData> {
        #[cfg(feature = "server-http")]
        let own = match &caller {
            Some(caller) => {
                let most = self.settings.max_waiting.div_ceil(4);
                let busy = || format!("{most} calls of this caller wait already; call again later");
                let own = self.turns_of.take(caller, most).await;
                Some(own.ok_or_else(|| ErrorData::new(BUSY, busy(), None))?)
            }
            None => None,
        };
        let held = Held {
            permit: Some(self.permit().await?),
            #[cfg(feature = "server-http")]
            own,
        };
        #[cfg(not(feature = "server-http"))]
        drop(caller);
        Ok(Turn {
            shared: self,
            #[cfg(feature = "server-http")]
            caller,
            held: Mutex::new(Some(held)),
        })
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, ErrorData> {
        // A free permit is taken without counting the call as waiting.
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok(turn);
        }
        // The counter is decremented when `_waiting` is dropped, also on cancellation.
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        let most = self.settings.max_waiting;
        let busy =
            || ErrorData::new(BUSY, format!("{most} calls wait already; call again later"), None);
        if before >= most {
            return Err(busy());
        }
        self.turns.acquire().await.map_err(|_| busy())
    }
}
