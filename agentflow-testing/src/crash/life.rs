//! Simulates one process of a run: starts or resumes the run, answers its questions, and ends or
//! crashes.
//!
//! It does not check the run; the journal contains the results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::path::StepPath;
use agentflow::run::Events;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::Value;
use agentflow::store::{MemoryStore, Store};
use agentflow::{Error, Event, RunId, Runtime};
use futures_util::StreamExt;

use super::decisions::PendingDecisions;
use super::messages::{Due, Mail, ScriptedMessage};
use super::store::{CrashStore, Cut};
use super::subject::{Alive, Subject};
use crate::time::TestClock;

/// An operator's decision on a step that a crash interrupted and that must not be repeated
/// automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interruption {
    /// Runs the step again.
    Retry,
    /// Cancels the run. It then ends without its result, which the test accepts.
    Cancel,
}

pub(super) type Describe = Arc<dyn Fn(RuntimeBuilder) -> RuntimeBuilder + Send + Sync>;
pub(super) type Decide = Arc<dyn Fn(&StepPath) -> Interruption + Send + Sync>;

/// The environment of a run, the same for each simulated process.
pub(super) struct World {
    pub(super) describe: Describe,
    pub(super) answers: BTreeMap<String, Value>,
    /// Paths of the questions whose time-out is expected to expire.
    pub(super) unanswered: BTreeSet<String>,
    /// Messages that are sent to the run.
    pub(super) messages: Vec<ScriptedMessage>,
    pub(super) decide: Decide,
    pub(super) patience: Duration,
}

/// The end of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEnd {
    Crashed,
    Ended,
}

/// A simulated process that has ended.
pub(super) struct Life {
    pub(super) end: LifeEnd,
    /// Number of writes that it started.
    pub(super) writes: usize,
    /// `true` if the process had to start the run again, because nothing was stored.
    pub(super) anew: bool,
}

/// Name of the operator in the journal.
const OPERATOR: &str = "crash test";

/// Executes one simulated process of a run.
pub(super) async fn live(
    world: &World,
    subject: &dyn Subject,
    kept: &MemoryStore,
    clock: &TestClock,
    run: &RunId,
    cut: Option<Cut>,
) -> Result<Life, String> {
    let store = CrashStore::new(kept, cut);
    let runtime =
        (world.describe)(Runtime::builder().clock(clock.clone())).store(store.clone()).build();
    let record = kept.record(run).await.map_err(|error| error.to_string())?;
    let anew = record.is_none();
    let life = |end| Ok(Life { end, writes: store.writes(), anew });
    // The previous process crashed after the last write, so nothing is left to do.
    if record.is_some_and(|record| record.status.has_ended()) {
        return life(LifeEnd::Ended);
    }
    // Messages for steps that had started before the crash must arrive before the run continues:
    // the step may be over as soon as it is resumed.
    let mailed = async {
        if anew {
            return Ok::<(), String>(());
        }
        let mut mail = Mail::default();
        let events = kept.read(run, 0, usize::MAX).await.map_err(|error| error.to_string())?;
        events.iter().for_each(|event| mail.apply(event));
        while let Some(text) = mail.of_a_step(&world.messages) {
            send(&runtime, run, text).await?;
            mail.sent(text);
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = store.died() => return life(LifeEnd::Crashed),
        mailed = mailed => mailed?,
        () = tokio::time::sleep(world.patience) => return Err("sending a message hangs".to_owned()),
    }
    let begun = async {
        match anew {
            true => subject.start(&runtime, run.clone()).await,
            false => subject.resume(&runtime, run).await,
        }
    };
    let alive = tokio::select! {
        biased;
        () = store.died() => return life(LifeEnd::Crashed),
        begun = begun => begun.map_err(|error| match anew {
            true => format!("the run could not be started: {error}"),
            false => format!("the run could not be resumed: {error}"),
        })?,
        () = tokio::time::sleep(world.patience) => return Err("beginning the run hangs".to_owned()),
    };
    let mut driven = Driven {
        world,
        runtime: &runtime,
        run,
        asking: BTreeMap::new(),
        asked: BTreeSet::new(),
        decisions: PendingDecisions::default(),
        mail: Mail::default(),
    };
    let mut events = alive.events();
    // `biased` polls the store first, so that a crash takes precedence over anything the run still
    // does.
    let ended = tokio::select! {
        biased;
        () = store.died() => None,
        ended = driven.follow(&mut events) => Some(ended),
    };
    match ended {
        None => {
            alive.abandon();
            gone(events, world.patience).await?;
            life(LifeEnd::Crashed)
        }
        Some(Err(problem)) => {
            alive.abandon();
            gone(events, world.patience).await?;
            Err(problem)
        }
        Some(Ok(())) => finish(alive, &store, world.patience).await.and_then(life),
    }
}

/// Waits for the end of the run's task after its last event, unless the process crashes first.
async fn finish(
    alive: Box<dyn Alive>,
    store: &CrashStore,
    patience: Duration,
) -> Result<LifeEnd, String> {
    tokio::select! {
        biased;
        () = store.died() => Ok(LifeEnd::Crashed),
        finished = alive.finish() => match finished {
            Ok(()) => Ok(LifeEnd::Ended),
            Err(error) => Err(format!("the run stopped without an end: {error}")),
        },
        () = tokio::time::sleep(patience) => Err("the run hangs after its last event".to_owned()),
    }
}

/// Waits until the driver is dropped, because a process must have stopped completely before the
/// next one starts.
async fn gone(mut events: Events, patience: Duration) -> Result<(), String> {
    let drained = async { while events.next().await.is_some() {} };
    let ended = tokio::time::timeout(patience, drained).await;
    ended.map_err(|_| "the run was dropped and something of it continues".to_owned())
}

/// Sends the run a message as a person.
async fn send(runtime: &Runtime, run: &RunId, text: &str) -> Result<(), String> {
    let sent = runtime.run(run).send_message(text).await;
    sent.map_err(|error| format!("the message `{text}` is refused: {error}"))
}

struct Driven<'a> {
    world: &'a World,
    runtime: &'a Runtime,
    run: &'a RunId,
    /// Open questions with their time-outs.
    asking: BTreeMap<String, Option<Duration>>,
    /// Paths of all questions so far.
    asked: BTreeSet<String>,
    /// Steps that a crash interrupted.
    decisions: PendingDecisions,
    /// Messages that were sent.
    mail: Mail,
}

impl Driven<'_> {
    /// Follows the run to its last event and acts as operator and user meanwhile.
    async fn follow(&mut self, events: &mut Events) -> Result<(), String> {
        loop {
            let is_answered = |node: &String| self.world.answers.contains_key(node);
            let todo = self.decisions.are_due()
                || self.asking.keys().any(is_answered)
                || self.mail.due(&self.world.messages).is_some();
            let longest = self.asking.values().copied().flatten().max().unwrap_or_default();
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(event) => self.apply(&event),
                    None => return Ok(()),
                },
                // `biased` handles pending events first, so actions are based on all of them.
                () = std::future::ready(()), if todo => {
                    let acted = tokio::time::timeout(self.world.patience, self.act()).await;
                    acted.map_err(|_| "what an operator asks for is not answered".to_owned())??;
                }
                problem = std::future::ready(self.unanswerable()), if !todo && self.unanswerable().is_some() => {
                    return Err(problem.unwrap_or_default());
                }
                () = tokio::time::sleep(self.world.patience + longest) => {
                    return Err(format!("the run hangs: nothing was recorded for {:?}", self.world.patience + longest));
                }
            }
        }
    }

    /// Explains why an open question will not be answered, if its time-out is not expected to
    /// expire.
    fn unanswerable(&self) -> Option<String> {
        let World { answers, unanswered, .. } = self.world;
        let (node, limit) = self.asking.iter().find(|(node, limit)| {
            !(answers.contains_key(*node) || limit.is_some() && unanswered.contains(*node))
        })?;
        if unanswered.contains(node) {
            return Some(format!(
                "`{node}` asks without a time-out, so `unanswered(\"{node}\")` would leave it asking for ever"
            ));
        }
        let given = answers.keys().filter(|given| !self.asked.contains(*given));
        let given: Vec<String> = given.map(|given| format!("`{given}`")).collect();
        let others = match given.is_empty() {
            true => String::new(),
            false => {
                format!(" (there are answers for {}, which did not ask so far)", given.join(", "))
            }
        };
        let or = if limit.is_some() {
            format!(", or let its time-out pass with `unanswered(\"{node}\")`")
        } else {
            String::new()
        };
        Some(format!(
            "`{node}` asks for an answer and the test has none; give it with `answer(\"{node}\", ..)`{or}{others}"
        ))
    }

    fn apply(&mut self, event: &Event) {
        self.decisions.apply(event);
        self.mail.apply(event);
        let path = event.path.to_string();
        match &event.kind {
            EventKind::ApprovalRequested(request) => {
                self.asked.insert(path.clone());
                self.asking.insert(path, request.timeout_ms.map(Duration::from_millis));
            }
            EventKind::ApprovalResolved { .. } | EventKind::NodeFailed { .. } => {
                self.asking.remove(&path);
            }
            _ => {}
        }
    }

    async fn act(&mut self) -> Result<(), String> {
        if let Some((node, answer)) =
            self.asking.keys().find_map(|node| self.world.answers.get_key_value(node))
        {
            self.asking.remove(node);
            let answered = self.runtime.run(self.run).answer(node, answer, OPERATOR).await;
            return answered
                .map_err(|error| format!("`{node}` asks, and does not take its answer: {error}"));
        }
        if let Some(due) = self.mail.due(&self.world.messages) {
            return match due {
                Due::Send(text) => {
                    send(self.runtime, self.run, text).await?;
                    self.mail.sent(text);
                    Ok(())
                }
                Due::Close => {
                    let closed = self.runtime.run(self.run).close().await;
                    closed.map_err(|error| {
                        format!("the run waits for a message, and is not closed: {error}")
                    })?;
                    self.mail.close();
                    Ok(())
                }
            };
        }
        let (due, mut decided, mut problems) = (self.decisions.take(), Vec::new(), Vec::new());
        for path in due.steps() {
            let (node, cancels) =
                (path.to_string(), (self.world.decide)(path) == Interruption::Cancel);
            let outcome = match cancels {
                true => self.runtime.run(self.run).cancel("a step was interrupted").await,
                false => self.runtime.run(self.run).retry(&node, OPERATOR).await,
            };
            match outcome {
                // Cancelling the run ends all pending decisions in it.
                Ok(()) if cancels => return Ok(()),
                Ok(()) => decided.push(path.clone()),
                // Some paths cannot be decided on: an item is decided on with its node, and a step
                // that may fail needs no decision. They are reported only if a workflow remains
                // undecided.
                Err(Error::Control(error)) => problems.push(error.to_string()),
                Err(error) => return Err(error.to_string()),
            }
        }
        match due.left(&decided).first() {
            None => Ok(()),
            Some(of) => {
                let of = if of.is_root() {
                    "the run".to_owned()
                } else {
                    format!("the workflow at `{of}`")
                };
                Err(format!(
                    "{of} waits for a decision that cannot be made: {}",
                    problems.join("; ")
                ))
            }
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("answers", &self.answers.keys()).finish_non_exhaustive()
    }
}
