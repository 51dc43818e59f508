//! The answers that are being written. One task follows each run and keeps the text so far, since the pieces of a model's
//! answer are not recorded: a browser that connects late, or again, gets the rest of the text from here.

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

/// How long an answer that is complete stays here for browsers that come back.
const KEPT: Duration = Duration::from_secs(60);
/// A comment is sent after this time without an event, so that nothing between the two closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The text that the model has written so far.
#[derive(Clone, Debug, Default)]
struct Written {
    /// Number of the model call. Each call has its own text, so that a retry begins anew.
    call: u32,
    text: String,
    /// The last event, once the run has ended.
    end: Option<String>,
}

/// How far a browser has read: the id of an event.
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

/// The answers by their runs.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<HashMap<String, watch::Receiver<Written>>>);

impl Answers {
    /// Keeps the text of a run from now on.
    pub(crate) fn follow(self: &Arc<Self>, run: RunHandle<Encoded>) {
        let (written, reader) = watch::channel(Written::default());
        let (answers, id) = (Arc::clone(self), run.run_id().to_string());
        self.map(|map| map.insert(id.clone(), reader));
        // Pieces that the model wrote before this are in the whole answer alone.
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

    fn map<T>(&self, change: impl FnOnce(&mut HashMap<String, watch::Receiver<Written>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The events of a run behind the last one that a browser has seen; `None` when the run is not followed.
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
                    // The program is ending.
                    Ok(Err(_)) => return None,
                    Err(_) => return Some((Ok(": still here\n\n".to_owned()), Some((reader, seen)))),
                }
            }
        }))
    }
}

impl Written {
    /// Takes an event in; returns true if there is something to show.
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
                // Pieces were lost: the text begins anew.
                if !whole.starts_with(&self.text) {
                    self.call += 1;
                }
                self.text = whole;
                true
            }
            _ => false,
        }
    }

    /// The event with the text that a browser has not seen, if there is any.
    fn after(&self, seen: &mut Seen) -> Option<String> {
        let rest = if seen.call == self.call { self.text.get(seen.bytes..) } else { None };
        let (name, text) = match rest {
            Some(rest) => ("text", rest),
            // Another call of the model: the text begins anew.
            None => ("restart", &*self.text),
        };
        if text.is_empty() {
            return None;
        }
        *seen = Seen { call: self.call, bytes: self.text.len() };
        Some(format!("id: {seen}\nevent: {name}\ndata: {}\n\n", json!({"text": text})))
    }
}

/// The last event. The browser closes the connection when it comes; otherwise it would connect again.
pub(crate) fn end_event(data: &Value) -> String {
    format!("event: end\ndata: {data}\n\n")
}
