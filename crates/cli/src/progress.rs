//! Progress of an agent's run on standard error: a spinner on a terminal, plain lines otherwise.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::print::{BAD, DIM, GOOD, counted, note, short};
use agentflow_core::event::{Event, EventKind, ModelDelta};
use agentflow_core::model::{ModelInfo, Usage};

/// Shows the events of a run while it runs.
pub(super) struct Progress {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    shown: bool,
    state: State,
}

/// A model with the name that the user wrote, such as `local/small`. Events have the wire format
/// instead, such as `openai-chat`.
pub(super) struct NamedModel {
    pub(super) reference: String,
    pub(super) info: ModelInfo,
}

/// State shown in the line of the spinner.
struct State {
    model: NamedModel,
    turn: u32,
    /// Names of the running tools, by the path of their step.
    running: BTreeMap<String, String>,
    /// Latest progress message of each running tool, by the same path.
    said: BTreeMap<String, String>,
    usage: Usage,
    /// Number of characters received of the current answer.
    coming: usize,
}

impl Progress {
    /// Creates a progress display. Shows nothing if `shown` is `false`.
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

    /// Handles an event.
    pub(super) fn see(&mut self, event: &Event) {
        if !self.shown {
            return;
        }
        let said = self.state.see(event);
        match &self.bar {
            None => said.into_iter().for_each(note),
            Some(bar) => {
                // The spinner already shows the current turn.
                if let Some(line) =
                    said.filter(|_| !matches!(event.kind, EventKind::ModelStarted { .. }))
                {
                    // Hides the spinner while the line is printed.
                    bar.suspend(|| note(line));
                }
                bar.set_message(self.state.message());
            }
        }
    }

    /// Removes the spinner from the terminal.
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

    /// Updates the state and returns the line to print for an event, if any.
    fn see(&mut self, event: &Event) -> Option<String> {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::ModelStarted { provider, model } => {
                self.turn += 1;
                self.coming = 0;
                let NamedModel { reference, info } = &self.model;
                let name = match (provider, model) == (&info.provider, &info.model) {
                    true => short(reference),
                    // A model of an agent that is called as a tool.
                    false => format!("{}/{}", short(provider), short(model)),
                };
                return Some(format!("{DIM}step {}: {name}{DIM:#}", self.turn));
            }
            EventKind::ModelDelta(ModelDelta::Text(text) | ModelDelta::Reasoning(text)) => {
                self.coming += text.chars().count();
            }
            EventKind::StepProgress { value } => {
                let said = value.decode::<String>().unwrap_or_else(|_| value.to_string());
                // Progress is shown next to its running tool; other steps have no place in the
                // line.
                if self.running.contains_key(&path) {
                    self.said.insert(path, said);
                }
            }
            EventKind::ModelCompleted(response) => {
                self.coming = 0;
                self.usage.add(&response.usage);
            }
            EventKind::ModelFailed { error } => {
                return Some(format!("{BAD}{}{BAD:#}", short(&error.message)));
            }
            EventKind::ToolStarted { call, .. } => {
                self.running.insert(path, call.name.clone());
                return Some(format!(
                    "{} {DIM}{}{DIM:#}",
                    short(&call.name),
                    short(&call.arguments)
                ));
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
                return Some(format!(
                    "{BAD}{name}{BAD:#} {} after {duration_ms} ms: {output}",
                    result.status
                ));
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
        message.push_str(&format!(
            ", {} + {} tokens",
            self.usage.input_tokens, self.usage.output_tokens
        ));
        message
    }
}
