//! A workflow whose process is killed. A second process resumes it and shows which steps are
//! repeated.
//!
//! `crash [FILE]` starts itself as a child process, which starts an order in an SQLite file. It
//! kills the child with SIGKILL while two steps are running, and resumes the order. It does not
//! depend on timing: the child reports when both steps run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use agentflow::RunId;
use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::runtime::NodeStatus;
use agentflow::store::SqliteStore;
use futures_util::StreamExt;

const USAGE: &str = "usage: crash [FILE]
  FILE is where the run is kept, a temporary file when none is named.";

/// Argument that marks the child process.
const CHILD: &str = "--be-the-one-that-is-killed";

/// `true` in the child process, whose last steps never end.
struct StallsForever(bool);

/// Prints that a step is running. In the child process, slow steps never end.
async fn work(cx: &Context, what: &str, slow: bool) {
    println!("  {what}");
    if slow && cx.resource::<StallsForever>().is_some_and(|doomed| doomed.0) {
        std::future::pending::<()>().await;
    }
}

/// Look up what an article costs, in cents.
#[tool(effects = "read")]
async fn price_of(cx: &Context, article: String) -> u32 {
    work(cx, "price: looks it up", false).await;
    100 * u32::try_from(article.len()).unwrap_or(0)
}

/// Take money. Asking twice with one key is the same as asking once, and a step has one key, however often it runs.
#[tool(idempotent)]
async fn charge(cx: &Context, cents: u32) -> String {
    work(cx, "receipt: takes the money", false).await;
    format!("paid {cents} cents")
}

/// Pack an article. Repeating it does no harm.
#[tool(effects = "none")]
async fn pack(cx: &Context, article: String) -> String {
    work(cx, "parcel: packs", true).await;
    format!("a parcel with a {article}")
}

/// Write to the customer. It declares no effects, so it must not be repeated.
#[tool]
async fn write_letter(cx: &Context, receipt: String) -> String {
    work(cx, "letter: writes to the customer", true).await;
    format!("dear customer, you have {receipt}")
}

/// Sells an article.
#[workflow]
async fn order(cx: &Context, article: String) -> Result<String> {
    let price = price_of(cx, article).await;
    let receipt = charge(cx, price).await;
    let parcel = pack(cx, article).await;
    #[node(unordered)]
    let letter = write_letter(cx, receipt).await; // runs beside `parcel`, and would wait for it otherwise
    Ok(format!("{parcel}; {letter}"))
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CHILD, file] => begin(Path::new(file)).await,
        [] => match tempfile::tempdir() {
            Ok(folder) => crash_and_resume(folder.path().join("runs.db")).await,
            Err(error) => Err(error.into()),
        },
        [file] if !file.starts_with('-') => crash_and_resume(file.into()).await,
        ["--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash: {error}");
            ExitCode::FAILURE
        }
    }
}

type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

async fn runtime(file: &Path, doomed: bool) -> Result<Runtime> {
    Ok(Runtime::builder()
        .store(SqliteStore::open(file).await?)
        .resource(StallsForever(doomed))
        .build())
}

/// Runs the child process until it is killed.
async fn begin(file: &Path) -> Done {
    let run = runtime(file, true).await?.start(order::workflow(), "lamp".to_owned()).await?;
    println!("{}", run.run_id());
    run.result().await?;
    Ok(())
}

/// The child process. It is killed when this value is dropped, also after an error.
struct Doom(Child);

impl Drop for Doom {
    fn drop(&mut self) {
        // SIGKILL on Unix, which a process cannot handle.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn crash_and_resume(file: PathBuf) -> Done {
    let run = crash(&file)?;
    let runtime = runtime(&file, false).await?;
    println!("resuming it would do this:");
    let before = runtime.run(&run).inspect().await?.nodes;
    for node in &before {
        println!("  {}: {}", node.name, node.on_resume);
    }
    println!("process {} resumes it:", std::process::id());
    let handle = runtime.run(&run).resume_as(&order::workflow()).await?;
    let (mut events, mut undecided) = (handle.events(), Vec::new());
    while let Some(event) = events.next().await {
        match &event.kind {
            EventKind::NodeFailed { error, .. } if error.kind == "interrupted" => {
                undecided.push(event.path.to_string());
            }
            EventKind::RunPaused { reason: PauseReason::Interrupted, .. } => {
                for node in &undecided {
                    println!(
                        "  {node}: nobody knows whether it had its effect; here a person would look, and says: again"
                    );
                    handle.retry(node, "a person").await?;
                }
            }
            _ => {}
        }
    }
    println!("the order: {}", handle.result().await?);
    let names = |status: NodeStatus| {
        let names =
            before.iter().filter(|node| node.status == status && !undecided.contains(&node.name));
        names.map(|node| &*node.name).collect::<Vec<_>>().join(", ")
    };
    println!("not repeated: {}", names(NodeStatus::Success));
    println!("ran again by itself: {}", names(NodeStatus::Running));
    println!("ran again by a person's word: {}", undecided.join(", "));
    Ok(())
}

/// Starts the child and kills it while two steps are running.
fn crash(file: &Path) -> Done<RunId> {
    let mut child = Command::new(std::env::current_exe()?);
    let mut child = Doom(child.arg(CHILD).arg(file).stdout(Stdio::piped()).spawn()?);
    println!("process {} begins an order:", child.0.id());
    let mut said = BufReader::new(child.0.stdout.take().ok_or("the child has no output")?).lines();
    let (mut run, mut packs, mut writes) = (None, false, false);
    loop {
        let line = said.next().ok_or("the child ended by itself")??;
        println!("{line}");
        // Steps run on separate tasks, so they may print before the child has printed the run id.
        if !line.starts_with(' ') {
            run = Some(RunId::new(&*line));
        }
        packs |= line.contains("parcel");
        writes |= line.contains("letter");
        if let (Some(run), true, true) = (&run, packs, writes) {
            println!("process {} is killed in the middle of both", child.0.id());
            return Ok(run.clone());
        }
    }
}
