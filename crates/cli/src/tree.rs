//! Progress of a workflow on standard error: a live tree of nodes on a terminal, plain lines
//! otherwise.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use agentflow_schema::text::{OneLine, head};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::print::{BAD, DIM, GOOD, note, short};
use agentflow_core::event::{Event, EventKind, RunId};

/// Maximum number of bytes of a question's data to show.
const ABOUT: usize = 4096;

/// Shows the events of a run while it runs.
pub(super) struct Tree {
    shown: bool,
    /// `None` if standard error is not a terminal.
    bars: Option<MultiProgress>,
    /// Spinners of the running nodes, by path.
    running: BTreeMap<String, ProgressBar>,
    /// Option that names the store of the run; empty if the settings name it, `None` without a
    /// store.
    store: Option<String>,
}

impl Tree {
    pub(super) fn new(shown: bool, store: Option<String>) -> Self {
        let bars = (shown && io::stderr().is_terminal()).then(MultiProgress::new);
        Self { shown, bars, running: BTreeMap::new(), store }
    }

    pub(super) fn see(&mut self, event: &Event) {
        if !self.shown {
            return;
        }
        let path = OneLine(&event.path).to_string();
        match &event.kind {
            EventKind::NodeStarted { attempt, .. } => {
                self.begin(&path, event.path.depth(), *attempt);
            }
            EventKind::NodeCompleted { output, duration_ms, .. } => {
                let output = short(output.as_str());
                self.end(
                    &path,
                    format_args!("{GOOD}done{GOOD:#} {DIM}{duration_ms} ms: {output}{DIM:#}"),
                );
            }
            EventKind::NodeFailed { error, .. } => {
                self.end(
                    &path,
                    format_args!(
                        "{BAD}{}{BAD:#}: {}",
                        short(error.kind.as_str()),
                        short(&error.message)
                    ),
                );
            }
            EventKind::NodeRetrying { error, delay_ms, .. } => {
                let why = short(&error.message);
                self.end(&path, format_args!("{BAD}failed{BAD:#}, again in {delay_ms} ms: {why}"));
            }
            EventKind::NodeSkipped { reason } => {
                self.end(&path, format_args!("{DIM}skipped: {}{DIM:#}", OneLine(reason)));
            }
            EventKind::ApprovalRequested(request) => {
                self.ask(&event.run_id, &path, &request.message, request.payload.as_str());
            }
            EventKind::ApprovalResolved { answer, by } => {
                self.end(
                    &path,
                    format_args!("answered by {}: {}", short(by), short(answer.as_str())),
                );
            }
            EventKind::RunPaused { reason, .. } => {
                self.say(format_args!("{DIM}paused: {reason}{DIM:#}"));
            }
            EventKind::RunResumed { recovered: true, .. } => {
                self.say(format_args!("{DIM}resumed{DIM:#}"));
            }
            EventKind::RunResumed { .. } => self.say(format_args!("{DIM}continues{DIM:#}")),
            EventKind::ModelStarted { model, .. } => {
                self.detail(event, format_args!("asks {}", short(model)));
            }
            EventKind::ToolStarted { call, .. } => {
                self.detail(event, format_args!("calls {}", short(&call.name)));
            }
            _ => {}
        }
    }

    /// Prints a question, and, for a run with a store, the command that answers it.
    pub(super) fn ask(&self, run: &RunId, node: &str, question: &str, payload: &str) {
        if !self.shown {
            return;
        }
        // The data of a question is shown in full, unless it is very long.
        let about = head(payload, ABOUT);
        let more = if about.len() < payload.len() { ".. (`runs show` has all of it)" } else { "" };
        let payload = format!("{}{more}", OneLine(about));
        let (node, question, run) = (OneLine(node), OneLine(question), OneLine(run));
        self.say(format_args!("{node} asks: {question} {DIM}{payload}{DIM:#}"));
        if let Some(store) = &self.store {
            self.say(format_args!("  answer with: runs approve {run} {node}{store}"));
        }
    }

    fn begin(&mut self, path: &str, depth: usize, attempt: u32) {
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let Some(bars) = &self.bars else { return note(format_args!("{path} started{again}")) };
        let bar = bars.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{prefix}{spinner} {msg} {elapsed:.dim}") {
            bar.set_style(style);
        }
        // Items and branches are indented below their node.
        bar.set_prefix("  ".repeat(depth.saturating_sub(1)));
        bar.set_message(format!("{path}{again}"));
        bar.enable_steady_tick(Duration::from_millis(100));
        self.running.insert(path.to_owned(), bar);
    }

    fn end(&mut self, path: &str, how: std::fmt::Arguments<'_>) {
        if let Some(bar) = self.running.remove(path) {
            bar.finish_and_clear();
        }
        self.say(format_args!("{path} {how}"));
    }

    /// Shows the current activity of an agent node in the line of the node.
    fn detail(&mut self, event: &Event, what: std::fmt::Arguments<'_>) {
        // Finds the nearest enclosing node that has a spinner.
        let mut above = event.path.parent();
        while let Some(path) = above {
            if let Some(bar) = self.running.get(&OneLine(&path).to_string()) {
                return bar.set_message(format!("{}: {what}", OneLine(&path)));
            }
            above = path.parent();
        }
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        match &self.bars {
            Some(bars) => bars.suspend(|| note(text)),
            None => note(text),
        }
    }

    /// Removes all spinners from the terminal.
    pub(super) fn clear(&mut self) {
        for bar in std::mem::take(&mut self.running).into_values() {
            bar.finish_and_clear();
        }
    }
}
