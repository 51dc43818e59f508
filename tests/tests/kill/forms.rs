//! Kill test of all workflow forms. Two processes execute runs over one file, and operators control
//! the runs from the first process and from a third. Each process is killed at random moments and
//! restarted until all runs have ended.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use agentflow::Event;
use agentflow::store::{RunFilter, RunRecord, SqliteStore, Store};
use agentflow_testing::trace;
use agentflow_tests::kill::{Look, WordFile};

use super::invariants::{Problem, of_run};

/// The program under test. It is copied next to the folders of the rounds, so that a rebuild does
/// not affect a long campaign.
const PROGRAM: &str = "kill-forms";

/// Default number of kills.
const KILLS: usize = 120;
/// Maximum number of kills in one round. More kills would hit processes whose runs have all ended.
const KILLS_A_ROUND: usize = 14;
/// A run that does not wait and records nothing for this long counts as hanging. The value allows
/// for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed, by its own id, when this is dropped.
struct Victim {
    child: Child,
    what: &'static str,
    arguments: Vec<String>,
}

impl Victim {
    fn start(folder: &Path, what: &'static str, arguments: &[&str], seed: u64) -> Self {
        let log = || File::options().create(true).append(true).open(folder.join("said")).unwrap();
        let child = Command::new(folder.with_file_name(PROGRAM))
            .arg(what)
            .arg(folder)
            .arg(seed.to_string())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log())
            .stderr(log())
            .spawn()
            .unwrap();
        Self { child, what, arguments: arguments.iter().map(ToString::to_string).collect() }
    }

    fn again(&mut self, folder: &Path, seed: u64) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        *self = Self::start(folder, self.what, &arguments, seed);
    }

    /// Returns the exit status if the process has ended on its own.
    fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Kills the process. Returns `false` if it had already ended.
    fn kill(&mut self) -> bool {
        let alive = self.ended().is_none();
        let _ = self.child.kill();
        let _ = self.child.wait();
        alive
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An observer that reads the store from outside of the tested processes.
struct StoreObserver {
    tokio: tokio::runtime::Runtime,
    store: SqliteStore,
}

impl StoreObserver {
    fn new(folder: &Path) -> Result<Self, Problem> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = tokio.block_on(SqliteStore::open(folder.join("runs.db")));
        let store = store.map_err(|error| Problem::new("open", error.to_string()))?;
        Ok(Self { tokio, store })
    }

    fn runs(&self) -> Vec<(RunRecord, Vec<Event>)> {
        self.tokio.block_on(async {
            let mut runs = Vec::new();
            for run in self.store.list(RunFilter::new()).await.unwrap() {
                let events = self.store.read(&run.run_id, 0, usize::MAX).await.unwrap();
                runs.push((run, events));
            }
            runs
        })
    }

    fn events(&self) -> u64 {
        self.tokio
            .block_on(self.store.list(RunFilter::new()))
            .unwrap()
            .iter()
            .map(|run| run.events)
            .sum()
    }
}

/// Parameters of a round.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    kills: usize,
    hosts: Vec<Vec<&'static str>>,
    /// Maximum lifetime of a process before the next kill, in milliseconds.
    longest: u64,
}

impl Plan {
    fn of(seed: u64, undisturbed: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut flags = Vec::new();
        if random.bool() {
            flags.push("operate");
        }
        match env::var("AGENTFLOW_KILL_FORMS").as_deref() {
            Ok("plain") => flags.clear(),
            Ok("operate") => {}
            _ => match random.u8(0..4) {
                0 => flags.push("twin"),
                1 => flags.push("double"),
                _ => {}
            },
        }
        let kills = if undisturbed { 0 } else { random.usize(4..=KILLS_A_ROUND) };
        let hosts = if undisturbed { vec![Vec::new()] } else { vec![flags, Vec::new()] };
        Self { seed, kills, hosts, longest: *random.choice([60, 120, 250].iter()).unwrap() }
    }
}

/// Executes one round. Returns the number of kills and the result of each run.
fn round(folder: &Path, plan: &Plan, expected: Option<&BTreeMap<String, String>>) -> Round {
    fs::create_dir_all(folder).unwrap();
    let mut round =
        Round { kills: 0, outputs: BTreeMap::new(), problems: Vec::new(), journals: Vec::new() };
    if let Err(problem) = live(folder, plan, &mut round) {
        round.problems.push(problem);
    }
    let words = WordFile::new(folder.join("words"));
    for complaint in words.complaints() {
        round.problems.push(Problem::new("complaint", complaint));
    }
    let runs = match StoreObserver::new(folder) {
        Ok(outside) => outside.runs(),
        Err(problem) => {
            round.problems.push(problem);
            return round;
        }
    };
    let effects = fs::read_to_string(folder.join("effects")).unwrap_or_default();
    let words = words.words();
    for (run, events) in runs {
        // An unfinished run is reported as the problem that stopped the round.
        if Look::of(&events).end.is_none() && !round.problems.is_empty() {
            continue;
        }
        let before = round.problems.len();
        let output = of_run(&run, &events, &effects, &words, &mut round.problems);
        if round.problems.len() > before {
            round.journals.push((run.run_id.to_string(), trace(&events)));
        }
        let Some(output) = output else { continue };
        let form = run.run_id.as_str().trim_end_matches("-c").to_owned();
        if let Some(expected) = expected
            && expected.get(&form) != Some(&output)
        {
            let text = format!(
                "{form} has the output `{output}`, and undisturbed `{:?}`",
                expected.get(&form)
            );
            round.problems.push(Problem::new("output", text));
        }
        round.outputs.insert(form, output);
    }
    round
}

struct Round {
    kills: usize,
    outputs: BTreeMap<String, String>,
    problems: Vec<Problem>,
    /// Journals of the runs with a problem, line by line, since a round cannot be reproduced.
    journals: Vec<(String, Vec<String>)>,
}

fn live(folder: &Path, plan: &Plan, round: &mut Round) -> Result<(), Problem> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut victims: Vec<Victim> = plan
        .hosts
        .iter()
        .map(|flags| Victim::start(folder, "host", flags, random.u64(..)))
        .collect();
    let operator = victims.len();
    victims.push(Victim::start(folder, "operator", &["fickle"], random.u64(..)));
    while round.kills < plan.kills {
        thread::sleep(Duration::from_millis(random.u64(2..plan.longest)));
        let at = random.usize(0..victims.len());
        if let Some(status) = victims[at].ended() {
            if victims[at].what == "host" && status.success() {
                break;
            }
            // The process gave up. It has logged a complaint, unless it panicked.
            if status.code() == Some(101) {
                return Err(Problem::new("panic", said(folder)));
            }
        }
        round.kills += usize::from(victims[at].kill());
        victims[at].again(folder, random.u64(..));
    }
    let undisturbed = plan.kills == 0;
    if !undisturbed {
        // Stop the operators inside the hosts, so that waiting runs keep waiting.
        for host in &mut victims[..operator] {
            if host.arguments.iter().any(|flag| flag == "operate") {
                round.kills += usize::from(host.kill());
                host.arguments.retain(|flag| flag != "operate");
                host.again(folder, random.u64(..));
            }
        }
        round.kills += usize::from(victims[operator].kill());
        waiting(folder, &mut victims[..operator])?;
    }
    victims[operator].kill();
    victims[operator].arguments = vec!["helpful".to_owned()];
    victims[operator].again(folder, random.u64(..));
    ending(folder, &mut victims, &mut random)
}

/// Waits without any operator. Each run that is listed as running has to end or to wait for an
/// answer.
fn waiting(folder: &Path, hosts: &mut [Victim]) -> Result<(), Problem> {
    let outside = StoreObserver::new(folder)?;
    let (mut before, mut since, began) = (u64::MAX, Instant::now(), Instant::now());
    loop {
        thread::sleep(Duration::from_millis(50));
        let now = outside.events();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        if hosts.iter_mut().all(|host| host.ended().is_some()) {
            return Ok(());
        }
        let is_late = began.elapsed() > PATIENCE;
        // A message is usually fetched within 40 ms, but later on a busy machine, and then its run
        // continues later.
        if since.elapsed() > Duration::from_millis(450) {
            match stuck_runs(&outside) {
                None => return Ok(()),
                Some(problem) if is_late => return Err(problem),
                Some(_) => {}
            }
        } else if is_late {
            return Err(Problem::new("restless", "the runs never stood still".to_owned()));
        }
    }
}

/// Finds runs that have neither ended nor wait for an answer, and runs whose listed status
/// contradicts their journal.
fn stuck_runs(outside: &StoreObserver) -> Option<Problem> {
    let mut problems = String::new();
    for (run, events) in outside.runs() {
        let look = Look::of(&events);
        let waits = look.waits() && look.end.is_none();
        let (id, status) = (&run.run_id, run.status);
        match (look.end, status.as_str()) {
            (None, "paused") if waits => {}
            (None, _) if waits => {
                let _ = write!(
                    problems,
                    "{id} waits ({:?} {:?}) and is listed as {status}; ",
                    look.asking, look.interrupted
                );
            }
            (None, _) => {
                let _ = write!(
                    problems,
                    "{id} is listed as {status}, waits for nothing, and nothing happens; "
                );
            }
            _ => {}
        }
    }
    (!problems.is_empty()).then(|| Problem::new("stuck", problems))
}

/// Adds a helpful operator that is not killed, and waits until all runs end.
fn ending(
    folder: &Path,
    victims: &mut [Victim],
    random: &mut fastrand::Rng,
) -> Result<(), Problem> {
    let outside = StoreObserver::new(folder)?;
    let (mut before, mut since, mut failures) = (u64::MAX, Instant::now(), 0);
    loop {
        thread::sleep(Duration::from_millis(10));
        let mut running = 0;
        for victim in &mut *victims {
            match victim.ended() {
                Some(status) if status.success() => {}
                Some(status) if status.code() == Some(101) => {
                    return Err(Problem::new("panic", said(folder)));
                }
                Some(_) => {
                    failures += 1;
                    victim.again(folder, random.u64(..));
                    running += 1;
                }
                None => running += usize::from(victim.what == "host"),
            }
        }
        if running == 0 {
            return Ok(());
        }
        let now = outside.events();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE || failures > 20 {
            let mut text = String::new();
            for (run, events) in outside.runs().iter().filter(|(_, events)| {
                !matches!(Look::of(events).end, Some("run.completed" | "run.cancelled"))
            }) {
                let look = Look::of(events);
                let _ = write!(
                    text,
                    "{} ({}; paused {}, asks {:?}, interrupted {:?}, failed {:?}); ",
                    run.run_id, run.status, look.paused, look.asking, look.interrupted, look.failed
                );
            }
            return Err(Problem::new("hangs", text));
        }
    }
}

fn said(folder: &Path) -> String {
    fs::read_to_string(folder.join("said")).unwrap_or_default()
}

/// Runs rounds until enough processes were killed, and reports the problems by class.
pub(crate) fn campaign() {
    let kills =
        env::var("AGENTFLOW_KILLS").ok().map(|text| text.parse().expect("a number of kills"));
    let keep = env::var_os("AGENTFLOW_KILL_KEEP").map(PathBuf::from);
    let seed = env::var("AGENTFLOW_KILL_SEED")
        .ok()
        .map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let temporary = tempfile::tempdir().unwrap();
    let folder = keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    fs::create_dir_all(&folder).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_kill-forms"), folder.join(PROGRAM)).unwrap();
    let first = round(&folder.join("undisturbed"), &Plan::of(seed, true), None);
    assert!(first.problems.is_empty(), "undisturbed, seed {seed}: {}", listed(&first.problems));
    let (mut done, mut rounds, mut found) = (0, 0, BTreeMap::<String, (usize, usize)>::new());
    let mut texts = String::new();
    let began = Instant::now();
    while done < kills.unwrap_or(KILLS) {
        rounds += 1;
        let plan = Plan::of(random.u64(..), false);
        let of_round = folder.join(rounds.to_string());
        let round = round(&of_round, &plan, Some(&first.outputs));
        done += round.kills;
        if round.problems.is_empty() {
            fs::remove_dir_all(&of_round).unwrap();
        } else {
            let mut text =
                format!("round {rounds} of seed {seed}, {plan:?}: {}", listed(&round.problems));
            for (run, journal) in &round.journals {
                let _ = write!(text, "\nthe journal of {run}:\n{}", journal.join("\n"));
            }
            assert!(kills.is_some(), "{text}");
            fs::write(of_round.join("problems"), &text).unwrap();
            let before = found.len();
            for problem in &round.problems {
                found.entry(problem.class()).or_insert((0, rounds)).0 += 1;
            }
            if found.len() > before {
                let _ = write!(texts, "{text}\n\n");
            }
        }
        if kills.is_some() {
            say(&format!(
                "{done} kills, {rounds} rounds, {:?}: {}",
                began.elapsed(),
                counts(&found)
            ));
        }
    }
    assert!(found.is_empty(), "{done} kills, {rounds} rounds: {}\n{texts}", counts(&found));
}

/// Formats how often each class of problem was found, and its first round.
fn counts(found: &BTreeMap<String, (usize, usize)>) -> String {
    let each: Vec<String> = found
        .iter()
        .map(|(class, (count, round))| format!("{class}: {count} (round {round})"))
        .collect();
    each.join(", ")
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |text, problem| format!("{text}\n- {problem}"))
}

/// Bypasses the capture of test output, so that a long campaign shows its progress.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}
