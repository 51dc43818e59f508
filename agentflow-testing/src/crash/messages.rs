//! The messages that a person sends to a run of a crash test: which are due, by the run's events. It sends nothing.

use std::collections::BTreeSet;

use agentflow::Event;
use agentflow::event::{Edge, EventKind, PauseReason};

/// A message with its moment.
#[derive(Debug)]
pub(super) struct Scripted {
    pub(super) moment: Moment,
    pub(super) text: String,
}

/// When a message is sent.
#[derive(Debug)]
pub(super) enum Moment {
    /// When the run waits for one, and all such messages before it were sent.
    Waits,
    /// When the step of a path has begun.
    Begun(String),
}

/// What a person does next.
pub(super) enum Due<'s> {
    Send(&'s str),
    Close,
}

/// What is known of the messages of a run, from its events.
#[derive(Default)]
pub(super) struct Mail {
    received: Vec<String>,
    /// Those that were taken, whose events were not seen yet.
    taken: Vec<String>,
    begun: BTreeSet<String>,
    /// It is a live run that waits for a message.
    waits: bool,
    closed: bool,
}

impl Mail {
    /// Takes in the next event of the run.
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
            kind if kind.shape().edge == Edge::Opens => drop(self.begun.insert(event.path.to_string())),
            _ => {}
        }
    }

    /// The run has taken a message.
    pub(super) fn sent(&mut self, text: &str) {
        self.taken.push(text.to_owned());
        self.waits = false;
    }

    /// The run has taken its end.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The messages that the run has not received.
    fn open<'s>(&self, script: &'s [Scripted]) -> Vec<&'s Scripted> {
        let mut received = [self.received.as_slice(), &self.taken].concat();
        let is_open = |message: &&Scripted| match received.iter().position(|text| *text == message.text) {
            Some(at) => {
                received.swap_remove(at);
                false
            }
            None => true,
        };
        script.iter().filter(is_open).collect()
    }

    /// The first message whose step has begun.
    pub(super) fn of_a_step<'s>(&self, script: &'s [Scripted]) -> Option<&'s str> {
        let is_due = |message: &&&Scripted| match &message.moment {
            Moment::Begun(path) => self.begun.contains(path),
            Moment::Waits => false,
        };
        self.open(script).iter().find(is_due).map(|message| message.text.as_str())
    }

    /// What is to be done now.
    pub(super) fn due<'s>(&self, script: &'s [Scripted]) -> Option<Due<'s>> {
        if let Some(text) = self.of_a_step(script) {
            return Some(Due::Send(text));
        }
        if !self.waits || self.closed {
            return None;
        }
        let next = self.open(script).into_iter().find(|message| matches!(message.moment, Moment::Waits));
        Some(next.map_or(Due::Close, |message| Due::Send(&message.text)))
    }

    /// Why messages were never sent, of a run that is over.
    pub(super) fn never_sent(&self, script: &[Scripted]) -> Option<String> {
        let open = self.open(script);
        if open.is_empty() {
            return None;
        }
        let why = open.iter().map(|Scripted { moment, text }| match moment {
            Moment::Waits => format!("the run never waits for the message `{text}`: only a live run does"),
            Moment::Begun(path) => format!("no step `{path}` begins, so that the message `{text}` is never sent"),
        });
        let begun: Vec<String> =
            self.begun.iter().filter(|path| !path.is_empty()).map(|path| format!("`{path}`")).collect();
        let why: Vec<String> = why.collect();
        Some(format!(
            "{}; what begins is {}",
            why.join("; "),
            if begun.is_empty() { "nothing".to_owned() } else { begun.join(", ") }
        ))
    }
}
