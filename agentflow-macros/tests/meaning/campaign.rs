//! A campaign: runs many programs as functions and as workflows, with random schedules and crashes,
//! and compares the runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use fastrand::Rng;

use super::eval::{Flow, Interpreter};
use super::generator::syntax::Program;
use super::generator::{choose, shrink, write};
use super::globals::Globals;
use super::kit;
use super::kit::judge::{Allowance, Class, Difference, Ran, judge};
use super::machine;
use super::program::Interpreted;
use super::step::Journal;
use super::value::{Host, Value};
use super::world::World;
use crate::workflow::mutations::Mutation;

/// Settings of a campaign.
#[derive(Clone)]
pub(super) struct Campaign {
    pub(super) seed: u64,
    pub(super) programs: usize,
    /// Maximum number of statements of a program, without those in blocks.
    pub(super) size: usize,
    /// Number of runs without a crash, for each input.
    pub(super) schedules: usize,
    /// Number of runs with crashes, for each input.
    pub(super) crashes: usize,
    pub(super) without: BTreeSet<String>,
    pub(super) mutation: Option<Mutation>,
    /// `true` to end the campaign at the first difference.
    pub(super) stops: bool,
}

/// Results of a campaign.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) programs: usize,
    pub(super) accepted: usize,
    /// Messages of the macro, with the number of programs that it refuses.
    pub(super) refused: BTreeMap<String, usize>,
    pub(super) runs: usize,
    pub(super) crashes: usize,
    pub(super) retries: usize,
    /// Number of inputs whose function fails.
    pub(super) failing: usize,
    /// Number of actions of the functions.
    pub(super) actions: usize,
    /// Programs that the interpreter does not know.
    pub(super) broken: Vec<(usize, String)>,
    /// Differing programs by the class of a difference.
    pub(super) differing: BTreeMap<Class, Vec<usize>>,
}

/// A difference, with a description of the run.
pub(super) struct Found {
    pub(super) difference: Difference,
    pub(super) how: String,
    pub(super) logs: Vec<String>,
}

/// Maximum number of turns of a run. A run that does not end by then hangs.
const PATIENCE: usize = 100_000;

/// Runs a future until it ends, or until `is_over`.
fn block_on<T>(future: impl Future<Output = T>, is_over: impl Fn() -> bool) -> Option<T> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..PATIENCE {
        if let Poll::Ready(ended) = future.as_mut().poll(&mut cx) {
            return Some(ended);
        }
        if is_over() {
            return None;
        }
    }
    None
}

/// Runs the function.
pub(super) fn run_function(program: &Interpreted, case: usize, seed: u64) -> Ran {
    let world = World::new(seed, false);
    let interpreter = Interpreter { globals: Rc::clone(&program.functions), world };
    let (item, inputs) = (Rc::clone(&program.function), program.cases[case].clone());
    let ended = block_on(interpreter.body(item, inputs, None), || false);
    let (outcome, panicked) = match ended {
        Some(Ok(value)) => match value.variant() {
            ("Ok", Some(value)) => (Ok(value.json()), false),
            (_, error) => (Err(error.expect("an error is there").display()), false),
        },
        Some(Err(Flow::Panic(text))) => (Err(text), true),
        _ => panic!("the function does not end"),
    };
    Ran { outcome, panicked, log: interpreter.world.log() }
}

/// Runs the workflow in processes that end at these writes. Also returns the allowed deviations,
/// and the number of writes of the last process.
fn run_workflow(
    program: &Interpreted,
    case: usize,
    seed: u64,
    cuts: &[(usize, bool)],
) -> (Option<Ran>, Allowance, usize) {
    let world = World::new(seed, true);
    let interpreter = Interpreter { globals: Rc::clone(&program.workflows), world };
    let journal = Rc::new(Journal::default());
    let is_input = |value: &&Value| !matches!(value, Value::Host(Host::Context));
    let inputs: Vec<Value> = program.cases[case].iter().filter(is_input).cloned().collect();
    let mut allowance = Allowance { wrapped: true, ..Allowance::default() };
    let mut ran = None;
    for cut in cuts.iter().copied().map(Some).chain([None]) {
        journal.begin(cut);
        let (plan, inputs) = (Rc::clone(&program.workflow), inputs.clone());
        let run =
            machine::run(&interpreter, plan, inputs, String::new(), Rc::clone(&journal), None);
        match block_on(run, || journal.is_dead()) {
            Some(ended) => {
                let outcome = match ended {
                    Ok(value) => Ok(value.json()),
                    Err(failure) => Err(failure.text),
                };
                ran = Some(Ran { outcome, panicked: false, log: interpreter.world.log() });
                break;
            }
            None if journal.is_dead() => {
                allowance.crashes += 1;
                interpreter.world.crash();
            }
            None => break,
        }
    }
    allowance.retries = journal.retries.get();
    (ran, allowance, journal.writes())
}

impl Campaign {
    /// Generates the program with this number. It is the program of this number in a campaign of
    /// the compiled programs with the same seed.
    pub(super) fn program(&self, number: usize) -> Program {
        let mut rng = Rng::with_seed(self.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        choose::program(&mut rng, &format!("p{number}"), self.size, &self.without)
    }

    /// Runs a program in all ways.
    ///
    /// # Errors
    /// Returns the messages of the macro if it refuses the program.
    pub(super) fn play(
        &self,
        program: &Program,
        kit: &Rc<Globals>,
        findings: &mut Findings,
    ) -> Result<Vec<Found>, String> {
        let read = Interpreted::read(program, kit, self.mutation)?;
        findings.accepted += 1;
        Ok(self.runs(&read, findings))
    }

    /// Runs a program that was read in all ways, up to its first difference.
    pub(super) fn runs(&self, read: &Interpreted, findings: &mut Findings) -> Vec<Found> {
        let mut found = Vec::new();
        let mut chance = Rng::with_seed(self.seed);
        for case in 0..read.cases.len() {
            let function = run_function(read, case, chance.u64(..));
            findings.failing += usize::from(function.outcome.is_err());
            findings.actions += function.log.len();
            let mut writes = 0;
            for run in 0..self.schedules + self.crashes {
                let mut cuts = Vec::new();
                if run >= self.schedules && writes > 0 {
                    cuts.push((1 + chance.usize(..writes), chance.bool()));
                    // A second crash follows every fourth one.
                    if chance.u8(..4) == 0 {
                        cuts.push((1 + chance.usize(..6), chance.bool()));
                    }
                }
                let seed = chance.u64(..);
                let (ran, allowance, written) = run_workflow(read, case, seed, &cuts);
                if cuts.is_empty() {
                    writes = written;
                }
                findings.runs += 1;
                findings.crashes += allowance.crashes;
                findings.retries += allowance.retries;
                let how = format!("case {case}, seed {seed}, crashes {cuts:?}, {allowance:?}");
                let (differences, log) = match ran {
                    Some(ran) => (judge(&function, &ran, allowance), ran.log),
                    None => {
                        let text = "the run hangs".to_owned();
                        (vec![Difference { class: Class::Machine, text }], Vec::new())
                    }
                };
                found.extend(differences.into_iter().map(|difference| {
                    let mut logs = vec![format!("function: {:?}", function.outcome)];
                    logs.extend(function.log.iter().map(|noted| format!("  function: {noted:?}")));
                    logs.extend(log.iter().map(|noted| format!("  workflow: {noted:?}")));
                    Found { difference, how: how.clone(), logs }
                }));
                if !found.is_empty() {
                    return found;
                }
            }
        }
        found
    }

    /// Runs a program and catches panics of the interpreter, which are faults of the test.
    fn play_caught(&self, number: usize, kit: &Rc<Globals>, findings: &mut Findings) -> Vec<Found> {
        let program = self.program(number);
        findings.programs += 1;
        match catch_unwind(AssertUnwindSafe(|| self.play(&program, kit, findings))) {
            Ok(Ok(found)) => found,
            Ok(Err(message)) => {
                *findings.refused.entry(message).or_default() += 1;
                Vec::new()
            }
            Err(panic) => {
                findings.broken.push((number, text_of(&*panic)));
                Vec::new()
            }
        }
    }

    /// Prints a program and its differences.
    pub(super) fn show(&self, number: usize) {
        let program = self.program(number);
        eprintln!("{}", shown(&program, &[]));
        let kit = Rc::new(Globals::of_kit(kit::FUNCTIONS));
        match self.play(&program, &kit, &mut Findings::default()) {
            Ok(found) => eprintln!("{}", shown(&program, &found)),
            Err(message) => eprintln!("refused: {message}"),
        }
    }

    /// Runs the campaign on several threads.
    pub(super) fn run(&self) -> Findings {
        const BATCH: usize = 25;
        let next = AtomicUsize::new(0);
        let all = Mutex::new(Findings::default());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let kit = Rc::new(Globals::of_kit(kit::FUNCTIONS));
                    loop {
                        let first = next.fetch_add(BATCH, Ordering::SeqCst);
                        let mut findings = Findings::default();
                        for number in first..self.programs.min(first + BATCH) {
                            for found in self.play_caught(number, &kit, &mut findings) {
                                let of_class =
                                    findings.differing.entry(found.difference.class).or_default();
                                if of_class.last() != Some(&number) {
                                    of_class.push(number);
                                }
                            }
                        }
                        let mut all = all.lock().expect("no thread has panicked");
                        all.add(findings);
                        if all.programs.is_multiple_of(2_500) && self.programs > 2_500 {
                            eprintln!("{}", all.report());
                        }
                        let is_over = self.stops && !all.differing.is_empty();
                        if first + BATCH >= self.programs || is_over {
                            return;
                        }
                    }
                });
            }
        });
        all.into_inner().expect("no thread has panicked")
    }

    /// Returns a smaller program that differs in the same class, and its differences.
    pub(super) fn shrink(&self, program: &Program, class: Class) -> (Program, Vec<Found>) {
        let kit = Rc::new(Globals::of_kit(kit::FUNCTIONS));
        let differences = |program: &Program| {
            let played = catch_unwind(AssertUnwindSafe(|| {
                self.play(program, &kit, &mut Findings::default())
            }));
            let found = played.ok().and_then(Result::ok).unwrap_or_default();
            found.iter().any(|found| found.difference.class == class).then_some(found)
        };
        let mut smallest = program.clone();
        let mut found = differences(program).unwrap_or_default();
        loop {
            let smaller = shrink::smaller(&smallest)
                .into_iter()
                .find_map(|smaller| differences(&smaller).map(|found| (smaller, found)));
            match smaller {
                Some((smaller, of_smaller)) => (smallest, found) = (smaller, of_smaller),
                None => return (smallest, found),
            }
        }
    }
}

pub(super) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

impl Findings {
    fn add(&mut self, other: Self) {
        self.programs += other.programs;
        self.accepted += other.accepted;
        self.runs += other.runs;
        self.crashes += other.crashes;
        self.retries += other.retries;
        self.failing += other.failing;
        self.actions += other.actions;
        for (message, count) in other.refused {
            *self.refused.entry(message).or_default() += count;
        }
        self.broken.extend(other.broken);
        for (class, programs) in other.differing {
            self.differing.entry(class).or_default().extend(programs);
        }
    }

    /// Formats the findings.
    pub(super) fn report(&self) -> String {
        let refused: usize = self.refused.values().sum();
        let mut text = format!(
            "{} programs: {} accepted, {refused} refused; {} runs with {} crashes and {} retries, {} inputs whose \
             function fails, {} actions in the functions\n",
            self.programs,
            self.accepted,
            self.runs,
            self.crashes,
            self.retries,
            self.failing,
            self.actions
        );
        for (message, count) in &self.refused {
            let _ = writeln!(text, "refused {count} times: {message}");
        }
        for (class, programs) in &self.differing {
            let some: Vec<String> = programs.iter().take(8).map(|at| format!("p{at}")).collect();
            let _ =
                writeln!(text, "{class}: {} programs, such as {}", programs.len(), some.join(", "));
        }
        let mut broken: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, problem) in &self.broken {
            broken.entry(problem).or_default().push(*number);
        }
        for (problem, programs) in broken {
            let _ = writeln!(
                text,
                "not interpreted: {problem} ({} programs, such as p{})",
                programs.len(),
                programs[0]
            );
        }
        text
    }
}

/// Formats a program and its first difference.
pub(super) fn shown(program: &Program, found: &[Found]) -> String {
    let mut text = write::shown(program);
    let _ = writeln!(text, "inputs: {:?}", program.cases);
    for found in found.iter().take(3) {
        let Found { difference: Difference { class, text: of }, how, .. } = found;
        let _ = writeln!(text, "{class}: {of} ({how})");
    }
    for line in found.first().iter().flat_map(|found| &found.logs) {
        let _ = writeln!(text, "{line}");
    }
    text
}
