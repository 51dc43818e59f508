//! Answers that are being written. A task follows each run and keeps the text so far, because text
//! deltas are not recorded in the journal. A browser that connects late or reconnects gets the rest
//! of the text from here.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentflow::RunHandle;
use agentflow::event::{EventKind, ModelDelta};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::value::Encoded;
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::watch;

/// Time for which a complete answer is kept for browsers that reconnect.
const KEPT: Duration = Duration::from_secs(60);
/// Interval of comments on an idle stream. They keep proxies from closing the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The text that the model has written so far.
#[derive(Clone, Debug, Default)]
struct Written {
    /// Number of the model call. Each call has its own text, so that a retry starts over.
    call: u32,
    text: String,
    /// The last event, after the run has ended.
    end: Option<String>,
}

/// Position up to which a browser has read. It is the id of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    call: u32,
    bytes: usize,
}

impl Seen {
    pub(crate) fn read(id: &str) -> Option<Self> {
        let (call, bytes) = id.split_once('-')?;
        Some(Self { call: call.parse().ok()?, bytes: bytes.parse().ok()? })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.call, self.bytes)
    }
}

/// Answers by run id.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<HashMap<String, watch::Receiver<Written>>>);

impl Answers {
    /// Starts to collect the text of a run.
    pub(crate) fn follow(self: &Arc<Self>, run: RunHandle<Encoded>) {
        let (written, reader) = watch::channel(Written::default());
        let (answers, id) = (Arc::clone(self), run.run_id().to_string());
        self.map(|map| map.insert(id.clone(), reader));
        // Deltas sent before this point are contained only in the complete answer.
        let mut events = run.events();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                written.send_if_modified(|written| written.apply(&event.kind));
            }
            let end = match run.result().await {
                Ok(output) => end_event(&json!({"text": output})),
                Err(error) => end_event(&json!({"error": error.to_string()})),
            };
            written.send_modify(|written| written.end = Some(end));
            tokio::time::sleep(KEPT).await;
            answers.map(|map| map.remove(&id));
        });
    }

    fn map<T>(
        &self,
        change: impl FnOnce(&mut HashMap<String, watch::Receiver<Written>>) -> T,
    ) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the events of a run after the last event that a browser has seen, or `None` if the run
    /// is not followed.
    pub(crate) fn events(
        &self,
        run: &str,
        seen: Seen,
    ) -> Option<impl Stream<Item = Result<String, Infallible>> + Send + use<>> {
        let reader = self.map(|map| map.get(run).cloned())?;
        Some(stream::unfold(Some((reader, seen)), |state| async move {
            let (mut reader, mut seen) = state?;
            loop {
                let written = reader.borrow_and_update().clone();
                if let Some(event) = written.after(&mut seen) {
                    return Some((Ok(event), Some((reader, seen))));
                }
                if let Some(end) = written.end {
                    return Some((Ok(end), None));
                }
                match tokio::time::timeout(KEEP_ALIVE, reader.changed()).await {
                    Ok(Ok(())) => {}
                    // The task has ended without a result, because the program is shutting down.
                    Ok(Err(_)) => return None,
                    Err(_) => {
                        return Some((Ok(": still here\n\n".to_owned()), Some((reader, seen))));
                    }
                }
            }
        }))
    }
}

impl Written {
    /// Applies an event. Returns `true` if the text or the state changed.
    fn apply(&mut self, event: &EventKind) -> bool {
        match event {
            EventKind::ModelStarted { .. } | EventKind::ModelRetrying { .. } => {
                (self.call, self.text) = (self.call + 1, String::new());
                false
            }
            EventKind::ModelDelta(ModelDelta::Text(piece)) => {
                self.text.push_str(piece);
                true
            }
            EventKind::ModelCompleted(response) => {
                let whole = response.text().into_owned();
                // Deltas were lost, so the text starts over.
                if !whole.starts_with(&self.text) {
                    self.call += 1;
                }
                self.text = whole;
                true
            }
            _ => false,
        }
    }

    /// Returns an event with the text that a browser has not seen, if there is any.
    fn after(&self, seen: &mut Seen) -> Option<String> {
        let rest = if seen.call == self.call { self.text.get(seen.bytes..) } else { None };
        let (name, text) = match rest {
            Some(rest) => ("text", rest),
            // A new model call: the text starts over.
            None => ("restart", &*self.text),
        };
        if text.is_empty() {
            return None;
        }
        *seen = Seen { call: self.call, bytes: self.text.len() };
        Some(format!("id: {seen}\nevent: {name}\ndata: {}\n\n", json!({"text": text})))
    }
}

/// Formats the last event. The browser must close the connection on it, or it would reconnect.
pub(crate) fn end_event(data: &Value) -> String {
    format!("event: end\ndata: {data}\n\n")
}
