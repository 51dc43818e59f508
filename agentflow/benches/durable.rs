//! Benchmark of workflows over `SqliteStore`: a chain of 1,000 steps compared with the same
//! hand-written commits over rusqlite, 128 concurrent runs compared with one, and resuming a run of
//! 10,000 events, of a workflow and of an agent, compared with reading the events.
//!
//! `cargo bench -p agentflow-sdk --features sqlite --bench durable [-- chain many resume]`. Linux
//! only, because it reads `/proc`. The two sides alternate, so that other load on the disk affects
//! both. The median counts.

#[expect(dead_code, reason = "each program needs its own part of a case")]
mod cases;
#[path = "cases/measure.rs"]
mod measure;

use std::hint::black_box;
use std::path::Path;

use agentflow::store::{MemoryStore, SqliteStore, Store};
use agentflow::{Event, RunId, Runtime, serde_json};
use cases::step;
use cases::workflow::chain;
use measure::{measured, median};
use rusqlite::{Connection, params};

const STEPS: usize = 1_000;
const RUNS: usize = 128;
const LONG: usize = 5_000;
/// Number of turns, with five events each.
const LONG_TALK: usize = 2_000;
const ROUNDS: usize = 5;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let tokio =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("{:<50} {:>12} {:>12} {:>7} {:>8}", "", "floor", "ours", "ratio", "target");
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == part);
    if is_wanted("chain") {
        tokio.block_on(durable_chain(folder.path()));
    }
    if is_wanted("many") {
        tokio.block_on(concurrent(folder.path()));
    }
    if is_wanted("resume") {
        tokio.block_on(resuming(folder.path()));
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn row(name: &str, floor: f64, ours: f64, target: &str) {
    println!("{name:<50} {floor:>12.1} {ours:>12.1} {:>7.2} {target:>8}", ours / floor);
}

/// Measures a chain. The hand-written version has one table and one transaction per step, which
/// contains the end of a step and the start of the next, as agentflow commits them.
async fn durable_chain(folder: &Path) {
    let workflow = chain(STEPS);
    let by_hand = table_by_hand(&folder.join("by_hand.db"));
    let runtime = Runtime::builder()
        .store(SqliteStore::open(folder.join("ours.db")).await.expect("it opens"))
        .build();
    let mut samples = [const { Vec::new() }; 4];
    let mut bodies: Vec<(u64, String)> = Vec::new();
    for round in 0..=ROUNDS {
        let ours = measured(async {
            let run = runtime.start(workflow.clone(), 1).await.expect("it starts");
            run.result().await.expect("it ends");
            if bodies.is_empty() {
                let text =
                    |event: &Event| serde_json::to_string(event).expect("an event has a JSON form");
                bodies = run.recorded().iter().map(|event| (event.seq, text(event))).collect();
            }
        })
        .await;
        let floor = measured(async {
            for step in bodies.chunks(2) {
                insert_by_hand(
                    &by_hand,
                    step.iter().map(|(seq, body)| (format!("run {round}"), *seq, body)),
                );
            }
        })
        .await;
        // The first round only creates the strings for the hand-written version.
        if round > 0 {
            for (samples, value) in samples.iter_mut().zip([floor.0, ours.0, floor.1, ours.1]) {
                samples.push(value / STEPS as f64);
            }
        }
    }
    let [floor, ours, floor_cpu, our_cpu] = samples.map(median);
    row(&format!("durable chain of {STEPS}, wall, µs a step"), floor, ours, "<= 1.3");
    row(&format!("durable chain of {STEPS}, CPU, µs a step"), floor_cpu, our_cpu, "<= 1.3");
}

/// Measures the step rate of one run and of many concurrent runs. It also compares the CPU time of
/// a step of the many runs with hand-written inserts of its two rows, in transactions with one step
/// of each run.
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
async fn concurrent(folder: &Path) {
    let runtime = Runtime::builder()
        .store(SqliteStore::open(folder.join("many.db")).await.expect("it opens"))
        .build();
    let by_hand = table_by_hand(&folder.join("many_by_hand.db"));
    let mut rates = [Vec::new(), Vec::new()];
    let mut cpu = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (side, runs, steps) in [(0, 1, 200), (1, RUNS, 40)] {
            let workflow = chain(steps);
            let (wall, used) = measured(futures_util::future::join_all((0..runs).map(|_| {
                let (runtime, workflow) = (runtime.clone(), workflow.clone());
                async move {
                    let run = runtime.start(workflow, 1).await.expect("it starts");
                    run.result().await.expect("it ends")
                }
            })))
            .await;
            rates[side].push((runs * steps) as f64 / wall * 1e6);
            if side == 1 {
                cpu[1].push(used / (runs * steps) as f64);
                let body =
                    r#"{"name":"workflow.node.completed","payload":{"output":2,"duration_ms":0}}"#;
                let (_, used) = measured(async {
                    for step in 0..steps {
                        insert_by_hand(
                            &by_hand,
                            (0..runs * 2).map(|at| {
                                (
                                    format!("run {round} {}", at / 2),
                                    (step * 2 + at % 2) as u64,
                                    body,
                                )
                            }),
                        );
                    }
                })
                .await;
                cpu[0].push(used / (runs * steps) as f64);
            }
        }
    }
    let ([one, many], [floor, ours]) = (rates.map(median), cpu.map(median));
    let name = format!("durable steps/s, one run and {RUNS} at the same time");
    println!("{name:<50} {one:>12.0} {many:>12.0} {:>7.2} {:>8}", many / one, ">= 8");
    row(&format!("{RUNS} durable runs at once, CPU, µs a step"), floor, ours, "<= 1.5");
}

/// Creates the hand-written table with one row per event.
fn table_by_hand(file: &Path) -> Connection {
    let connection = Connection::open(file).expect("the file opens");
    connection
        .execute_batch(
            "PRAGMA journal_mode = wal; PRAGMA synchronous = FULL;
             CREATE TABLE events (run TEXT, seq INTEGER, body TEXT, PRIMARY KEY (run, seq)) WITHOUT ROWID;",
        )
        .expect("the table is made");
    connection
}

/// Inserts rows in one hand-written transaction.
fn insert_by_hand<B: AsRef<str>>(table: &Connection, rows: impl Iterator<Item = (String, u64, B)>) {
    table.execute_batch("BEGIN IMMEDIATE").expect("a transaction begins");
    let mut insert = table.prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3)").expect("SQL");
    for (run, seq, body) in rows {
        insert.execute(params![run, seq as i64, body.as_ref()]).expect("it is written");
    }
    table.execute_batch("COMMIT").expect("it ends");
}

/// Measures resuming a run of a workflow and of an agent, each with one remaining step.
async fn resuming(folder: &Path) {
    let memory = MemoryStore::new();
    let first = Runtime::builder().store(memory.clone()).build();
    let workflow = chain(LONG);
    let run = first.start(workflow.clone(), 1).await.expect("it starts");
    run.result().await.expect("it ends");
    // Without the end of the last step and the end of the run.
    let id = run.run_id().clone();
    resumed(folder, "run", &memory, &id, 2, async |runtime: &Runtime| {
        runtime.run(&id).resume_as(&workflow).await.expect("it is resumed").abandon();
    })
    .await;

    let agent = step::agent(step::Script::new(LONG_TALK), 1, &first);
    let run = agent.start("Add the numbers.").expect("it starts");
    run.result().await.expect("it ends");
    let id = run.run_id().clone();
    // Without the last answer and the end of the run.
    resumed(folder, "agent's run", &memory, &id, 3, async |runtime: &Runtime| {
        agent.clone().runtime(runtime).resume(&id).await.expect("it is resumed").abandon();
    })
    .await;
}

/// Measures resuming a run without its last events, with and without a snapshot, compared with
/// reading the events.
async fn resumed(
    folder: &Path,
    what: &str,
    memory: &MemoryStore,
    id: &RunId,
    without: usize,
    resume: impl AsyncFn(&Runtime),
) {
    let mut events = memory.read(id, 0, usize::MAX).await.expect("it is read");
    events.truncate(events.len() - without);
    let snapshot = memory.snapshot(id).await.expect("it is read").expect("there is one");
    let mut samples = [const { Vec::new() }; 4];
    // The CPU time of a writer thread is lost when the thread ends, so the stores stay open.
    let mut stores = Vec::new();
    for round in 0..ROUNDS * 2 {
        let store =
            SqliteStore::open(folder.join(format!("{what} {round}.db"))).await.expect("it opens");
        let runtime = Runtime::builder().store(store.clone()).build();
        let epoch = store.create(id, events.clone()).await.expect("it is new");
        store
            .put_definition(&events[0].kind_definition(), "{}".to_owned())
            .await
            .expect("it is kept");
        // The first half of the rounds has no snapshot, the second half has one.
        let with_snapshot = round >= ROUNDS;
        if with_snapshot {
            store.put_snapshot(id, epoch, snapshot.clone()).await.expect("it is kept");
        }
        store.close(id, epoch).await.expect("it is closed");
        let reading = measured(async {
            black_box(store.read(id, 0, usize::MAX).await.expect("it is read").len())
        })
        .await;
        let resuming = measured(resume(&runtime)).await;
        stores.push(store);
        let at = usize::from(with_snapshot) * 2;
        samples[at].push(reading.1 / 1e3);
        samples[at + 1].push(resuming.1 / 1e3);
    }
    let [reading, resumed, reading_again, from_snapshot] = samples.map(median);
    row(&format!("resume a {what} of {} events, CPU, ms", events.len()), reading, resumed, "<= 2");
    let (kept, after) = (snapshot.events.len(), events.len() as u64 - snapshot.seq);
    row(
        &format!("the same from a snapshot of {kept}, {after} after it"),
        reading_again,
        from_snapshot,
        "3 ms",
    );
}

/// Returns the definition with which a run started.
trait KindDefinition {
    fn kind_definition(&self) -> String;
}

impl KindDefinition for Event {
    fn kind_definition(&self) -> String {
        match &self.kind {
            agentflow::event::EventKind::RunStarted(started) => started
                .workflow()
                .map(|workflow| workflow.definition.to_string())
                .unwrap_or_default(),
            _ => String::new(),
        }
    }
}
