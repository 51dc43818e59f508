//! Code shared by the kill test and its processes: the log of the operators' requests, and the
//! state of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentflow::event::{EventKind, PauseReason};
use agentflow::serde_json::{self, Value, json};
use agentflow::{Event, RunId};

/// A log of the operators' requests and their outcomes, one JSON line each, written by all
/// processes.
#[derive(Clone, Debug)]
pub struct WordFile(PathBuf);

/// A request of an operator.
#[derive(Clone, Debug)]
pub struct Word {
    /// Unique token. The journal contains it as the operator's name or as the reason.
    pub token: String,
    /// `answer`, `retry`, `cancel`, `pause` or `unpause`.
    pub kind: String,
    /// Id of the run.
    pub run: RunId,
    /// Node that the request is about; empty for a request about the run.
    pub node: String,
    /// Number of events of the run before the request.
    pub seen: u64,
    /// Outcome of the request; an `Err` is the refusal. `None` while there is no outcome, and
    /// forever if the process was killed first.
    pub outcome: Option<Result<(), String>>,
    /// Number of events of the run right after the request was accepted, if the operator survived
    /// to count them.
    pub after: Option<u64>,
}

impl WordFile {
    /// Opens the log in this file, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Appends a line with a single write, and syncs it to disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, line: &Value) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }

    /// Logs an unexpected event in a process.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn complain(&self, what: &str) -> io::Result<()> {
        self.write(&json!({"complaint": what, "process": std::process::id()}))
    }

    /// Logs progress of a process, as help for finding the cause of a failure.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&self, what: &str) -> io::Result<()> {
        self.write(&json!({"note": what, "process": std::process::id()}))
    }

    /// Returns all complaints.
    pub fn complaints(&self) -> Vec<String> {
        self.lines()
            .into_iter()
            .filter_map(|line| Some(line["complaint"].as_str()?.to_owned()))
            .collect()
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        // A killed process may have left half a line at the end.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns all requests, ordered by when they were sent.
    pub fn words(&self) -> Vec<Word> {
        let (mut words, mut at): (Vec<Word>, BTreeMap<String, usize>) =
            (Vec::new(), BTreeMap::new());
        for line in self.lines() {
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            let token = text("token");
            match (text("what").as_str(), at.get(&token)) {
                ("begin", _) => {
                    at.insert(token.clone(), words.len());
                    words.push(Word {
                        token,
                        kind: text("kind"),
                        run: RunId::new(text("run")),
                        node: text("node"),
                        seen: line["seen"].as_u64().unwrap_or_default(),
                        outcome: None,
                        after: None,
                    });
                }
                ("ok", Some(word)) => words[*word].outcome = Some(Ok(())),
                ("err", Some(word)) => words[*word].outcome = Some(Err(text("message"))),
                ("after", Some(word)) => words[*word].after = line["after"].as_u64(),
                _ => {}
            }
        }
        words
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// The state of a run, derived from its journal.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Nodes that wait for an answer.
    pub asking: BTreeSet<String>,
    /// Nodes that were interrupted and wait for an operator's decision.
    pub interrupted: BTreeSet<String>,
    /// Nodes that failed for another reason.
    pub failed: Vec<String>,
    /// `true` if an operator paused the run.
    pub paused: bool,
    /// Name of the last event if it ends the run.
    pub end: Option<&'static str>,
    /// Number of events.
    pub events: u64,
}

impl Look {
    /// Derives the state from a run's events.
    pub fn of(events: &[Event]) -> Self {
        let mut look = Self { events: events.len() as u64, ..Self::default() };
        for event in events {
            let path = event.path.to_string();
            match &event.kind {
                EventKind::ApprovalRequested(_) => {
                    look.asking.insert(path);
                }
                EventKind::NodeFailed { error, .. } if error.kind == "interrupted" => {
                    look.interrupted.insert(path);
                }
                EventKind::NodeFailed { error, .. } => {
                    look.asking.remove(&path);
                    look.interrupted.remove(&path);
                    if error.kind != "cancelled" {
                        look.failed.push(path);
                    }
                }
                EventKind::ApprovalResolved { .. }
                | EventKind::NodeStarted { .. }
                | EventKind::NodeReset { .. } => {
                    look.asking.remove(&path);
                    let part = |of: &str| {
                        of == path
                            || of.strip_prefix(&path).is_some_and(|rest| rest.starts_with('['))
                    };
                    look.interrupted.retain(|of| !part(of));
                    look.failed.retain(|of| !part(of));
                }
                EventKind::RunPaused { reason: PauseReason::Operator, .. } => look.paused = true,
                // A nested workflow also records `run.resumed`; only the root event unpauses the
                // run.
                EventKind::RunResumed { recovered: false, .. } if event.path.is_root() => {
                    look.paused = false;
                }
                _ => {}
            }
        }
        look.end = events
            .last()
            .filter(|event| event.kind.ends_run())
            .map(|event| event.kind.shape().name);
        look
    }

    /// Returns `true` if the run cannot continue without a request.
    pub fn waits(&self) -> bool {
        self.paused || !self.asking.is_empty() || !self.interrupted.is_empty()
    }
}
