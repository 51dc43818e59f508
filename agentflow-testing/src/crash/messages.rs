//! Determines from a run's events which scripted messages of a crash test must be sent next. It
//! does not send them.

use std::collections::BTreeSet;

use agentflow::Event;
use agentflow::event::{Edge, EventKind, PauseReason};

/// A scripted message and the time at which it is sent.
#[derive(Debug)]
pub(super) struct ScriptedMessage {
    pub(super) moment: SendTime,
    pub(super) text: String,
}

/// The time at which a message is sent.
#[derive(Debug)]
pub(super) enum SendTime {
    /// When the run waits for a message and all earlier messages of this kind were sent.
    Waits,
    /// After the step with this path has started.
    Begun(String),
}

/// The next action of the simulated person.
pub(super) enum Due<'s> {
    Send(&'s str),
    Close,
}

/// The state of a run's messages, derived from its events.
#[derive(Default)]
pub(super) struct Mail {
    received: Vec<String>,
    /// Messages that the run has accepted, but whose events were not seen yet.
    taken: Vec<String>,
    begun: BTreeSet<String>,
    /// `true` if a live run waits for a message.
    waits: bool,
    closed: bool,
}

impl Mail {
    /// Applies the next event of the run.
    pub(super) fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::MessageReceived { message, .. } => {
                let text = message.text().into_owned();
                self.taken.retain(|taken| *taken != text);
                self.received.push(text);
                self.waits = false;
            }
            EventKind::RunPaused { reason: PauseReason::Message, .. } => self.waits = true,
            EventKind::RunResumed { recovered: false, .. } => self.waits = false,
            EventKind::RunClosed { .. } => self.closed = true,
            kind if kind.shape().edge == Edge::Opens => {
                self.begun.insert(event.path.to_string());
            }
            _ => {}
        }
    }

    /// Records that the run has accepted a message.
    pub(super) fn sent(&mut self, text: &str) {
        self.taken.push(text.to_owned());
        self.waits = false;
    }

    /// Records that the run has accepted the request to close.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns the messages that the run has not received.
    fn open<'s>(&self, script: &'s [ScriptedMessage]) -> Vec<&'s ScriptedMessage> {
        let mut received = [self.received.as_slice(), &self.taken].concat();
        // Messages are matched by text, and each received message accounts for one scripted
        // message.
        let is_open = |message: &&ScriptedMessage| match received
            .iter()
            .position(|text| *text == message.text)
        {
            Some(at) => {
                received.swap_remove(at);
                false
            }
            None => true,
        };
        script.iter().filter(is_open).collect()
    }

    /// Returns the first message whose step has started.
    pub(super) fn of_a_step<'s>(&self, script: &'s [ScriptedMessage]) -> Option<&'s str> {
        let is_due = |message: &&&ScriptedMessage| match &message.moment {
            SendTime::Begun(path) => self.begun.contains(path),
            SendTime::Waits => false,
        };
        self.open(script).iter().find(is_due).map(|message| message.text.as_str())
    }

    /// Returns the next action, if one is due.
    pub(super) fn due<'s>(&self, script: &'s [ScriptedMessage]) -> Option<Due<'s>> {
        if let Some(text) = self.of_a_step(script) {
            return Some(Due::Send(text));
        }
        if !self.waits || self.closed {
            return None;
        }
        let next =
            self.open(script).into_iter().find(|message| matches!(message.moment, SendTime::Waits));
        Some(next.map_or(Due::Close, |message| Due::Send(&message.text)))
    }

    /// Describes the messages of a finished run that were never sent.
    pub(super) fn never_sent(&self, script: &[ScriptedMessage]) -> Option<String> {
        let open = self.open(script);
        if open.is_empty() {
            return None;
        }
        let why = open.iter().map(|ScriptedMessage { moment, text }| match moment {
            SendTime::Waits => {
                format!("the run never waits for the message `{text}`: only a live run does")
            }
            SendTime::Begun(path) => {
                format!("no step `{path}` begins, so that the message `{text}` is never sent")
            }
        });
        let begun: Vec<String> = self
            .begun
            .iter()
            .filter(|path| !path.is_empty())
            .map(|path| format!("`{path}`"))
            .collect();
        let why: Vec<String> = why.collect();
        Some(format!(
            "{}; what begins is {}",
            why.join("; "),
            if begun.is_empty() { "nothing".to_owned() } else { begun.join(", ") }
        ))
    }
}
