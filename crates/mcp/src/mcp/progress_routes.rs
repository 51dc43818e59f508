//! Routes progress notifications to the calls that they belong to. Notifications that exceed a
//! buffer are dropped, since progress does not change results.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use agentflow_schema::text::head;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use serde::Serialize;
use tokio::sync::mpsc;

/// Maximum number of notifications that wait for one call, and of those whose call is not known
/// yet.
const MOST_WAITING: usize = 64;
/// Maximum number of bytes of a progress message.
const MOST_TEXT: usize = 4096;

/// Progress of a call, as reported by the server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallProgress {
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The calls of one connection that receive progress.
#[derive(Default)]
pub(super) struct ProgressRoutes(Mutex<Routes>);

#[derive(Default)]
struct Routes {
    open: HashMap<ProgressToken, mpsc::Sender<CallProgress>>,
    /// Notifications that arrived before their call was registered.
    early: VecDeque<(ProgressToken, CallProgress)>,
}

/// Receiver for the progress of one call. Dropping it ends the subscription.
pub(super) struct ProgressReceiver {
    routes: Arc<ProgressRoutes>,
    token: ProgressToken,
    pub(super) receiver: mpsc::Receiver<CallProgress>,
}

impl ProgressRoutes {
    pub(super) fn subscribe(self: &Arc<Self>, token: ProgressToken) -> ProgressReceiver {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        routes.early.retain(|(of, progress)| {
            let is_its = *of == token;
            if is_its {
                // The buffer of a call is as large as the buffer of early notifications.
                let _ = sender.try_send(progress.clone());
            }
            !is_its
        });
        routes.open.insert(token.clone(), sender);
        ProgressReceiver { routes: Arc::clone(self), token, receiver }
    }

    pub(super) fn arrived(&self, said: ProgressNotificationParam) {
        let message = said.message.map(|message| head(&message, MOST_TEXT).to_owned());
        let progress = CallProgress { progress: said.progress, total: said.total, message };
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match routes.open.get(&said.progress_token) {
            // A slow receiver loses notifications when its buffer is full.
            Some(sender) => drop(sender.try_send(progress)),
            None => {
                if routes.early.len() == MOST_WAITING {
                    routes.early.pop_front();
                }
                routes.early.push_back((said.progress_token, progress));
            }
        }
    }
}

impl Drop for ProgressReceiver {
    fn drop(&mut self) {
        self.routes.0.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&self.token);
    }
}
