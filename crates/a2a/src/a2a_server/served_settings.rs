//! Settings and limits of a server, and the state that all its requests share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::fault::Fault;
use super::skill_offer::SkillOffer;
use crate::a2a::A2aProvider;
use agentflow_core::Caller;
use agentflow_core::event::RunId;
use agentflow_core::runtime::Runtime;
use agentflow_core::store::RunRecord;
use agentflow_front::{Authenticate, CallerPermits, FrontSettings, HttpFront};

/// Maximum number of concurrent task lists of one caller; further ones wait.
const MOST_LISTS_OF_CALLER: usize = 4;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) provider: Option<A2aProvider>,
    pub(super) agents: BTreeSet<Arc<str>>,
    pub(super) workflows: BTreeSet<Arc<str>>,
    /// Card sections by workflow.
    pub(super) sections: BTreeMap<String, Value>,
    pub(super) default_skill: Option<String>,
    pub(super) security: Option<(BTreeMap<String, Value>, Vec<Value>)>,
    pub(super) grants: Vec<Arc<str>>,
    pub(super) authenticate: Option<Arc<dyn Authenticate>>,
    pub(super) clients_approve: bool,
    pub(super) public_url: Option<String>,
    pub(super) hosts: BTreeSet<String>,
    pub(super) origins: BTreeSet<String>,
    pub(super) max_body: usize,
    pub(super) body_timeout: Duration,
    pub(super) max_requests: usize,
    pub(super) max_streams: usize,
    pub(super) max_requests_of_caller: usize,
    pub(super) max_streams_of_caller: usize,
    pub(super) max_open_tasks: usize,
    pub(super) max_wait: Duration,
    pub(super) max_stream: Duration,
    /// HTTP client for push notifications, if they are supported.
    #[cfg(feature = "push")]
    pub(super) push: Option<agentflow_tools::HttpRequest>,
    /// Skills that are shown only on the extended card.
    pub(super) extended: BTreeSet<Arc<str>>,
    /// Media types of files that agents accept.
    pub(super) input_files: Vec<String>,
    /// Names of files of runs that are returned to clients.
    pub(super) output_files: Vec<String>,
    pub(super) max_file: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "agentflow".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: "Agents and workflows of this program.".to_owned(),
            provider: None,
            agents: BTreeSet::new(),
            workflows: BTreeSet::new(),
            sections: BTreeMap::new(),
            default_skill: None,
            security: None,
            grants: Vec::new(),
            authenticate: None,
            clients_approve: false,
            public_url: None,
            hosts: BTreeSet::new(),
            origins: BTreeSet::new(),
            max_body: 1 << 20,
            body_timeout: Duration::from_secs(30),
            max_requests: 256,
            max_streams: 256,
            max_requests_of_caller: 64,
            max_streams_of_caller: 64,
            max_open_tasks: 1000,
            max_wait: Duration::from_secs(300),
            max_stream: Duration::from_secs(3600),
            #[cfg(feature = "push")]
            push: None,
            extended: BTreeSet::new(),
            input_files: Vec::new(),
            output_files: Vec::new(),
            max_file: 1 << 20,
        }
    }
}

/// State shared by all requests of a server. It contains nothing about single tasks.
pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) settings: Settings,
    pub(super) offers: Vec<Arc<SkillOffer>>,
    pub(super) front: HttpFront,
    /// Limits concurrent task lists. Each list reads many runs.
    pub(super) lists_of: Arc<CallerPermits>,
    #[cfg(feature = "push")]
    pub(super) push: Option<super::push::Push>,
}

impl Shared {
    /// Returns the record of a run that the caller may read.
    pub(super) async fn record(&self, caller: &Caller, run: &RunId) -> Result<RunRecord, Fault> {
        let runtime = self.runtime.for_caller(caller);
        runtime.run(run).record().await.map_err(|error| Fault::internal(&error))
    }

    pub(super) fn new(runtime: Runtime, settings: Settings, offers: Vec<Arc<SkillOffer>>) -> Self {
        // The host of the public URL is a host of the server, too.
        let public = settings.public_url.as_ref().and_then(|url| url.split('/').nth(2));
        let front = HttpFront::new(FrontSettings {
            hosts: settings
                .hosts
                .iter()
                .map(String::as_str)
                .chain(public)
                .map(str::to_owned)
                .collect(),
            origins: settings.origins.iter().cloned().collect(),
            own_pages: false,
            authenticate: settings.authenticate.clone(),
            authenticate_timeout: settings.body_timeout,
            max_body: settings.max_body,
            body_timeout: settings.body_timeout,
            max_requests: settings.max_requests,
            max_requests_of_caller: settings.max_requests_of_caller,
            max_streams: settings.max_streams,
            max_streams_of_caller: settings.max_streams_of_caller,
        });
        let lists_of = CallerPermits::new(MOST_LISTS_OF_CALLER);
        #[cfg(feature = "push")]
        let push = settings.push.clone().zip(runtime.store()).map(|(request, store)| {
            super::push::Push::new(request, store, &settings.name, settings.authenticate.is_some())
        });
        Self {
            runtime,
            settings,
            offers,
            front,
            lists_of,
            #[cfg(feature = "push")]
            push,
        }
    }

    /// Returns `true` if the server sends push notifications.
    pub(super) fn notifies(&self) -> bool {
        #[cfg(feature = "push")]
        let notifies = self.push.is_some();
        #[cfg(not(feature = "push"))]
        let notifies = false;
        notifies
    }

    /// Returns `true` if a skill exists for a caller: the skills of the extended card exist only for
    /// callers that are authenticated.
    pub(super) fn is_shown(&self, offer: &SkillOffer, caller: &Caller) -> bool {
        !caller.is_anonymous() || !self.settings.extended.contains(&offer.name)
    }

    /// Returns the skill with this name, as it occurs in a URL.
    pub(super) fn offer(&self, name: &str) -> Option<&Arc<SkillOffer>> {
        self.offers.iter().find(|offer| *offer.name == *name)
    }
}
