//! Benchmark of durable runs that wait: the cost of 1,000 and 10,000 waiting runs, of
//! `Runtime::recover` for them in a new process, and of starting durable workflows of different
//! sizes.
//!
//! `cargo bench -p agentflow-sdk --features sqlite --bench idle`. Linux only, because it reads
//! `/proc`. Each measurement runs in a separate process. `AGENTFLOW_IDLE_RUNS` sets the number of
//! waiting runs (default `1000,10000`), `AGENTFLOW_IDLE_SECONDS` the duration of the measurement
//! (default 5), and `AGENTFLOW_IDLE_NODES` the number of nodes of the started workflows (default
//! `10,1000,10000`). The baseline of `recover` is reading the journals of the same runs. The
//! baseline of a start is `Store::create` with the same first events.

#[expect(dead_code, reason = "each program needs its own part of a case")]
#[path = "cases/mod.rs"]
mod cases;
#[path = "cases/measure.rs"]
mod measure;

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use agentflow::event::PauseReason;
use agentflow::store::{RunFilter, SqliteStore, Store};
use agentflow::workflow::Handle;
use agentflow::{Approval, RunId, Runtime, Workflow};
use cases::workflow::chain;
use measure::{measured, median};

/// Clock ticks per second for processor time in `/proc`. Linux always reports 100 to programs.
const TICKS: f64 = 100.0;
const STARTS: usize = 9;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--inside", "wait", runs, file] => inside(wait(number(runs), Path::new(file))),
        ["--inside", "recover", runs, file] => inside(recover(number(runs), Path::new(file))),
        ["--inside", "start", nodes, file] => inside(start(number(nodes), Path::new(file))),
        _ => all(),
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn all() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for runs in numbers("AGENTFLOW_IDLE_RUNS", "1000,10000") {
        let file = folder.path().join(format!("{runs}.db"));
        println!("{runs} waiting runs");
        process("wait", runs, &file);
        process("recover", runs, &file);
    }
    println!("{:<50} {:>12} {:>12} {:>7}", "durable start, CPU, µs", "floor", "ours", "ratio");
    for nodes in numbers("AGENTFLOW_IDLE_NODES", "10,1000,10000") {
        process("start", nodes, &folder.path().join(format!("start {nodes}.db")));
    }
}

/// Runs one measurement in a separate process, which prints its rows.
fn process(what: &str, size: usize, file: &Path) {
    let program = std::env::current_exe().expect("this program has a path");
    let status =
        Command::new(program).args(["--inside", what, &size.to_string()]).arg(file).status();
    assert!(status.expect("this program starts again").success(), "{what} of {size} failed");
}

fn inside(work: impl Future<Output = ()>) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    tokio.expect("a runtime").block_on(work);
    // Exits without waiting for the waiting runs and the reader threads of the store.
    std::process::exit(0);
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn row(name: &str, value: impl std::fmt::Display) {
    println!("  {name:<48} {value:>12}");
}

/// Starts the runs, and measures them when all of them wait for an answer.
async fn wait(runs: usize, file: &Path) {
    let runtime = runtime(file).await;
    let before = resident();
    let mut handles = Vec::new();
    for at in 0..runs {
        let id = RunId::new(format!("run-{at}"));
        handles.push(runtime.start(asking(), at as u64).run_id(id).await.expect("it starts"));
    }
    // Memory is measured when all runs have reached their question.
    all_ask(&runtime, runs).await;
    row("RSS, bytes a run", (resident().saturating_sub(before)) / runs);
    idle("started here").await;
}

/// Resumes the runs of the previous process.
async fn recover(runs: usize, file: &Path) {
    let store = SqliteStore::open(file).await.expect("it opens");
    let (began, cpu) = (Instant::now(), processor_time());
    let mut events = 0;
    for at in 0..runs {
        events += store
            .read(&RunId::new(format!("run-{at}")), 0, usize::MAX)
            .await
            .expect("it is read")
            .len();
    }
    let floor = (began.elapsed().as_secs_f64(), processor_time() - cpu);
    black_box(events);
    drop(store);
    let runtime = runtime(file).await;
    let (began, cpu) = (Instant::now(), processor_time());
    let recovered = runtime.recover().await.expect("the runs are listed");
    let ours = (began.elapsed().as_secs_f64(), processor_time() - cpu);
    assert_eq!(
        (recovered.resumed.len(), recovered.left.len()),
        (runs, 0),
        "all of them are resumed"
    );
    row("recover(), wall, s", format!("{:.2}", ours.0));
    row("recover(), CPU, s", format!("{:.2}", ours.1));
    row("recover(), wall beside reading the journals", format!("{:.1}", ours.0 / floor.0));
    row(
        "recover(), CPU beside reading the journals",
        format!("{:.1}", ours.1 / floor.1.max(1.0 / TICKS)),
    );
    all_ask(&runtime, runs).await;
    idle("recovered").await;
}

/// Measures the process while nothing happens.
async fn idle(how: &str) {
    // The work that the last start triggered has then finished.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seconds = numbers("AGENTFLOW_IDLE_SECONDS", "5")[0];
    let (began, cpu) = (Instant::now(), processor_time());
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    let cores = (processor_time() - cpu) / began.elapsed().as_secs_f64();
    row(&format!("idle, {how}: CPU seconds a second"), format!("{cores:.3}"));
    row(&format!("idle, {how}: threads"), count("/proc/self/task"));
    row(&format!("idle, {how}: open files"), count("/proc/self/fd"));
    row(&format!("idle, {how}: RSS, MB"), format!("{:.1}", resident() as f64 / 1e6));
}

/// Measures a durable start, compared with storing the same first events.
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
async fn start(nodes: usize, file: &Path) {
    let workflow = chain(nodes);
    let store = SqliteStore::open(file).await.expect("it opens");
    let runtime = Runtime::builder().store(store.clone()).build();
    let mut samples = [const { Vec::new() }; 4];
    for at in 0..=STARTS {
        let mut first = Vec::new();
        let ours = measured(async {
            let run = runtime.start(workflow.clone(), 1).await.expect("it starts");
            first = run.recorded();
            first.truncate(1);
            run.abandon();
        })
        .await;
        let id = RunId::new(format!("floor-{at}"));
        first[0].run_id = id.clone();
        let floor = measured(store.create(&id, first)).await;
        // The first start also stores the definition, so it is reported separately.
        if at == 0 {
            println!("  {:<48} {:>12} {:>12.0}", format!("the first of {nodes} nodes"), "", ours.1);
        } else {
            for (samples, value) in samples.iter_mut().zip([floor.0, ours.0, floor.1, ours.1]) {
                samples.push(value);
            }
        }
    }
    let [floor, ours, floor_cpu, our_cpu] = samples.map(median);
    for (what, floor, ours) in [("", floor_cpu, our_cpu), (", wall", floor, ours)] {
        let name = format!("{nodes} nodes{what}");
        println!("  {name:<48} {floor:>12.0} {ours:>12.0} {:>7.2}", ours / floor);
    }
}

async fn runtime(file: &Path) -> Runtime {
    let store = SqliteStore::open(file).await.expect("it opens");
    Runtime::builder().store(store).workflow(&asking()).build()
}

/// Builds a workflow with a step and a question.
fn asking() -> Workflow<(u64,), u64> {
    let built = Workflow::build("asking", ["n"], |b, (n,)| {
        let next = b.node("next", (n,), |_cx, (n,)| async move { Ok::<_, String>(n + 1) });
        let word: Handle<Approval> =
            b.gate("word", (next,), |(n,)| Ok::<_, String>(("continue?".to_owned(), n)));
        b.value("last", (next, word), |(n, _)| Ok::<_, String>(n))
    });
    built.expect("a workflow")
}

async fn all_ask(runtime: &Runtime, runs: usize) {
    loop {
        let unfinished =
            runtime.runs().list(RunFilter::unfinished()).await.expect("they are listed");
        let asking =
            unfinished.iter().filter(|run| run.pause_reason == Some(PauseReason::Approval)).count();
        if asking == runs {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the processor time of this process in seconds, including threads that have ended.
fn processor_time() -> f64 {
    let stat =
        std::fs::read_to_string("/proc/self/stat").expect("the kernel tells about this process");
    // The name of the program may contain any character; after it, all fields are numbers.
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in brackets");
    let ticks = |at: usize| -> f64 {
        fields.split(' ').nth(at).and_then(|text| text.parse().ok()).expect("a number")
    };
    (ticks(11) + ticks(12)) / TICKS
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("the kernel tells about this process");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the system says it");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).expect("the kernel tells about this process").count()
}

fn number(text: &str) -> usize {
    text.trim().parse().unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

fn numbers(variable: &str, default: &str) -> Vec<usize> {
    std::env::var(variable).as_deref().unwrap_or(default).split(',').map(number).collect()
}
