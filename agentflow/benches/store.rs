//! Benchmark of durable appends: `SqliteStore` compared with the same hand-written appends over
//! rusqlite with the same syncs, 128 concurrent runs compared with one, and reading a long run.
//!
//! `cargo bench -p agentflow-sdk --features sqlite --bench store`. Linux only, because it reads
//! `/proc`. The two sides alternate in short blocks, so that other load on the disk affects both.
//! The median of the blocks counts.

#[path = "cases/measure.rs"]
mod measure;

use std::hint::black_box;
use std::path::Path;

use agentflow::serde_json::{self, json};
use agentflow::store::{Append, Snapshot, SqliteStore, Store, Synchronous};
use agentflow::{Event, RunId};
use measure::{measured, median};
use rusqlite::{Connection, params};

const BLOCK: u64 = 50;
const BLOCKS: u64 = 41;
const RUNS: usize = 128;
const LONG: u64 = 10_000;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let tokio =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("{:<50} {:>12} {:>12} {:>7} {:>8}", "", "floor", "ours", "ratio", "target");
    for (name, synchronous, target) in
        [("FULL", Synchronous::Full, "<= 1.3"), ("NORMAL", Synchronous::Normal, "")]
    {
        let [wall, cpu] = tokio.block_on(chain(&folder.path().join(name), synchronous, name));
        row(&format!("append, {name}, wall, µs"), wall, target);
        row(&format!("append, {name}, CPU, µs"), cpu, target);
    }
    tokio.block_on(concurrent(&folder.path().join("concurrent")));
    tokio.block_on(reading(&folder.path().join("reading")));
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn row(name: &str, [floor, ours]: [f64; 2], target: &str) {
    println!("{name:<50} {floor:>12.1} {ours:>12.1} {:>7.2} {target:>8}", ours / floor);
}

fn event(run: &RunId, seq: u64) -> Event {
    let output = "an answer of some length ".repeat(5);
    let event = json!({
        "run_id": run, "seq": seq, "time": 1_700_000_000_000 + seq, "path": format!("node_{seq}"),
        "name": "workflow.node.completed", "payload": {"output": {"text": output}, "duration_ms": 12}
    });
    serde_json::from_str(&event.to_string()).expect("the event has the form of events")
}

fn started(run: &RunId) -> Event {
    let body = json!({"workflow": {"name": "job", "definition": "d1", "input": 1}});
    let event = json!({
        "run_id": run, "seq": 1, "time": 1_700_000_000_001_u64, "path": "",
        "name": "run.started", "payload": {"version": 1, "body": body}
    });
    serde_json::from_str(&event.to_string()).expect("the event has the form of events")
}

/// Creates the hand-written table: one row per event, and one transaction per row.
fn by_hand(file: &Path, synchronous: &str) -> Connection {
    let connection = Connection::open(file).expect("the file opens");
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = wal; PRAGMA synchronous = {synchronous};
             CREATE TABLE events (run TEXT, seq INTEGER, body TEXT, PRIMARY KEY (run, seq)) WITHOUT ROWID;"
        ))
        .expect("the table is made");
    connection
}

fn insert(connection: &Connection, run: &RunId, event: &Event) {
    let body = serde_json::to_string(event).expect("an event has a JSON form");
    connection
        .prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3)")
        .and_then(|mut insert| insert.execute(params![run.as_str(), event.seq as i64, body]))
        .expect("the event is written");
}

/// Returns the microseconds per append of the hand-written version and of agentflow: wall and CPU
/// time.
async fn chain(file: &Path, synchronous: Synchronous, pragma: &str) -> [[f64; 2]; 2] {
    let run = RunId::new("0b9a3e0c-6d0f-4b2e-9a55-d3f6c2a1b7e4");
    let floor = by_hand(&file.with_extension("floor"), pragma);
    let store =
        SqliteStore::builder(file).synchronous(synchronous).open().await.expect("the store opens");
    let epoch = store.create(&run, vec![started(&run)]).await.expect("the run is new");
    let mut samples = [const { Vec::new() }; 4];
    for block in 0..BLOCKS {
        let events: Vec<Event> = (0..BLOCK).map(|n| event(&run, 2 + block * BLOCK + n)).collect();
        let by_hand =
            measured(async { events.iter().for_each(|event| insert(&floor, &run, event)) }).await;
        let ours = measured(async {
            for event in &events {
                store
                    .append(&run, epoch, Append::new(event.seq - 1, vec![event.clone()]))
                    .await
                    .expect("the event is written");
            }
        })
        .await;
        for (samples, value) in samples.iter_mut().zip([by_hand.0, ours.0, by_hand.1, ours.1]) {
            samples.push(value / BLOCK as f64);
        }
    }
    // The kernel counts a thread's time in ticks that are longer than a block, so only the mean of
    // the CPU time is meaningful.
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let [floor_cpu, our_cpu] = [&samples[2], &samples[3]].map(mean);
    let [floor_wall, our_wall, ..] = samples.map(median);
    [[floor_wall, our_wall], [floor_cpu, our_cpu]]
}

/// Measures the step rate of one run and of many concurrent runs.
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
async fn concurrent(file: &Path) {
    let store = SqliteStore::open(file).await.expect("the store opens");
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..7 {
        for (side, runs, steps) in [(0, 1, 200), (1, RUNS, 40)] {
            let ids: Vec<RunId> =
                (0..runs).map(|run| RunId::new(format!("{round} {side} {run}"))).collect();
            let mut open = Vec::new();
            for run in ids {
                let epoch = store.create(&run, vec![started(&run)]).await.expect("the run is new");
                open.push((run, epoch));
            }
            let (wall, _) =
                measured(futures_util::future::join_all(open.iter().map(|(run, epoch)| {
                    let store = &store;
                    async move {
                        for after in 1..=steps {
                            let next = vec![event(run, after + 1)];
                            store
                                .append(run, *epoch, Append::new(after, next))
                                .await
                                .expect("the event is written");
                        }
                    }
                })))
                .await;
            rates[side].push((runs as u64 * steps) as f64 / wall * 1e6);
        }
    }
    let [one, many] = rates.map(median);
    let name = format!("steps/s, one run and {RUNS} at the same time");
    println!("{name:<50} {one:>12.0} {many:>12.0} {:>7.2} {:>8}", many / one, ">= 8");
}

/// Measures reading a long run, compared with hand-written code that reads and decodes the same
/// strings, in milliseconds, and the size on the disk.
async fn reading(file: &Path) {
    let run = RunId::new("0b9a3e0c-6d0f-4b2e-9a55-d3f6c2a1b7e4");
    let store = SqliteStore::open(file).await.expect("the store opens");
    let epoch = store.create(&run, vec![started(&run)]).await.expect("the run is new");
    let floor_file = file.with_extension("floor");
    let floor = by_hand(&floor_file, "FULL");
    let mut sizes = Vec::new();
    for half in [2..LONG / 2, LONG / 2..LONG + 1] {
        let events: Vec<Event> = half.map(|seq| event(&run, seq)).collect();
        floor.execute_batch("BEGIN").expect("a transaction begins");
        events.iter().for_each(|event| insert(&floor, &run, event));
        floor.execute_batch("COMMIT").expect("it ends");
        let after = events[0].seq - 1;
        store
            .append(&run, epoch, Append::new(after, events))
            .await
            .expect("the events are written");
        let pages = |file: &Path| {
            let connection = Connection::open(file).expect("the file opens");
            let pages: i64 = connection
                .query_row("PRAGMA page_count", [], |row| row.get(0))
                .expect("it has pages");
            pages as f64 * 4096.0
        };
        sizes.push([pages(&floor_file), pages(file)]);
    }
    let snapshot =
        Snapshot::new(LONG, store.read(&run, LONG - 300, 300).await.expect("it is read"));
    store.put_snapshot(&run, epoch, snapshot).await.expect("it is kept");
    let mut samples = [const { Vec::new() }; 3];
    for _ in 0..21 {
        let by_hand = measured(async {
            let mut select = floor
                .prepare_cached("SELECT body FROM events WHERE run = ?1 ORDER BY seq")
                .expect("SQL");
            let mut rows = select.query([run.as_str()]).expect("it is read");
            let mut events: Vec<Event> = Vec::new();
            while let Some(row) = rows.next().expect("it is read") {
                let body =
                    row.get_ref(0).and_then(|value| Ok(value.as_str()?)).expect("it is text");
                events.push(serde_json::from_str(body).expect("it is an event"));
            }
            black_box(events.len())
        })
        .await;
        let ours = measured(async {
            black_box(store.read(&run, 0, usize::MAX).await.expect("it is read").len())
        })
        .await;
        let snapshot = measured(async {
            black_box(store.snapshot(&run).await.expect("it is read")).is_some()
        })
        .await;
        for (samples, value) in samples.iter_mut().zip([by_hand.0, ours.0, snapshot.0]) {
            samples.push(value / 1e3);
        }
    }
    let [by_hand, ours, snapshot] = samples.map(median);
    row(&format!("read {LONG} events, ms"), [by_hand, ours], "<= 2");
    row("read a snapshot of 300 of them, ms", [by_hand, snapshot], "");
    let half = LONG as f64 / 2.0;
    row("bytes an event on the disk, first half", sizes[0].map(|size| size / half), "");
    row(
        "bytes an event on the disk, second half",
        [0, 1].map(|side| (sizes[1][side] - sizes[0][side]) / half),
        "",
    );
}
