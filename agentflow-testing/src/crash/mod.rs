//! Crash injection: interrupts a run at every write to its journal, resumes it, and checks that it
//! ends as it does without the crash.
//!
//! [`CrashTest`] is the entry point. For each [`Cut`] it executes the run in a sequence of
//! simulated processes (`life`), each with a [`CrashStore`](self::store::CrashStore) that stops at
//! the cut. `subject` starts and resumes a workflow or an agent. `decisions` and `messages` play
//! the operator and the user. `verify` checks the journal, and `report` summarizes all runs. `kill`
//! does the same with real processes.
//!
//! Only the store's writes are intercepted: the state machine, the driver and the runtime are the
//! real ones.

mod decisions;
mod effects;
mod kill;
mod life;
mod messages;
mod report;
mod store;
mod subject;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::path::StepPath;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::{MemoryStore, Store};
use agentflow::value::NodeValue;
use agentflow::workflow::{Inputs, IntoInputs};
use agentflow::{Agent, Event, RunId, Workflow};

pub use self::effects::EffectLog;
pub use self::kill::{KillReport, KillTest};
pub use self::life::Interruption;
use self::life::{LifeEnd, World, live};
use self::messages::{Mail, ScriptedMessage, SendTime};
pub use self::report::{CrashReport, StepReport};
use self::store::{Cut, Side};
use self::subject::{OfAgent, OfWorkflow, Subject};
pub use self::verify::Again;
use self::verify::{Outcome, Verdict, verify};
use crate::time::TestClock;
use crate::trace::trace;

/// Crashes a run at every write to its journal, before and after the write, and resumes it in a new
/// runtime.
///
/// After each crash it requires that:
/// - the run ends as it does without the crash;
/// - no step with a recorded outcome runs again;
/// - no step that must not be repeated starts twice, unless a record of a retry or of an operator's
///   decision permits it;
/// - the events are well-formed ([`check_events`](crate::check_events));
/// - the run does not hang.
///
/// ```
/// use agentflow::Workflow;
/// use agentflow_testing::CrashTest;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> agentflow::Result<()> {
/// let sums = Workflow::<(i64, i64), i64>::build("sums", ["a", "b"], |b, (x, y)| {
///     let twice = b.node("twice", (x,), |_cx, (x,)| async move { Ok::<_, agentflow::Error>(2 * x) });
///     let thrice = b.node("thrice", (y,), |_cx, (y,)| async move { Ok::<_, agentflow::Error>(3 * y) });
///     b.value("sum", (twice, thrice), |(x, y)| Ok::<_, agentflow::Error>(x + y))
/// })?;
///
/// CrashTest::new(&sums, || (1, 2)).run().await;
/// # Ok(())
/// # }
/// ```
///
/// A model must be able to answer a repeated request: use
/// [`ScriptedModel::from_fn`](crate::ScriptedModel::from_fn). With tokio's paused clock,
/// `#[tokio::test(start_paused = true)]`, waits take no real time and the runs are reproducible.
#[must_use = "a test does nothing until `run`"]
pub struct CrashTest {
    subject: Box<dyn Subject>,
    world: World,
    effects: Option<EffectLog>,
    twice: bool,
    may_differ: bool,
    fails: bool,
}

impl CrashTest {
    /// Creates a test of a workflow with this input. External state of the workflow, if any,
    /// survives the crashes.
    pub fn new<In, Out, I>(
        workflow: &Workflow<In, Out>,
        input: impl Fn() -> I + Send + Sync + 'static,
    ) -> Self
    where
        In: Inputs,
        Out: NodeValue,
        I: IntoInputs<In> + 'static,
    {
        Self::from_subject(OfWorkflow { workflow: workflow.clone(), input, compensates: false })
    }

    /// Creates a test of an agent with this request. The test replaces the agent's runtime.
    pub fn agent<O, R>(agent: &Agent<O>, request: impl Fn() -> R + Send + Sync + 'static) -> Self
    where
        O: Send + Sync + 'static,
        R: Into<RunRequest> + 'static,
    {
        Self::from_subject(OfAgent { agent: agent.clone(), request })
    }

    fn from_subject(subject: impl Subject + 'static) -> Self {
        let world = World {
            describe: Arc::new(|builder| builder),
            answers: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            messages: Vec::new(),
            decide: Arc::new(|_| Interruption::Retry),
            patience: Duration::from_secs(60 * 60),
        };
        Self {
            subject: Box::new(subject),
            world,
            effects: None,
            twice: false,
            may_differ: false,
            fails: false,
        }
    }

    /// Configures the runtime of each simulated process: resources, models, sinks. The test sets
    /// the store.
    pub fn runtime(
        mut self,
        describe: impl Fn(RuntimeBuilder) -> RuntimeBuilder + Send + Sync + 'static,
    ) -> Self {
        self.world.describe = Arc::new(describe);
        self
    }

    /// Sets a person's answer to the question of a gate, or of a node that needs approval, by the
    /// node's path. The test fails if a question has no answer, unless its time-out is expected to
    /// expire ([`unanswered`](Self::unanswered)), and if an answer is never used.
    ///
    /// # Panics
    /// If the answer cannot be serialized to JSON.
    pub fn answer<A: NodeValue>(mut self, node: impl Into<String>, answer: A) -> Self {
        let node = node.into();
        let encoded = answer.encode().and_then(|answer| answer.decode());
        match encoded {
            Ok(answer) => drop(self.world.answers.insert(node, answer)),
            Err(error) => panic!("the answer for `{node}` has no JSON form: {error}"),
        }
        self
    }

    /// Leaves a gate's question unanswered, so that its time-out expires each time it is asked.
    pub fn unanswered(mut self, node: impl Into<String>) -> Self {
        self.world.unanswered.insert(node.into());
        self
    }

    /// Sends the agent this message when its [live run](RunRequest::live) waits for one. Several
    /// messages are sent in the order of these calls, one each time the run waits. After the last
    /// one, the run is closed the next time it waits. After a crash, messages that are not in the
    /// journal are sent again. The test fails if a message is never sent.
    ///
    /// ```
    /// use agentflow::agent::RunRequest;
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{CrashTest, ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let model = ScriptedModel::from_fn(|request| Turn::text(format!("after {} messages", request.messages.len())));
    /// CrashTest::agent(&Agent::new(model), || RunRequest::new("zero").live()).message("one").message("two").run().await;
    /// # }
    /// ```
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.world.messages.push(ScriptedMessage { moment: SendTime::Waits, text: text.into() });
        self
    }

    /// Sends the agent this message after a step has started. For example, `tool#1.pay` is the
    /// first tool call of turn 1 to the tool `pay`. The step must take some time, so that the run
    /// does not end first: for example, a tool that sleeps for a second of paused time. After a
    /// crash, the message is sent before another process continues the run, unless it is in the
    /// journal. The test fails if the step never starts.
    pub fn message_during(mut self, step: impl Into<String>, text: impl Into<String>) -> Self {
        self.world
            .messages
            .push(ScriptedMessage { moment: SendTime::Begun(step.into()), text: text.into() });
        self
    }

    /// Compares the effects of tool and node bodies with the journal; see [`EffectLog`].
    pub fn effects(mut self, effects: &EffectLog) -> Self {
        self.effects = Some(effects.clone());
        self
    }

    /// Sets the operator's decision on an interrupted step of a workflow. Default:
    /// [`Interruption::Retry`].
    pub fn interrupted(
        mut self,
        decide: impl Fn(&StepPath) -> Interruption + Send + Sync + 'static,
    ) -> Self {
        self.world.decide = Arc::new(decide);
        self
    }

    /// Allows a run with an interrupted step to end differently than without a crash. Examples: a
    /// fallback branch that must not be repeated, a node whose failure is skipped, a model that
    /// sees an interrupted tool. Default: not allowed.
    pub fn may_differ_when_interrupted(mut self) -> Self {
        self.may_differ = true;
        self
    }

    /// Expects the run to fail, with the same error after each crash. Default: it must complete.
    pub fn fails(mut self) -> Self {
        self.fails = true;
        self
    }

    /// Compensates completed steps when the workflow fails, as
    /// [`StartRun::compensate`](agentflow::runtime::StartRun::compensate) does. For an agent, set
    /// this on its request.
    ///
    /// # Panics
    /// If the test is of an agent.
    #[track_caller]
    pub fn compensating(mut self) -> Self {
        self.subject.compensate();
        self
    }

    /// Crashes each resumed run again at each of its writes. The number of runs grows with the
    /// square of the number of writes.
    pub fn twice(mut self) -> Self {
        self.twice = true;
        self
    }

    /// Sets the time without a recorded event after which a run counts as hanging, in tokio's time.
    /// It must be longer than the longest step or pause. Default: one hour, which takes no real
    /// time with a paused clock. The time-out of an open question is added.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.world.patience = patience;
        self
    }

    /// Executes all runs.
    ///
    /// # Cancel safety
    /// Dropping the future stops the current run and executes no further ones.
    ///
    /// # Panics
    /// At the first violation, with a description and the journal.
    pub async fn run(self) -> CrashReport {
        let undisturbed = self.lives(&[]).await;
        let mut report = CrashReport {
            subject: self.subject.name(),
            writes: undisturbed.writes,
            runs: 0,
            crashes: 0,
            anew: 0,
            cancelled: 0,
            differing: 0,
            steps: BTreeMap::new(),
        };
        let expected = undisturbed.verdict.outcome.clone();
        let mut asked = BTreeSet::new();
        asked.extend(undisturbed.questions());
        self.judge(&mut report, &[], &undisturbed, &expected);
        let mut mail = Mail::default();
        undisturbed.events.iter().for_each(|event| mail.apply(event));
        if let Some(why) = mail.never_sent(&self.world.messages) {
            panic!("{}: {why}", report.subject);
        }
        for cut in cuts(undisturbed.writes) {
            let once = self.lives(&[cut]).await;
            asked.extend(once.questions());
            self.judge(&mut report, &[cut], &once, &expected);
            // A crash at the last write may leave a run that has ended, which has nothing to
            // resume.
            for second in cuts(if self.twice && once.crashes > 0 { once.writes } else { 0 }) {
                let twice = self.lives(&[cut, second]).await;
                asked.extend(twice.questions());
                self.judge(&mut report, &[cut, second], &twice, &expected);
            }
        }
        // An answer that is used in no run is probably a misspelt path.
        let given = self.world.answers.keys().chain(&self.world.unanswered);
        let never: Vec<String> =
            given.filter(|node| !asked.contains(*node)).map(|node| format!("`{node}`")).collect();
        if !never.is_empty() {
            let asked: Vec<String> = asked.iter().map(|node| format!("`{node}`")).collect();
            let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") };
            panic!("{} never asks {}; what it asks is {asked}", report.subject, never.join(", "));
        }
        report
    }

    /// Executes one run with a simulated process for each crash, and a last process that runs to
    /// the end.
    async fn lives(&self, cuts: &[Cut]) -> Run {
        let (kept, run) = (MemoryStore::new(), RunId::new("run-1"));
        let clock = TestClock::new();
        if let Some(effects) = &self.effects {
            effects.attach(&kept, &run);
        }
        let (mut writes, mut crashes, mut anew, mut lengths) = (0, 0, 0, Vec::new());
        let mut problem = None;
        for (at, cut) in cuts.iter().copied().map(Some).chain([None]).enumerate() {
            match live(&self.world, &*self.subject, &kept, &clock, &run, cut).await {
                Ok(life) => {
                    writes = life.writes;
                    anew += usize::from(at > 0 && life.anew);
                    if life.end == LifeEnd::Ended {
                        break;
                    }
                    crashes += 1;
                    lengths.push(read(&kept, &run).await.len());
                }
                Err(text) => {
                    problem = Some(text);
                    break;
                }
            }
        }
        let events = read(&kept, &run).await;
        let mut verdict = verify(&events);
        if let Some(problem) = problem {
            // Other problems are consequences of this one.
            verdict.problems = vec![problem];
        }
        if let Some(effects) = &self.effects {
            verdict.problems.extend(effects.problems());
        }
        Run { writes, crashes, anew, lengths, events, verdict }
    }

    /// Adds a run to the report and panics if it violates a rule.
    fn judge(&self, report: &mut CrashReport, cuts: &[Cut], run: &Run, expected: &Outcome) {
        report.runs += 1;
        report.crashes += run.crashes;
        report.anew += run.anew;
        report.take_in(&run.verdict);
        let mut problems = run.verdict.problems.clone();
        let outcome = &run.verdict.outcome;
        if problems.is_empty() && cuts.is_empty() {
            match (outcome, self.fails) {
                (Outcome::Completed(_), false) | (Outcome::Failed(_), true) => {}
                (_, true) => problems.push(format!("the run should fail; {outcome}")),
                (_, false) => {
                    problems.push(format!(
                        "{outcome}; if the run should fail, expect that with `fails()`"
                    ));
                }
            }
        }
        // A different outcome is allowed only after an interruption.
        if problems.is_empty() && outcome != expected {
            match outcome {
                Outcome::Cancelled(_) if run.verdict.interrupted => report.cancelled += 1,
                Outcome::Open => problems.push("the run has no end".to_owned()),
                _ if self.may_differ && run.verdict.interrupted => report.differing += 1,
                _ => problems.push(format!(
                    "the run ended otherwise: {outcome}; without a crash {expected}"
                )),
            }
        }
        if problems.is_empty() {
            return;
        }
        let when: Vec<String> = cuts.iter().map(ToString::to_string).collect();
        let when = match when.is_empty() {
            true => "even without a crash".to_owned(),
            false => format!("after a crash at {}", when.join(", then at ")),
        };
        panic!(
            "{} does not hold {when}:\n- {}\n{}",
            report.subject,
            problems.join("\n- "),
            run.journal()
        );
    }
}

impl fmt::Debug for CrashTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashTest")
            .field("subject", &self.subject.name())
            .field("world", &self.world)
            .finish()
    }
}

/// The result of one run with all its simulated processes.
struct Run {
    /// Number of writes of the last process.
    writes: usize,
    crashes: usize,
    anew: usize,
    /// Length of the journal after each crash.
    lengths: Vec<usize>,
    events: Vec<Event>,
    verdict: Verdict,
}

impl Run {
    /// Returns the paths of the nodes that asked a person.
    fn questions(&self) -> impl Iterator<Item = String> + '_ {
        let asks = |event: &&Event| matches!(event.kind, EventKind::ApprovalRequested(_));
        self.events.iter().filter(asks).map(|event| event.path.to_string())
    }

    fn journal(&self) -> String {
        let mut lines = vec!["the journal:".to_owned()];
        for (at, event) in self.events.iter().enumerate() {
            lines.extend(
                self.lengths
                    .iter()
                    .filter(|length| **length == at)
                    .map(|_| "    -- crash --".to_owned()),
            );
            lines.extend(trace([event.clone()]).into_iter().map(|line| format!("    {line}")));
        }
        let last = self.lengths.iter().filter(|length| **length == self.events.len());
        lines.extend(last.map(|_| "    -- crash --".to_owned()));
        lines.join("\n")
    }
}

/// Returns every position for a crash.
fn cuts(writes: usize) -> impl Iterator<Item = Cut> {
    (1..=writes).flat_map(|write| [Side::Before, Side::After].map(|side| Cut { write, side }))
}

/// Reads the journal of a run; it is empty if the run was not created.
async fn read(kept: &MemoryStore, run: &RunId) -> Vec<Event> {
    kept.read(run, 0, usize::MAX).await.unwrap_or_default()
}
