//! Kills worker processes that share a store, SQLite or Postgres, and stops them for longer than
//! their lease. Every queued run ends, no finished step is repeated, no accepted answer is lost, and
//! a killed worker's runs are continued by the others.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{RunFilter, RunRecord, RunStatus};
use agentflow::{Event, RunId};
use agentflow_testing::within;
use agentflow_tests::kill::{Look, Word};
use agentflow_tests::{PostgresServer, Process, freeze, unfreeze};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::invariants::of_run;
use super::worker_program::{Effects, LEASE, STEP, WORKER, kill_order, runtime_at, start};

const WORKERS: usize = 4;
/// Number of kills for each store. `AGENTFLOW_KILLS` sets another number.
const KILLS: usize = 60;
/// Number of orders that are queued with each kill.
const ORDERS: usize = 3;
/// Processes are killed at random moments up to this long after each other.
const BETWEEN_KILLS_MS: u64 = 400;
/// Each order with a number that is divisible by this is denied.
const DENIED: u32 = 4;
/// Time that a busy machine may add to the time until a run is continued.
const SLACK: Duration = Duration::from_secs(8);

fn kills(default: usize) -> usize {
    let kills = std::env::var("AGENTFLOW_KILLS").ok();
    kills.map_or(default, |kills| kills.parse().expect("a number of kills"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_a_file_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("runs.db").display().to_string();
    campaign(&address, &Effects(folder.path().join("effects"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_a_postgres_database_are_killed() {
    let Some(server) = PostgresServer::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = server.new_database("killed_workers").await;
    campaign(&address, &Effects(folder.path().join("effects"))).await;
}

/// Queues orders with each kill. Answers the questions in this process until all runs have ended,
/// and checks them.
#[expect(clippy::print_stdout, reason = "figures of a campaign")]
async fn campaign(address: &str, effects: &Effects) {
    let kills = kills(KILLS);
    let begun = Instant::now();
    let runtime = runtime_at(address, effects.0.clone(), STEP).await;
    let operator = tokio::spawn(operate(runtime.clone(), kills * ORDERS));
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| start(WORKER, address, effects)).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let mut runs = Vec::new();
    for _ in 0..kills {
        for _ in 0..ORDERS {
            let number = u32::try_from(runs.len()).unwrap();
            let order = runtime.start(kill_order::workflow(), number).compensate();
            runs.push((number, order.queued().await.unwrap()));
        }
        sleep(Duration::from_millis(random.u64(0..BETWEEN_KILLS_MS))).await;
        let victim = &mut workers[random.usize(0..WORKERS)];
        victim.kill();
        *victim = start(WORKER, address, effects);
    }
    let limit = Duration::from_secs(120 + kills as u64);
    let words = timeout(limit, operator).await.expect("all runs end in time").unwrap();
    drop(workers);
    let lines = fs::read_to_string(&effects.0).unwrap();
    let mut checked = Checked::default();
    for (number, run) in &runs {
        let events = runtime.run(run).journal().await.unwrap();
        let record = runtime.run(run).record().await.unwrap();
        checked.add(*number, &record, &events, &lines, &words);
    }
    println!("{address}: {kills} kills of {WORKERS} workers in {:?}: {checked}", begun.elapsed());
    assert!(checked.problems.is_empty(), "{}", checked.problems.join("\n"));
    let claimable = runtime.store().unwrap().claimable(RunFilter::unfinished()).await.unwrap();
    assert_eq!(claimable, []);
}

/// Answers questions and retries interrupted charges until `count` runs have ended. Returns all
/// requests with their outcomes.
async fn operate(runtime: Runtime, count: usize) -> Vec<Word> {
    let (mut words, mut asked) = (Vec::new(), JoinSet::new());
    let mut busy: Vec<RunId> = Vec::new();
    let begun = Instant::now();
    let limit = Duration::from_secs(3600);
    while begun.elapsed() < limit {
        while let Some(answered) = asked.try_join_next() {
            let word: Word = answered.unwrap();
            busy.retain(|run| *run != word.run);
            words.push(word);
        }
        let all = runtime.runs().list(RunFilter::new()).await.unwrap();
        if all.len() == count && busy.is_empty() && all.iter().all(|run| run.status.has_ended()) {
            return words;
        }
        for run in all.into_iter().filter(|run| !run.status.has_ended()) {
            if busy.contains(&run.run_id) {
                continue;
            }
            let look = Look::of(&runtime.run(&run.run_id).journal().await.unwrap());
            if let Some(request) = Request::next(&run.run_id, &look, words.len() + busy.len()) {
                busy.push(run.run_id.clone());
                asked.spawn(request.send(runtime.clone()));
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("the runs have not ended after {limit:?}");
}

/// A request of the operator.
struct Request(Word);

impl Request {
    /// Returns the request that a run waits for.
    fn next(run: &RunId, look: &Look, number: usize) -> Option<Self> {
        let (kind, node) = match (look.asking.first(), look.interrupted.first()) {
            (Some(node), _) => ("answer", node),
            (None, Some(node)) => ("retry", node),
            (None, None) => return None,
        };
        Some(Self(Word {
            token: format!("word-{number}-{}", fastrand::u32(..)),
            kind: kind.to_owned(),
            run: run.clone(),
            node: node.clone(),
            seen: look.events,
            outcome: None,
            after: None,
        }))
    }

    /// Sends the request. Its outcome may be a refusal: the run may have ended or changed.
    async fn send(self, runtime: Runtime) -> Word {
        let mut word = self.0;
        let run = runtime.run(&word.run);
        let sent = match word.kind.as_str() {
            "retry" => run.retry(&word.node, &word.token).await,
            _ => {
                let events = run.journal().await.unwrap();
                let approval = match is_denied(input(&events)) {
                    true => Approval::Denied { comment: None },
                    false => Approval::granted(),
                };
                run.approve(&word.node, approval, &word.token).await
            }
        };
        if sent.is_ok() {
            word.after = Some(run.journal().await.unwrap().len() as u64);
        }
        word.outcome = Some(sent.map_err(|error| error.to_string()));
        word
    }
}

/// Returns the number of an order from the start of its journal.
fn input(events: &[Event]) -> u32 {
    let EventKind::RunStarted(started) = &events[0].kind else { panic!("{:?}", events[0]) };
    let text = started.workflow().expect("the run of a workflow").input.to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("the input is a number")
}

fn is_denied(number: u32) -> bool {
    number.is_multiple_of(DENIED)
}

/// The figures of a campaign, and the violated invariants.
#[derive(Default)]
struct Checked {
    problems: Vec<String>,
    runs: usize,
    answers: usize,
    retries: usize,
    refused: usize,
    undone: usize,
    /// Times until a run was continued by another process, or taken from the queue.
    gaps: Vec<Duration>,
}

impl Checked {
    fn add(
        &mut self,
        number: u32,
        record: &RunRecord,
        events: &[Event],
        effects: &str,
        words: &[Word],
    ) {
        let run = &record.run_id;
        let mut problems = Vec::new();
        let output = of_run(record, events, effects, words, &mut problems);
        self.problems.extend(problems.iter().map(ToString::to_string));
        let undone = effects.lines().filter(|line| line.starts_with(&format!("undo {run} ")));
        let undone: BTreeMap<&str, usize> = undone.fold(BTreeMap::new(), |mut times, line| {
            *times.entry(line).or_default() += 1;
            times
        });
        let expected = match is_denied(number) {
            true => (RunStatus::Failed, None, 2),
            false => (RunStatus::Success, Some((number + 5).to_string()), 0),
        };
        let found = (record.status, output, undone.len());
        if found != expected {
            self.problems.push(format!("{run}: {found:?}, expected {expected:?}"));
        }
        self.runs += 1;
        self.undone += undone.len();
        for word in words.iter().filter(|word| word.run == *run) {
            match (&word.outcome, word.kind.as_str()) {
                (Some(Ok(())), "retry") => self.retries += 1,
                (Some(Ok(())), _) => self.answers += 1,
                _ => self.refused += 1,
            }
        }
        for gap in gaps(events) {
            if gap > LEASE + Duration::from_secs(2) + SLACK {
                self.problems.push(format!("{run}: no process continued it for {gap:?}"));
            }
            self.gaps.push(gap);
        }
    }
}

impl std::fmt::Display for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut gaps = self.gaps.clone();
        gaps.sort_unstable();
        let at = |share: usize| gaps.get((gaps.len() * share / 100).min(gaps.len() - 1)).copied();
        write!(
            f,
            "{} runs, {} answers, {} retries, {} refused requests, {} calls undone; {} times \
             continued after p50 {:?}, p99 {:?}, at most {:?}; {} problems",
            self.runs,
            self.answers,
            self.retries,
            self.refused,
            self.undone,
            gaps.len(),
            at(50),
            at(99),
            gaps.last(),
            self.problems.len()
        )
    }
}

/// Returns the times from the last event of a process to the first event of the next process. Runs
/// that wait for the operator are left out, since nothing happens in them.
fn gaps(events: &[Event]) -> Vec<Duration> {
    let mut gaps = Vec::new();
    for (at, event) in events.iter().enumerate().skip(1) {
        let is_continued = matches!(event.kind, EventKind::RunResumed { recovered: true, .. });
        if is_continued && event.path.is_root() && !Look::of(&events[..at]).waits() {
            let millis = |event: &Event| event.time.as_millis();
            let passed = millis(event).saturating_sub(millis(&events[at - 1]));
            gaps.push(Duration::from_millis(passed));
        }
    }
    gaps
}

/// Number of processes that are stopped, for each kill of a campaign.
const FREEZES: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let effects = Effects(folder.path().join("effects"));
    let address = server.new_database("stopped_workers").await;
    let runtime = runtime_at(&address, effects.0.clone(), STEP).await;
    let freezes = FREEZES.max(kills(0) / 20);
    let mut random = fastrand::Rng::with_seed(7);
    let _worker = start(WORKER, &address, &effects);
    for number in 0..freezes {
        let run = RunId::new(format!("stopped-{number}"));
        let mut late = start(run.as_str(), &address, &effects);
        let events = async || runtime.run(&run).journal().await.unwrap_or_default();
        within("the first step", async {
            while events().await.len() < 3 {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        sleep(Duration::from_millis(random.u64(0..500))).await;
        freeze(late.id());
        let is_taken = |event: &Event| matches!(event.kind, EventKind::RunResumed { .. });
        within("the worker that continues the run", async {
            while !events().await.iter().any(is_taken) {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        // Half of them continue while the worker still executes the run.
        if number % 2 == 0 {
            let handle = runtime.run(&run).attach().await.unwrap();
            within("the end of the run", handle.result()).await.unwrap();
        }
        let before = events().await;
        unfreeze(late.id());
        let result = late.wait_until("it printed its result", |process| {
            let output = process.output();
            let (_, result) = output.split_once("> ")?;
            Some(result.lines().next()?.to_owned())
        });
        assert_eq!(result, "store error fenced", "{run}");
        let handle = runtime.run(&run).attach().await.unwrap();
        let output = within("the end of the run", handle.result()).await.unwrap();
        assert_eq!(output.decode::<u32>().unwrap(), 4);
        let events = events().await;
        assert_eq!(events[..before.len()], before, "the journal only grows");
        let record = runtime.run(&run).record().await.unwrap();
        let lines = fs::read_to_string(&effects.0).unwrap();
        let mut problems = Vec::new();
        of_run(&record, &events, &lines, &[], &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        let resumed = events.iter().filter(|event| is_taken(event)).count();
        assert_eq!(resumed, 1, "{run} is continued once");
    }
}
