//! Crash injection: a run is stopped at every write of its journal, resumed, and must end as without the stop.
//!
//! It replaces the store's last step and nothing else: the real machine, driver and runtime run.

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
use self::messages::{Mail, Moment, Scripted};
pub use self::report::{CrashReport, StepReport};
use self::store::{Cut, Side};
use self::subject::{OfAgent, OfWorkflow, Subject};
pub use self::verify::Again;
use self::verify::{Outcome, Verdict, verify};
use crate::time::TestClock;
use crate::trace::trace;

/// Crashes a run at every write of its journal, on both sides of the write, and resumes it in a fresh runtime.
///
/// After each crash it requires:
/// - the same end as without the crash;
/// - that no step with a recorded outcome ran again;
/// - that nothing that may not be repeated began twice without a record that says so;
/// - that the events are well-formed ([`check_events`](crate::check_events));
/// - that nothing hangs.
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
/// A model must answer a repeated request again: [`ScriptedModel::from_fn`](crate::ScriptedModel::from_fn). Under
/// tokio's paused clock, `#[tokio::test(start_paused = true)]`, waits cost nothing and every run is the same.
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
    /// Of a workflow, on this input. Its state outside of the journal, if it has any, lives on over a crash.
    pub fn new<In, Out, I>(workflow: &Workflow<In, Out>, input: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        In: Inputs,
        Out: NodeValue,
        I: IntoInputs<In> + 'static,
    {
        Self::of(OfWorkflow { workflow: workflow.clone(), input, compensates: false })
    }

    /// Of an agent, on this request. The agent's runtime is replaced by the test's.
    pub fn agent<O, R>(agent: &Agent<O>, request: impl Fn() -> R + Send + Sync + 'static) -> Self
    where
        O: Send + Sync + 'static,
        R: Into<RunRequest> + 'static,
    {
        Self::of(OfAgent { agent: agent.clone(), request })
    }

    fn of(subject: impl Subject + 'static) -> Self {
        let world = World {
            describe: Arc::new(|builder| builder),
            answers: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            messages: Vec::new(),
            decide: Arc::new(|_| Interruption::Retry),
            patience: Duration::from_secs(60 * 60),
        };
        Self { subject: Box::new(subject), world, effects: None, twice: false, may_differ: false, fails: false }
    }

    /// What each process's runtime has: resources, models, sinks. Its store is the test's.
    pub fn runtime(mut self, describe: impl Fn(RuntimeBuilder) -> RuntimeBuilder + Send + Sync + 'static) -> Self {
        self.world.describe = Arc::new(describe);
        self
    }

    /// How a person answers the question of a gate, or of a node that needs approval, by the node's path. A question
    /// without an answer fails the test, unless its time-out is to pass ([`unanswered`](Self::unanswered)), and so does
    /// an answer whose question is never asked.
    ///
    /// # Panics
    /// When the answer has no JSON form.
    pub fn answer<A: NodeValue>(mut self, node: impl Into<String>, answer: A) -> Self {
        let node = node.into();
        let encoded = answer.encode().and_then(|answer| answer.decode());
        match encoded {
            Ok(answer) => drop(self.world.answers.insert(node, answer)),
            Err(error) => panic!("the answer for `{node}` has no JSON form: {error}"),
        }
        self
    }

    /// Nobody answers this question of a gate: its time-out passes, each time it is asked.
    pub fn unanswered(mut self, node: impl Into<String>) -> Self {
        self.world.unanswered.insert(node.into());
        self
    }

    /// A person sends the agent this when its [live run](RunRequest::live) waits for a message; of several, one each time it
    /// waits, in the order in which they are given here. After the last one the person closes the run the next time it waits.
    /// After a crash the person sends again what the journal does not have. A message that is never sent fails the test.
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
        self.world.messages.push(Scripted { moment: Moment::Waits, text: text.into() });
        self
    }

    /// A person sends the agent this when the step of a path has begun, such as `tool#1.pay` of the first call, when that is one of the tool `pay`. The
    /// step must take its time, so that the run is not over before: a tool that sleeps for a second of paused time. After a
    /// crash the person sends it, unless the journal has it, before another process continues the run. A step that never
    /// begins fails the test.
    pub fn message_during(mut self, step: impl Into<String>, text: impl Into<String>) -> Self {
        self.world.messages.push(Scripted { moment: Moment::Begun(step.into()), text: text.into() });
        self
    }

    /// Holds what bodies really do against the journal; see [`EffectLog`].
    pub fn effects(mut self, effects: &EffectLog) -> Self {
        self.effects = Some(effects.clone());
        self
    }

    /// What an operator does about an interrupted step of a workflow. Default: [`Interruption::Retry`].
    pub fn interrupted(mut self, decide: impl Fn(&StepPath) -> Interruption + Send + Sync + 'static) -> Self {
        self.world.decide = Arc::new(decide);
        self
    }

    /// Lets a run in which a step was interrupted end otherwise than without a crash: a branch of a fallback that may
    /// not be repeated, a node whose failure is skipped, a model that sees an interrupted tool. Default: it may not.
    pub fn may_differ_when_interrupted(mut self) -> Self {
        self.may_differ = true;
        self
    }

    /// The run fails, and must fail in the same way after each crash. Default: it completes.
    pub fn fails(mut self) -> Self {
        self.fails = true;
        self
    }

    /// The run of a workflow undoes what it had done when it fails, as
    /// [`StartRun::compensate`](agentflow::runtime::StartRun::compensate) says; a request of an agent says so itself.
    ///
    /// # Panics
    /// Of an agent.
    #[track_caller]
    pub fn compensating(mut self) -> Self {
        self.subject.compensate();
        self
    }

    /// Crashes also the run that was resumed, at each of its writes: the square of the runs.
    pub fn twice(mut self) -> Self {
        self.twice = true;
        self
    }

    /// How long nothing may be recorded before the run counts as hanging, by tokio's time: longer than the longest step
    /// or pause. Default: one hour, which costs nothing under the paused clock. A question with a time-out has that on
    /// top.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.world.patience = patience;
        self
    }

    /// Makes all the runs. Dropping the future ends the one that is running.
    ///
    /// # Panics
    /// At the first breach, with what was wrong and the journal.
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
            // A crash at the last write may leave nothing to resume.
            for second in cuts(if self.twice && once.crashes > 0 { once.writes } else { 0 }) {
                let twice = self.lives(&[cut, second]).await;
                asked.extend(twice.questions());
                self.judge(&mut report, &[cut, second], &twice, &expected);
            }
        }
        let given = self.world.answers.keys().chain(&self.world.unanswered);
        let never: Vec<String> = given.filter(|node| !asked.contains(*node)).map(|node| format!("`{node}`")).collect();
        if !never.is_empty() {
            let asked: Vec<String> = asked.iter().map(|node| format!("`{node}`")).collect();
            let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") };
            panic!("{} never asks {}; what it asks is {asked}", report.subject, never.join(", "));
        }
        report
    }

    /// One run with crashes at these places, each in a life of its own, and then to its end.
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
            // Whatever else is wrong follows from this.
            verdict.problems = vec![problem];
        }
        if let Some(effects) = &self.effects {
            verdict.problems.extend(effects.problems());
        }
        Run { writes, crashes, anew, lengths, events, verdict }
    }

    /// Takes a run into the report.
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
                (_, false) => problems.push(format!("{outcome}; if it is to fail, say so with `fails()`")),
            }
        }
        if problems.is_empty() && outcome != expected {
            match outcome {
                Outcome::Cancelled(_) if run.verdict.interrupted => report.cancelled += 1,
                Outcome::Open => problems.push("the run has no end".to_owned()),
                _ if self.may_differ && run.verdict.interrupted => report.differing += 1,
                _ => problems.push(format!("the run ended otherwise: {outcome}; without a crash {expected}")),
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
        panic!("{} does not hold {when}:\n- {}\n{}", report.subject, problems.join("\n- "), run.journal());
    }
}

impl fmt::Debug for CrashTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashTest").field("subject", &self.subject.name()).field("world", &self.world).finish()
    }
}

/// A run through its lives.
struct Run {
    /// The writes of the last life.
    writes: usize,
    crashes: usize,
    anew: usize,
    /// How long the journal was after each crash.
    lengths: Vec<usize>,
    events: Vec<Event>,
    verdict: Verdict,
}

impl Run {
    /// The paths of the nodes that asked a person.
    fn questions(&self) -> impl Iterator<Item = String> + '_ {
        let asks = |event: &&Event| matches!(event.kind, EventKind::ApprovalRequested(_));
        self.events.iter().filter(asks).map(|event| event.path.to_string())
    }

    fn journal(&self) -> String {
        let mut lines = vec!["the journal:".to_owned()];
        for (at, event) in self.events.iter().enumerate() {
            lines.extend(self.lengths.iter().filter(|length| **length == at).map(|_| "    -- crash --".to_owned()));
            lines.extend(trace([event.clone()]).into_iter().map(|line| format!("    {line}")));
        }
        let last = self.lengths.iter().filter(|length| **length == self.events.len());
        lines.extend(last.map(|_| "    -- crash --".to_owned()));
        lines.join("\n")
    }
}

/// Every place to crash at.
fn cuts(writes: usize) -> impl Iterator<Item = Cut> {
    (1..=writes).flat_map(|write| [Side::Before, Side::After].map(|side| Cut { write, side }))
}

/// The journal of a run that may not be there.
async fn read(kept: &MemoryStore, run: &RunId) -> Vec<Event> {
    kept.read(run, 0, usize::MAX).await.unwrap_or_default()
}
