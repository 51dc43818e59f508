//! Runs a program: first the plain function, then the workflow in every way. Compares each run with
//! the function.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agentflow::event::{EventKind, PauseReason};
use agentflow::message::ToolStatus;
use agentflow::run::Events;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde::Serialize;
use agentflow::serde_json::{self, Value};
use agentflow::store::{MemoryStore, Store};
use agentflow::value::Encoded;
use agentflow::{Approval, Error, Event, RunHandle, RunId, Runtime};
use agentflow_testing::{TestClock, check_events, trace};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};

use super::functions::rule;
use super::judge::{Allowance, Class, Difference, Ran, judge};
use super::store::{Cut, MortalStore};
use super::world::{self, Act, Noted};

/// Result of a run as JSON, or the text of the error.
pub type Outcome = Result<String, String>;

/// A generated program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Name of the workflow.
    pub name: &'static str,
    /// Number of inputs.
    pub cases: usize,
    /// The plain function.
    pub function: fn(usize) -> BoxFuture<'static, Outcome>,
    /// The workflow, called as a function; `None` if it asks a person.
    pub called: Option<fn(usize) -> BoxFuture<'static, Outcome>>,
    /// Registers the workflow with a runtime.
    pub register: fn(RuntimeBuilder) -> RuntimeBuilder,
    /// Returns an input as an object.
    pub input: fn(usize) -> Value,
}

/// Thoroughness of a test.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of schedules without a crash.
    pub schedules: usize,
    /// Number of crash points per input, limited by the number of writes.
    pub crashes: usize,
}

/// Statistics and differences of a program.
#[derive(Debug, Default)]
pub struct Seen {
    /// Number of runs.
    pub runs: usize,
    /// Number of crashes.
    pub crashes: usize,
    /// Number of inputs for which the function fails.
    pub failing: usize,
    /// Number of actions of the function.
    pub entries: usize,
    /// Differences, each with a description of its run.
    pub differences: Vec<(Difference, String)>,
    /// Actions of the first differing run, and its journal if it has one.
    pub journal: Vec<String>,
}

/// Converts a result to an outcome.
pub fn outcome<T: Serialize, E: fmt::Display>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(value) => {
            Ok(serde_json::to_string(&value).expect("results of programs have a JSON form"))
        }
        Err(error) => Err(error.to_string()),
    }
}

const OPERATOR: &str = "generated";
/// Time limit of a run in tokio's time, which is paused.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Runs a program with each of its inputs.
pub async fn play(program: &Program, effort: Effort) -> Seen {
    let mut seen = Seen::default();
    let mut chance = fastrand::Rng::with_seed(effort.seed);
    for case in 0..program.cases {
        world::begin(0);
        let function = caught((program.function)(case)).await;
        seen.failing += usize::from(function.outcome.is_err());
        seen.entries += function.log.len();
        if let Some(called) = program.called {
            world::begin(0);
            let ran = caught(called(case)).await;
            seen.judge(&function, &ran, Allowance::default(), "called as a function");
        }
        let mut run = Play { program, case, function: &function, seen: &mut seen, number: 0 };
        for _ in 0..effort.schedules {
            run.in_memory(chance.u64(..)).await;
        }
        let pace = chance.u64(..);
        let Some(writes) = run.durable(pace, &[]).await else { continue };
        let mut cuts: Vec<Cut> =
            (1..=writes).flat_map(|write| [false, true].map(|kept| Cut { write, kept })).collect();
        chance.shuffle(&mut cuts);
        cuts.truncate(effort.crashes);
        for cut in cuts {
            // A second crash follows every fourth one.
            match chance.u8(..4) {
                0 => {
                    run.durable(
                        pace,
                        &[cut, Cut { write: 1 + chance.usize(..6), kept: chance.bool() }],
                    )
                    .await
                }
                _ => run.durable(pace, &[cut]).await,
            };
        }
    }
    seen
}

impl Seen {
    fn judge(&mut self, function: &Ran, ran: &Ran, allowance: Allowance, how: &str) {
        self.runs += 1;
        self.crashes += allowance.crashes;
        let found = judge(function, ran, allowance);
        if self.journal.is_empty() && !found.is_empty() {
            self.journal.push(format!("{how}; {allowance:?}"));
            for (of, log) in [("function", &function.log), ("workflow", &ran.log)] {
                self.journal.extend(log.iter().map(|noted| match noted {
                    Noted::Entry(entry) => format!("  {of}: {entry}"),
                    mark => format!("  {of}: {mark:?}"),
                }));
            }
        }
        self.differences.extend(found.into_iter().map(|difference| (difference, how.to_owned())));
    }
}

/// Lets remaining work of an ended run or process happen before the next one starts.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn caught(future: BoxFuture<'static, Outcome>) -> Ran {
    let caught = AssertUnwindSafe(future).catch_unwind();
    let (outcome, panicked) = match tokio::time::timeout(PATIENCE, caught).await {
        Ok(Ok(outcome)) => (outcome, false),
        Ok(Err(panic)) => (Err(text_of(&*panic)), true),
        Err(_) => (Err("it hangs".to_owned()), false),
    };
    settle().await;
    Ran { outcome, panicked, log: world::log() }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text")
        .to_owned()
}

struct Play<'a> {
    program: &'a Program,
    case: usize,
    function: &'a Ran,
    seen: &'a mut Seen,
    number: usize,
}

/// Outcome of one process.
enum LifeEnd {
    Crashed,
    Ended(Outcome),
}

impl Play<'_> {
    fn input(&self) -> Encoded {
        Encoded::new(&(self.program.input)(self.case)).expect("inputs of programs have a JSON form")
    }

    fn run_id(&mut self) -> RunId {
        self.number += 1;
        RunId::new(format!("{}-{}-{}", self.program.name, self.case, self.number))
    }

    fn broken(&mut self, text: String, how: &str) {
        self.seen.differences.push((Difference { class: Class::Machine, text }, how.to_owned()));
    }

    async fn in_memory(&mut self, pace: u64) {
        let runtime = (self.program.register)(Runtime::builder().clock(TestClock::new())).build();
        let how = format!("case {} without a store, pace {pace}", self.case);
        let id = self.run_id();
        world::begin(pace);
        let allowance = Allowance { wrapped: true, ..Allowance::default() };
        match runtime.start_named(self.program.name, self.input()).run_id(id).await {
            Ok(handle) => match Driven::new(&handle).follow().await {
                Ok(()) => self.end(handle, allowance, &how).await,
                Err(problem) => self.broken(problem, &how),
            },
            Err(error) => self.broken(format!("it cannot be started: {error}"), &how),
        }
    }

    async fn end(&mut self, handle: RunHandle<Encoded>, allowance: Allowance, how: &str) {
        match tokio::time::timeout(PATIENCE, handle.result()).await {
            Ok(result) => {
                let outcome = result
                    .map(|value| value.as_str().to_owned())
                    .map_err(|error| error.to_string());
                settle().await;
                self.seen.judge(
                    self.function,
                    &Ran { outcome, panicked: false, log: world::log() },
                    allowance,
                    how,
                );
            }
            Err(_) => self.broken("it hangs after its last event".to_owned(), how),
        }
    }

    /// Executes a run in a store with crashes. Returns its number of writes, or `None` if it does
    /// not end.
    async fn durable(&mut self, pace: u64, cuts: &[Cut]) -> Option<usize> {
        let kept: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let id = self.run_id();
        let at: Vec<String> = cuts.iter().map(ToString::to_string).collect();
        let how = match at.is_empty() {
            true => format!("case {} in a store, pace {pace}", self.case),
            false => format!("case {}, pace {pace}, crash {}", self.case, at.join(", then ")),
        };
        let mut allowance = Allowance { wrapped: true, ..Allowance::default() };
        world::begin(pace);
        for cut in cuts.iter().copied().map(Some).chain([None]) {
            let store = MortalStore::new(&kept, cut);
            match self.live(&kept, &store, &id).await {
                Ok(LifeEnd::Crashed) => {
                    allowance.crashes += 1;
                    settle().await;
                    world::crash();
                }
                Ok(LifeEnd::Ended(outcome)) => {
                    settle().await;
                    allowance.retries = retried(&*kept, &id).await;
                    let ran = Ran { outcome, panicked: false, log: world::log() };
                    self.seen.judge(self.function, &ran, allowance, &how);
                    self.check_journal(&*kept, &id, &how).await;
                    return Some(store.writes());
                }
                Err(problem) => {
                    if self.seen.journal.is_empty() {
                        self.seen.journal.push(format!("{how};"));
                        self.journal(&*kept, &id).await;
                    }
                    self.broken(problem, &how);
                    return None;
                }
            }
        }
        self.broken("it does not end".to_owned(), &how);
        None
    }

    /// Adds the journal of a differing run to the report.
    async fn journal(&mut self, kept: &dyn Store, id: &RunId) {
        let events = kept.read(id, 0, usize::MAX).await.unwrap_or_default();
        self.seen
            .journal
            .extend(trace(&events).into_iter().map(|line| format!("  journal: {line}")));
    }

    async fn check_journal(&mut self, kept: &dyn Store, id: &RunId, how: &str) {
        let events = kept.read(id, 0, usize::MAX).await.unwrap_or_default();
        if self.seen.journal.first().is_some_and(|first| first.starts_with(&format!("{how};"))) {
            self.journal(kept, id).await;
        }
        if let Err(problems) = check_events(&events) {
            let text = problems.to_string();
            self.seen
                .differences
                .push((Difference { class: Class::Journal, text }, how.to_owned()));
        }
    }

    async fn live(
        &self,
        kept: &Arc<dyn Store>,
        store: &MortalStore,
        id: &RunId,
    ) -> Result<LifeEnd, String> {
        let builder = (self.program.register)(Runtime::builder().clock(TestClock::new()));
        let runtime = builder.store(store.clone()).build();
        let record = kept.record(id).await.map_err(|error| error.to_string())?;
        if record.as_ref().is_some_and(|record| record.status.has_ended()) {
            return Ok(LifeEnd::Ended(recorded_end(&**kept, id).await));
        }
        let begun = async {
            match record {
                None => {
                    runtime.start_named(self.program.name, self.input()).run_id(id.clone()).await
                }
                Some(_) => runtime.run(id).resume().await,
            }
        };
        let handle = tokio::select! {
            biased;
            () = store.died() => return Ok(LifeEnd::Crashed),
            begun = begun => begun.map_err(|error| format!("it cannot be started or resumed: {error}"))?,
            () = tokio::time::sleep(PATIENCE) => return Err("starting or resuming it hangs".to_owned()),
        };
        let followed = tokio::select! {
            biased;
            () = store.died() => None,
            followed = Driven::new(&handle).follow() => Some(followed),
        };
        if let Some(Ok(())) = followed {
            tokio::select! {
                biased;
                () = store.died() => {}
                result = handle.result() => {
                    let outcome = result.map(|value| value.as_str().to_owned()).map_err(|error| error.to_string());
                    return Ok(LifeEnd::Ended(outcome));
                }
                () = tokio::time::sleep(PATIENCE) => return Err("it hangs after its last event".to_owned()),
            }
        }
        let mut events = handle.events();
        handle.abandon();
        let drained = async { while events.next().await.is_some() {} };
        let gone = tokio::time::timeout(PATIENCE, drained).await;
        gone.map_err(|_| "something of it continues after its process ended".to_owned())?;
        match followed {
            Some(Err(problem)) => Err(problem),
            _ => Ok(LifeEnd::Crashed),
        }
    }
}

/// Returns how often an operator retried interrupted steps, including the items of a node. It is
/// read from the journal, since the process may have ended before the operator received the
/// response.
async fn retried(kept: &dyn Store, id: &RunId) -> usize {
    let events = kept.read(id, 0, usize::MAX).await.unwrap_or_default();
    let is_interrupted = |event: &&Event| match &event.kind {
        EventKind::NodeFailed { error, .. } => error.kind == "interrupted",
        EventKind::ToolFailed { result, .. } => result.status == ToolStatus::Interrupted,
        _ => false,
    };
    match events.iter().any(|event| matches!(event.kind, EventKind::NodeReset { .. })) {
        true => events.iter().filter(is_interrupted).count(),
        false => 0,
    }
}

/// Returns the recorded outcome of a run whose process ended right after the run.
async fn recorded_end(kept: &dyn Store, id: &RunId) -> Outcome {
    let events = kept.read(id, 0, usize::MAX).await.unwrap_or_default();
    events
        .iter()
        .rev()
        .find_map(|event| match &event.kind {
            EventKind::RunCompleted(completed) => Some(Ok(completed
                .workflow()
                .map(|workflow| workflow.output.to_string())
                .unwrap_or_default())),
            EventKind::RunFailed { error } => Some(Err(error.message.to_string())),
            EventKind::RunCancelled { reason, .. } => Some(Err(reason.to_string())),
            _ => None,
        })
        .unwrap_or_else(|| Err("its journal has no end".to_owned()))
}

/// Simulates the people around a run. They answer its questions and retry interrupted steps.
struct Driven<'a> {
    handle: &'a RunHandle<Encoded>,
    events: Events,
    asking: Vec<(String, String)>,
    interrupted: BTreeSet<String>,
    /// Paths of the run and of nested workflows that wait for a decision.
    waits: BTreeSet<String>,
}

impl<'a> Driven<'a> {
    fn new(handle: &'a RunHandle<Encoded>) -> Self {
        let events = handle.events();
        Self {
            handle,
            events,
            asking: Vec::new(),
            interrupted: BTreeSet::new(),
            waits: BTreeSet::new(),
        }
    }

    /// Follows the run until its last event.
    async fn follow(mut self) -> Result<(), String> {
        loop {
            let todo = !(self.waits.is_empty() && self.asking.is_empty());
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(event) => self.apply(&event),
                    None => return Ok(()),
                },
                // A person takes a moment, so that actions that do not wait for the answer can
                // happen.
                () = tokio::time::sleep(Duration::from_millis(50)), if todo => self.act().await?,
                () = tokio::time::sleep(PATIENCE) => return Err("it hangs".to_owned()),
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::ApprovalRequested(request) => {
                self.asking.push((path, request.message.clone()));
            }
            EventKind::ApprovalResolved { .. } => self.asking.retain(|(asking, _)| *asking != path),
            EventKind::NodeFailed { error, .. } => {
                self.forget_questions(&path);
                if error.kind == "interrupted" {
                    self.interrupted.insert(path);
                }
            }
            EventKind::NodeReset { .. } | EventKind::NodeStarted { .. } => {
                self.interrupted.remove(&path);
            }
            EventKind::RunPaused { reason: PauseReason::Interrupted, .. } => {
                self.waits.insert(path);
            }
            EventKind::RunResumed { recovered: false, .. } => drop(self.waits.remove(&path)),
            _ => {}
        }
    }

    /// Discards the questions of a step that has ended.
    fn forget_questions(&mut self, path: &str) {
        let within = |asking: &str| {
            asking
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
        };
        self.asking.retain(|(asking, _)| !within(asking));
    }

    async fn act(&mut self) -> Result<(), String> {
        if let Some((path, question)) = self.asking.pop() {
            // Questions of gates have a prefix. The others are about tools that need an approval.
            let answer = match question.strip_prefix("gate ") {
                Some(_) => {
                    world::note(Act::Gate, "gate", 0, question.clone());
                    rule(&question)
                }
                None => Approval::granted(),
            };
            let answered = self.handle.answer(&path, &answer, OPERATOR).await;
            return answered.map_err(|error| {
                format!("`{path}` asks `{question}` and takes no answer: {error}")
            });
        }
        self.waits.clear();
        let (mut problems, mut done) = (Vec::new(), false);
        for path in std::mem::take(&mut self.interrupted) {
            match self.handle.retry(&path, OPERATOR).await {
                Ok(()) => done = true,
                // A decision about an item applies to its whole node.
                Err(Error::Control(error)) => problems.push(error.to_string()),
                Err(error) => return Err(error.to_string()),
            }
        }
        match done {
            true => Ok(()),
            false => {
                Err(format!("it waits for a decision that cannot be made: {}", problems.join("; ")))
            }
        }
    }
}
