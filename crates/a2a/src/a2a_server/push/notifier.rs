//! Sends push notifications. For each configuration, a tokio task follows the journal of its run,
//! so notifications need no queue, neither runs nor other addresses wait, and another process can
//! continue after a crash. The final state is delivered at least once; a notification that is not
//! accepted is given up after several attempts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::super::fault::Fault;
use super::super::served_settings::Shared;
use super::super::task_updates::TaskUpdates;
use super::kept_configs::{PushConfigStore, StoredPushConfig};
use super::push_requests::notification_headers;
use crate::a2a::{A2A_VERSION, A2aErrorCode, A2aUpdate, VERSION_HEADER};
use agentflow_core::Caller;
use agentflow_core::error::Error;
use agentflow_core::event::RunId;
use agentflow_core::store::{Store, StoreError, StoreErrorKind};
use agentflow_front::CallerPermits;
use agentflow_tools::HttpRequest;

/// Maximum number of configurations per task, and maximum number of configurations that this
/// process follows.
pub(super) const MOST_CONFIGS: usize = 10;
const MOST_FOLLOWED: usize = 1000;
/// Maximum number of followed configurations per caller, so that one caller cannot use all of them.
const MOST_OF_CALLER: usize = 250;
/// Maximum number of concurrent notifications of one caller. Callers do not wait for each other.
const MOST_SENT: usize = 8;
/// Maximum number of concurrent notifications if all clients are one caller.
const MOST_SENT_TO_ALL: usize = 32;
/// Maximum duration of one attempt. The program's time limit may be shorter.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(10);
/// Number of attempts for a notification, and pause before the second attempt. Each further pause
/// is four times as long: 1, 4, 16 and 64 seconds.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// Number of attempts to read a task, and the pause between them.
const LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// A task, and the id of one of its configurations.
type Place = (RunId, String);

/// Push notification state, shared by requests and the notifier.
pub(in super::super) struct Push {
    pub(super) request: HttpRequest,
    pub(super) kept: PushConfigStore,
    /// Followed configurations with their caller. The caller is empty for configurations that were
    /// restored from an earlier process. The lock is held while stored configurations change.
    followed: tokio::sync::Mutex<HashMap<Place, Arc<str>>>,
    begin: mpsc::Sender<Place>,
    /// Receiver of new configurations. The notifier takes it when it starts.
    begun: Mutex<Option<mpsc::Receiver<Place>>>,
    sending: Arc<CallerPermits>,
}

impl Push {
    /// `knows_callers` is `false` if all clients are one caller.
    pub(in super::super) fn new(
        request: HttpRequest,
        store: &Arc<dyn Store>,
        server: &str,
        knows_callers: bool,
    ) -> Self {
        let (begin, begun) = mpsc::channel(MOST_FOLLOWED);
        Self {
            request,
            kept: PushConfigStore::new(store, server),
            followed: tokio::sync::Mutex::default(),
            begin,
            begun: Mutex::new(Some(begun)),
            sending: CallerPermits::new(if knows_callers { MOST_SENT } else { MOST_SENT_TO_ALL }),
        }
    }

    /// Stores a configuration and follows its task.
    pub(super) async fn keep(
        &self,
        run: &RunId,
        id: &str,
        config: StoredPushConfig,
        caller: &str,
    ) -> Result<(), Fault> {
        let internal = |error: StoreError| Fault::internal(&error.into());
        let mut followed = self.followed.lock().await;
        let known = self.kept.for_task(run).await.map_err(internal)?;
        if known.len() >= MOST_CONFIGS && !known.iter().any(|known| known.id() == id) {
            let problem = format!(
                "the task has {MOST_CONFIGS} push configurations, which is the most; delete one first"
            );
            return Err(Fault::params(problem));
        }
        let place = (run.clone(), id.to_owned());
        let its = followed.values().filter(|of| ***of == *caller).count();
        if (followed.len() >= MOST_FOLLOWED || its >= MOST_OF_CALLER)
            && !followed.contains_key(&place)
        {
            let problem =
                "too many push notifications are asked for now; subscribe to the task, or get it";
            return Err(Fault::new(A2aErrorCode::UnsupportedOperation, problem));
        }
        self.kept.put(run, &config).await.map_err(internal)?;
        if followed.insert(place.clone(), caller.into()).is_none() {
            // If the receiver is gone, the server is shutting down. The next server finds the
            // configuration in the active list.
            let _ = self.begin.send(place).await;
        }
        Ok(())
    }

    /// Stops following a configuration.
    async fn leave(&self, place: &Place) -> Result<(), StoreError> {
        let mut followed = self.followed.lock().await;
        self.kept.deactivate(&place.0, &place.1).await?;
        followed.remove(place);
        Ok(())
    }

    pub(super) async fn remove(&self, run: &RunId, id: &str) -> Result<(), StoreError> {
        let _changing = self.followed.lock().await;
        self.kept.remove(run, id).await
    }
}

/// The running notifier of a server. Dropping it stops all notifications.
pub(in super::super) struct Notifier(AbortHandle);

impl Notifier {
    /// Starts the notifier, which also continues the configurations of earlier processes. Returns
    /// `None` if the server does not send notifications, or the notifier was already started.
    pub(in super::super) fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let begun =
            shared.push.as_ref()?.begun.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Self(tokio::spawn(notify(Arc::clone(shared), begun)).abort_handle()))
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn notify(shared: Arc<Shared>, mut begun: mpsc::Receiver<Place>) {
    let Some(push) = &shared.push else { return };
    let mut following = JoinSet::new();
    match push.kept.all().await {
        Ok(left) => {
            let mut followed = push.followed.lock().await;
            for place in left {
                if followed.insert(place.clone(), "".into()).is_none() {
                    following.spawn(follow(Arc::clone(&shared), place));
                }
            }
        }
        Err(error) => {
            tracing::error!(%error, "the push notifications that an earlier process left are not known");
        }
    }
    while let Some(place) = begun.recv().await {
        while following.try_join_next().is_some() {}
        following.spawn(follow(Arc::clone(&shared), place));
    }
}

/// Follows a configuration until it is done. Retries if the task cannot be read.
async fn follow(shared: Arc<Shared>, place: Place) {
    let Some(push) = &shared.push else { return };
    for _ in 0..LOOKS {
        match followed(&shared, push, &place).await {
            Ok(()) => return,
            Err(_) => tokio::time::sleep(LOOK_PAUSE).await,
        }
    }
    let task = place.0.as_str();
    tracing::error!(
        task,
        "a task cannot be read, so no client is notified of it until the server is started again"
    );
    push.followed.lock().await.remove(&place);
}

async fn followed(shared: &Arc<Shared>, push: &Push, place: &Place) -> Result<(), Fault> {
    let internal = |error: StoreError| Fault::internal(&error.into());
    let Some(config) = waiting(push, place).await.map_err(internal)? else { return Ok(()) };
    let record = match shared.runtime.run(&place.0).record().await {
        Ok(record) => record,
        // The run was deleted, and its configurations with it.
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => {
            return push.leave(place).await.map_err(internal);
        }
        Err(error) => return Err(Fault::internal(&error)),
    };
    let caller = Caller::new(record.caller.unwrap_or_default());
    let caller = if config.approves { caller.approves() } else { caller };
    let mut updates = TaskUpdates::start(shared, &caller, &place.0, false).await?;
    let mut last = None;
    while let Some(update) = updates.next().await {
        let update = update?;
        if update.is_last() {
            last = Some(update);
            break;
        }
        let Some(config) = waiting(push, place).await.map_err(internal)? else { return Ok(()) };
        send(push, place, &config, &update, &caller).await;
    }
    let Some(last) = last else {
        return Err(Fault::new(
            A2aErrorCode::Internal,
            "the journal of the task could not be read to its end",
        ));
    };
    // A client may replace the configuration while the final state is being sent. The new
    // configuration also receives the final state.
    while let Some(config) = waiting(push, place).await.map_err(internal)? {
        send(push, place, &config, &last, &caller).await;
        let _changing = push.followed.lock().await;
        if push.kept.one(&place.0, &place.1).await.map_err(internal)?.as_ref() == Some(&config) {
            push.kept.mark_done(&place.0, config).await.map_err(internal)?;
        }
    }
    Ok(())
}

/// Returns a configuration that is not done. Otherwise stops following it and returns `None`.
async fn waiting(push: &Push, place: &Place) -> Result<Option<StoredPushConfig>, StoreError> {
    let mut followed = push.followed.lock().await;
    let kept = push.kept.one(&place.0, &place.1).await?.filter(|kept| !kept.is_done);
    if kept.is_none() {
        push.kept.deactivate(&place.0, &place.1).await?;
        followed.remove(place);
    }
    Ok(kept)
}

/// Sends an update, with retries, until it is accepted or given up.
async fn send(
    push: &Push,
    place: &Place,
    config: &StoredPushConfig,
    update: &A2aUpdate,
    caller: &Caller,
) {
    let Ok(own) = notification_headers(&config.config) else { return };
    let body = json!(update).to_string();
    let has_key = !own.is_empty();
    let mut headers: HeaderMap = own.into_iter().collect();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/a2a+json"));
    headers.insert(VERSION_HEADER, HeaderValue::from_static(A2A_VERSION));
    let mut problem = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(PAUSE * 4_u32.pow(attempt - 1)).await;
            // The configuration was removed or replaced during the pause.
            if push
                .kept
                .one(&place.0, &place.1)
                .await
                .is_ok_and(|kept| kept.as_ref() != Some(config))
            {
                return;
            }
        }
        // At most as many notifications wait as the caller has configurations.
        let _turn = push.sending.take(caller.name(), usize::MAX).await;
        let post = push.request.post(&config.config.url, &headers, has_key, &body);
        match tokio::time::timeout(LONGEST_ATTEMPT, post).await {
            Err(_) => problem = format!("it did not answer within {LONGEST_ATTEMPT:?}"),
            Ok(Ok(200..=299)) => return,
            Ok(Ok(status)) => {
                problem = format!("it answered with the status {status}");
                // These statuses are permanent; another attempt would get the same response.
                if (300..500).contains(&status) && !matches!(status, 408 | 425 | 429) {
                    break;
                }
            }
            Ok(Err(error)) => problem = error.to_string(),
        }
    }
    tracing::warn!(task = %place.0, config = config.id(), problem, "a push notification was given up");
}
