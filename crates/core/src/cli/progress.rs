//! The progress of an agent's run for a person: a spinner on a terminal, plain lines elsewhere. Both go to standard
//! error.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::print::{BAD, DIM, GOOD, counted, note, short};
use crate::event::{Event, EventKind, ModelDelta};
use crate::model::{ModelInfo, Usage};

/// Shows a run's events while it runs.
pub(super) struct Progress {
    /// `None` where there is no terminal.
    bar: Option<ProgressBar>,
    shown: bool,
    state: State,
}

/// A model by the name that the user wrote, such as `local/small`, where events have the wire format `openai-chat`.
pub(super) struct NamedModel {
    pub(super) reference: String,
    pub(super) info: ModelInfo,
}

/// What the spinner's line tells.
struct State {
    model: NamedModel,
    turn: u32,
    /// Names by the path of their step.
    running: BTreeMap<String, String>,
    /// How far they have come, as they say themselves, by the same.
    said: BTreeMap<String, String>,
    usage: Usage,
    /// Characters of the answer that is coming.
    coming: usize,
}

impl Progress {
    /// Shows nothing unless `shown`.
    pub(super) fn new(shown: bool, model: NamedModel) -> Self {
        let bar = (shown && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed:.dim}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, shown, state: State::new(model) }
    }

    /// Takes an event in.
    pub(super) fn see(&mut self, event: &Event) {
        if !self.shown {
            return;
        }
        let said = self.state.see(event);
        match &self.bar {
            None => said.into_iter().for_each(note),
            Some(bar) => {
                if let Some(line) = said.filter(|_| !matches!(event.kind, EventKind::ModelStarted { .. })) {
                    bar.suspend(|| note(line));
                }
                bar.set_message(self.state.message());
            }
        }
    }

    /// Takes the spinner off the terminal.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.shown = false;
    }
}

impl State {
    fn new(model: NamedModel) -> Self {
        let (running, said) = (BTreeMap::new(), BTreeMap::new());
        Self { model, turn: 0, running, said, usage: Usage::default(), coming: 0 }
    }

    /// The line to say about an event, if it deserves one.
    fn see(&mut self, event: &Event) -> Option<String> {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::ModelStarted { provider, model } => {
                self.turn += 1;
                self.coming = 0;
                let NamedModel { reference, info } = &self.model;
                let name = match (provider, model) == (&info.provider, &info.model) {
                    true => short(reference),
                    // Of an agent among the tools.
                    false => format!("{}/{}", short(provider), short(model)),
                };
                return Some(format!("{DIM}step {}: {name}{DIM:#}", self.turn));
            }
            EventKind::ModelDelta(ModelDelta::Text(text) | ModelDelta::Reasoning(text)) => {
                self.coming += text.chars().count();
            }
            EventKind::StepProgress { value } => {
                let said = value.decode::<String>().unwrap_or_else(|_| value.to_string());
                if self.running.contains_key(&path) {
                    self.said.insert(path, said);
                }
            }
            EventKind::ModelCompleted(response) => {
                self.coming = 0;
                self.usage.add(&response.usage);
            }
            EventKind::ModelFailed { error } => return Some(format!("{BAD}{}{BAD:#}", short(&error.message))),
            EventKind::ToolStarted { call, .. } => {
                self.running.insert(path, call.name.clone());
                return Some(format!("{} {DIM}{}{DIM:#}", short(&call.name), short(&call.arguments)));
            }
            EventKind::ToolCompleted { result, duration_ms, .. } => {
                self.running.remove(&path);
                self.said.remove(&path);
                let (name, output) = (short(&result.name), short(&result.output));
                return Some(format!("{GOOD}{name}{GOOD:#} after {duration_ms} ms: {output}"));
            }
            EventKind::ToolFailed { result, duration_ms, .. } => {
                self.running.remove(&path);
                self.said.remove(&path);
                let (name, output) = (short(&result.name), short(&result.output));
                return Some(format!("{BAD}{name}{BAD:#} {} after {duration_ms} ms: {output}", result.status));
            }
            _ => {}
        }
        None
    }

    fn message(&self) -> String {
        let mut message = format!("step {}", self.turn.max(1));
        if self.running.is_empty() {
            match self.coming {
                0 => message.push_str(", the model thinks"),
                coming => {
                    message.push_str(", ");
                    message.push_str(&counted(coming, "character"));
                }
            }
        } else {
            message.push_str(", running ");
            let running = self.running.iter().map(|(path, name)| match self.said.get(path) {
                Some(said) => format!("{} ({})", short(name), short(said)),
                None => short(name),
            });
            message.push_str(&running.collect::<Vec<_>>().join(", "));
        }
        message.push_str(&format!(", {} + {} tokens", self.usage.input_tokens, self.usage.output_tokens));
        message
    }
}
