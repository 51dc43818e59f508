//! Benchmark of long conversations: the cost of a turn in a session of 1,000 turns compared with a
//! session of 10, with the default window, and the memory of 10,000 idle sessions.
//!
//! `cargo bench -p agentflow-sdk --features sqlite --bench sessions`. Linux only, because it reads
//! `/proc`. The model answers immediately, and the store is an SQLite file. The two sessions
//! alternate, so that other load on the machine affects both.

#[path = "cases/measure.rs"]
mod measure;

use std::sync::Arc;

use agentflow::agent::RunRequest;
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::store::SqliteStore;
use agentflow::{Agent, Message, Model, Runtime};
use futures_util::stream;
use measure::{measured, median};

const SHORT: usize = 10;
const LONG: usize = 1_000;
/// Number of measured turns of each session.
const MEASURED: usize = 200;
const SESSIONS: usize = 10_000;

/// A model that answers with about 200 bytes.
struct Answers {
    info: ModelInfo,
    answer: Arc<Message>,
}

impl Model for Answers {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        let answer = ModelEvent::Completed(Box::new(ModelResponse::new(Arc::clone(&self.answer))));
        ModelStream::new(stream::iter([Ok(answer)]))
    }
}

fn agent(runtime: &Runtime) -> Agent {
    let answer = Arc::new(Message::assistant("So it is, and not otherwise. ".repeat(7)));
    Agent::new(Answers { info: ModelInfo::new("bench", "answers"), answer })
        .name("talker")
        .runtime(runtime)
}

async fn turn(agent: &Agent, session: &str, number: usize) {
    let question = format!(
        "What do you say to this, which is question {number} of many? {}",
        "Think of it. ".repeat(10)
    );
    agent.run(RunRequest::new(question).session(session)).await.expect("a turn");
}

#[tokio::main(worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
async fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let store = SqliteStore::open(folder.path().join("sessions.db")).await.expect("a store");
    let runtime = Runtime::builder().store(store).build();
    let agent = agent(&runtime);
    for number in 0..LONG {
        turn(&agent, "long", number).await;
    }
    let (mut short, mut long) = (Costs::default(), Costs::default());
    for round in 0..MEASURED {
        let session = format!("short {}", round / SHORT);
        // A session that gets longer than twice its size is no longer short, so a new one starts.
        if round % SHORT == 0 {
            for number in 0..SHORT {
                turn(&agent, &session, number).await;
            }
        }
        short.add(turn(&agent, &session, SHORT + round)).await;
        long.add(turn(&agent, "long", LONG + round)).await;
    }
    println!("{:<44} {:>10} {:>10} {:>7}", "a turn of a session", "10 turns", "1,000", "ratio");
    row("CPU, µs, median", median(short.cpu), median(long.cpu));
    row("wall, µs, median", median(short.wall), median(long.wall));
    row("bytes written, mean", mean(&short.written), mean(&long.written));
    row("bytes read, mean", mean(&short.read), mean(&long.read));
    let before = resident();
    for session in 0..SESSIONS {
        turn(&agent, &format!("idle {session}"), 0).await;
    }
    let grown = resident().saturating_sub(before) / SESSIONS;
    println!("{SESSIONS} sessions of one turn, resident bytes each: {grown}");
}

#[derive(Default)]
struct Costs {
    cpu: Vec<f64>,
    wall: Vec<f64>,
    written: Vec<f64>,
    read: Vec<f64>,
}

impl Costs {
    async fn add(&mut self, work: impl Future<Output = ()>) {
        let (read, written) = transferred();
        let (wall, cpu) = measured(work).await;
        let (read_now, written_now) = transferred();
        self.cpu.push(cpu);
        self.wall.push(wall);
        self.read.push(read_now - read);
        self.written.push(written_now - written);
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn row(what: &str, short: f64, long: f64) {
    println!("{what:<44} {short:>10.0} {long:>10.0} {:>7.2}", long / short);
}

#[expect(clippy::cast_precision_loss, reason = "there are few values")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the bytes that this process has read and written with system calls.
fn transferred() -> (f64, f64) {
    let io = std::fs::read_to_string("/proc/self/io").expect("the kernel tells about this process");
    let of = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name)).expect("the system says it");
        line.trim().parse::<f64>().expect("a number")
    };
    (of("rchar:"), of("wchar:"))
}

fn resident() -> usize {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("the kernel tells about this process");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the system says it");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}
