//! `EventFrames`: maps the events of a run to frames of a stream of server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use agentflow_core::event::Event;
use agentflow_views::{ScreenEvents, TaskChunks};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Form of the events of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StreamForm {
    /// Nodes that start, end or ask, for a screen: `{"event": "node_start", ..}`.
    #[default]
    Screen,
    /// All events, including the pieces of model responses, in the form of the journal.
    Events,
    /// Chunks of a task.
    Task,
}

/// Maps the events of a run to frames. Needs all events from the first one, since a view depends on
/// earlier events.
#[derive(Debug)]
pub(crate) struct EventFrames {
    view: FrameView,
    /// Number of the last event that the client has received.
    after: u64,
}

#[derive(Debug)]
enum FrameView {
    Screen(Box<ScreenEvents>),
    Events,
    Task(TaskChunks),
}

impl EventFrames {
    pub(crate) fn new(form: StreamForm, after: u64) -> Self {
        let view = match form {
            StreamForm::Screen => FrameView::Screen(Box::default()),
            StreamForm::Events => FrameView::Events,
            StreamForm::Task => FrameView::Task(TaskChunks::default()),
        };
        Self { view, after }
    }

    /// Returns the number of events that can be left out when the run is read.
    pub(crate) fn unneeded(&self) -> u64 {
        match self.view {
            FrameView::Events => self.after,
            FrameView::Screen(_) | FrameView::Task(_) => 0,
        }
    }

    /// Maps the next event. Returns `None` if the view does not show it, or the client has received
    /// it.
    pub(crate) fn next(&mut self, event: &Event) -> Option<Bytes> {
        let data = match &mut self.view {
            FrameView::Screen(view) => json(&view.next(event)?.data),
            FrameView::Events => json(event),
            FrameView::Task(view) => json(&view.next(event)?),
        };
        // A delta has the number of the recorded event before it. Its frame has no id, so that a
        // client which reconnects asks for the events after the recorded one.
        if event.part > 0 {
            return (event.seq >= self.after).then(|| format!("data: {data}\n\n").into());
        }
        (event.seq > self.after).then(|| format!("id: {}\ndata: {data}\n\n", event.seq).into())
    }
}

/// Encodes a value on one line, as a frame requires.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}
