//! Which call a word of progress belongs to. It loses what nobody has room for, since progress changes no result.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use agentflow_schema::text::head;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use serde::Serialize;
use tokio::sync::mpsc;

/// The most that wait for one call, and of calls that are not known yet.
const MOST_WAITING: usize = 64;
/// The most bytes of a message of progress.
const MOST_TEXT: usize = 4096;

/// How far a call is, as the server says.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallProgress {
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The calls of one connection that listen for progress.
#[derive(Default)]
pub(super) struct ProgressRoutes(Mutex<Routes>);

#[derive(Default)]
struct Routes {
    open: HashMap<ProgressToken, mpsc::Sender<CallProgress>>,
    /// What arrived before its call was known here.
    early: VecDeque<(ProgressToken, CallProgress)>,
}

/// The progress of one call, until it is dropped.
pub(super) struct ProgressOf {
    routes: Arc<ProgressRoutes>,
    token: ProgressToken,
    pub(super) receiver: mpsc::Receiver<CallProgress>,
}

impl ProgressRoutes {
    pub(super) fn of(self: &Arc<Self>, token: ProgressToken) -> ProgressOf {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        routes.early.retain(|(of, progress)| {
            let is_its = *of == token;
            if is_its {
                // It has room for all early ones.
                let _ = sender.try_send(progress.clone());
            }
            !is_its
        });
        routes.open.insert(token.clone(), sender);
        ProgressOf { routes: Arc::clone(self), token, receiver }
    }

    pub(super) fn arrived(&self, said: ProgressNotificationParam) {
        let message = said.message.map(|message| head(&message, MOST_TEXT).to_owned());
        let progress = CallProgress { progress: said.progress, total: said.total, message };
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match routes.open.get(&said.progress_token) {
            // A slow listener loses what is too much for it.
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

impl Drop for ProgressOf {
    fn drop(&mut self) {
        self.routes.0.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&self.token);
    }
}
