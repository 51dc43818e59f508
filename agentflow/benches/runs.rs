//! Benchmark of 10,000 concurrent runs of three steps each, with a model that takes 10 ms: wall
//! time, CPU time and peak memory.
//!
//! `cargo bench --bench runs`. Linux only, because it reads `/proc`. Each measurement runs in a
//! separate process to get its own memory peak. The hand-written version and agentflow alternate.
//! One thread is used, so that the comparison does not include scheduling.

#[expect(dead_code, reason = "each program needs its own part of a case")]
mod cases;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentflow::model::{ModelInfo, ModelRequest, ModelStream};
use agentflow::{Agent, Model, Runtime};
use cases::step;

const RUNS: u32 = 10_000;
const STEPS: usize = 3;
const LATENCY: Duration = Duration::from_millis(10);
const ROUNDS: usize = 7;

/// A model with latency.
struct Slow(step::Script);

impl Model for Slow {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let answer = self.0.answer(&request);
        ModelStream::new(futures_util::stream::once(async move {
            tokio::time::sleep(LATENCY).await;
            Ok(answer)
        }))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--inside") => inside(&arguments[1]),
        _ => compare(),
    }
}

/// The results of one process.
#[derive(Clone, Copy)]
struct Measured {
    wall_ms: f64,
    cpu_ms: f64,
    bytes_a_run: f64,
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn compare() {
    println!("{RUNS} runs of {STEPS} steps, a model latency of {LATENCY:?}, one thread");
    let agent = agent();
    println!(
        "bytes of the future of `Agent::run`: {}",
        size_of_val(&agent.run("Add the numbers."))
    );
    let rounds: Vec<[Measured; 2]> = (0..ROUNDS).map(|_| ["floor", "ours"].map(measured)).collect();
    println!("{:<20} {:>12} {:>12} {:>7} {:>10}", "", "floor", "ours", "ratio", "target");
    let row = |name: &str, target: &str, value: fn(&Measured) -> f64| {
        let [floor, ours] =
            [0, 1].map(|side| median(rounds.iter().map(|round| value(&round[side]))));
        let ratio = median(rounds.iter().map(|[floor, ours]| value(ours) / value(floor)));
        println!("{name:<20} {floor:>12.1} {ours:>12.1} {ratio:>7.2} {target:>10}");
    };
    row("wall, ms", "", |measured| measured.wall_ms);
    row("CPU, ms", "<= 2.5", |measured| measured.cpu_ms);
    row("peak bytes a run", "<= 6000 B", |measured| measured.bytes_a_run);
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs one measurement in a separate process.
fn measured(side: &str) -> Measured {
    let program = std::env::current_exe().expect("this program has a path");
    let output =
        Command::new(program).args(["--inside", side]).output().expect("this program starts again");
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [wall_ms, cpu_ms, bytes_a_run] = numbers[..] else {
        panic!("three numbers, but it said: {said}")
    };
    Measured { wall_ms, cpu_ms, bytes_a_run }
}

fn agent() -> Agent {
    step::agent(Slow(step::Script::new(STEPS)), 1, &Runtime::builder().build())
}

#[expect(clippy::print_stdout, reason = "this is how the process tells what it measured")]
fn inside(side: &str) {
    let tokio =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (agent, model, request) =
        (agent(), Arc::new(Slow(step::Script::new(STEPS))), step::request());
    let by_hand = || {
        tokio::spawn({
            let (model, request) = (Arc::clone(&model), request.clone());
            async move { step::by_hand(&*model, &request).await }
        })
    };
    let by_agentflow = || {
        tokio::spawn({
            let agent = agent.clone();
            async move {
                agent
                    .run("Add the numbers.")
                    .await
                    .expect("the run has an answer")
                    .conversation()
                    .len()
            }
        })
    };
    // Only differences are reported, so the setup above is excluded.
    let (memory, cpu, began) = (peak_bytes(), cpu_time(), Instant::now());
    tokio.block_on(async {
        let tasks: Vec<_> =
            (0..RUNS).map(|_| if side == "floor" { by_hand() } else { by_agentflow() }).collect();
        for task in tasks {
            task.await.expect("no run panics");
        }
    });
    let (wall, cpu, memory) = (began.elapsed(), cpu_time() - cpu, peak_bytes() - memory);
    println!(
        "{} {} {}",
        wall.as_secs_f64() * 1e3,
        cpu.as_secs_f64() * 1e3,
        memory as f64 / f64::from(RUNS)
    );
}

/// Returns the peak memory of this process in bytes.
fn peak_bytes() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("the kernel tells about this process");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak is told");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("the peak is a number") * 1024
}

/// Returns the processor time of this thread.
fn cpu_time() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat")
        .expect("the kernel tells about this thread");
    let first = times.split_whitespace().next().expect("the time is told");
    Duration::from_nanos(first.parse().expect("the time is a number"))
}
