//! Shared by the kill test and its processes: the operators' requests, and the state of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentflow::event::{EventKind, PauseReason};
use agentflow::serde_json::{self, Value, json};
use agentflow::{Event, RunId};

/// What operators asked for and what they were answered, a line each, from all processes.
#[derive(Clone, Debug)]
pub struct WordFile(PathBuf);

/// One word of an operator.
#[derive(Clone, Debug)]
pub struct Word {
    /// Unique; the journal has it as the operator's name or the reason.
    pub token: String,
    /// `answer`, `retry`, `cancel`, `pause` or `unpause`.
    pub kind: String,
    /// The run.
    pub run: RunId,
    /// The node, if it is about one.
    pub node: String,
    /// How many events the run had before it was asked.
    pub seen: u64,
    /// `None` while there is no outcome, and for ever when its process was killed; an `Err` is the refusal.
    pub outcome: Option<Result<(), String>>,
    /// How many events the run had right after it was accepted, if the operator lived to look.
    pub after: Option<u64>,
}

impl WordFile {
    /// The words in this file, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Adds a line, in one write, on the disk when this returns.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&self, line: &Value) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }

    /// Something that a process did not expect.
    ///
    /// # Errors
    /// Those of the file.
    pub fn complain(&self, what: &str) -> io::Result<()> {
        self.write(&json!({"complaint": what, "process": std::process::id()}))
    }

    /// What a process does, for those who look for the cause of a failure.
    ///
    /// # Errors
    /// Those of the file.
    pub fn note(&self, what: &str) -> io::Result<()> {
        self.write(&json!({"note": what, "process": std::process::id()}))
    }

    /// All complaints.
    pub fn complaints(&self) -> Vec<String> {
        self.lines().into_iter().filter_map(|line| Some(line["complaint"].as_str()?.to_owned())).collect()
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        // The last one may be half there.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// All words, in the order of their beginning.
    pub fn words(&self) -> Vec<Word> {
        let (mut words, mut at): (Vec<Word>, BTreeMap<String, usize>) = (Vec::new(), BTreeMap::new());
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

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Where a run is, from its journal.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// The nodes that ask.
    pub asking: BTreeSet<String>,
    /// The nodes that were interrupted and wait for a decision.
    pub interrupted: BTreeSet<String>,
    /// The nodes that failed otherwise.
    pub failed: Vec<String>,
    /// Whether an operator paused it.
    pub paused: bool,
    /// The name of its last event, when that is an end.
    pub end: Option<&'static str>,
    /// How many events it has.
    pub events: u64,
}

impl Look {
    /// Where these events lead.
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
                EventKind::ApprovalResolved { .. } | EventKind::NodeStarted { .. } | EventKind::NodeReset { .. } => {
                    look.asking.remove(&path);
                    let part =
                        |of: &str| of == path || of.strip_prefix(&path).is_some_and(|rest| rest.starts_with('['));
                    look.interrupted.retain(|of| !part(of));
                    look.failed.retain(|of| !part(of));
                }
                EventKind::RunPaused { reason: PauseReason::Operator, .. } => look.paused = true,
                // A workflow that is a step continues by itself.
                EventKind::RunResumed { recovered: false, .. } if event.path.is_root() => look.paused = false,
                _ => {}
            }
        }
        look.end = events.last().filter(|event| event.kind.ends_run()).map(|event| event.kind.shape().name);
        look
    }

    /// Whether nothing happens before somebody says something.
    pub fn waits(&self) -> bool {
        self.paused || !self.asking.is_empty() || !self.interrupted.is_empty()
    }
}
