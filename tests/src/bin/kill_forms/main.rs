//! A process for the kill test. It executes runs of all workflow forms over a store file, or
//! controls them as an operator.
//!
//! - `kill-forms host FOLDER SEED [operate] [twin] [double]` starts or resumes the runs until all
//!   have ended. `operate` adds an operator to the process, `twin` adds a second runtime with its
//!   own store handle, and `double` calls `recover` twice concurrently.
//! - `kill-forms operator FOLDER SEED fickle|helpful` sends control requests until it is killed.

mod flows;
mod operator;

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::ControlErrorKind;
use agentflow::store::{RunFilter, RunStatus, SqliteStore, StoreErrorKind};
use agentflow::{Agent, Error, Result, RunId, Runtime, Workflow};
use agentflow_tests::kill::WordFile;
use flows::EffectFile;
use operator::{Operator, OperatorMode};

/// Workflow forms; there are two runs of each. The second may be cancelled.
const FORMS: [&str; 7] = ["office", "gates", "forms", "long", "broken", "many", "solo"];

struct Host {
    runtime: Runtime,
    flows: [Workflow<(u64,), String>; 6],
    solo: Agent,
    words: WordFile,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, folder, seed, flags @ ..] = arguments.as_slice() else {
        panic!("kill-forms WHAT FOLDER SEED ..")
    };
    let (folder, seed) = (PathBuf::from(folder), seed.parse().expect("a number"));
    let words = WordFile::new(folder.join("words"));
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let result = match what.as_str() {
        "host" => host(&folder, &words, seed, has("operate"), has("twin"), has("double")).await,
        "operator" => {
            let mood = if has("helpful") { OperatorMode::Helpful } else { OperatorMode::Fickle };
            match open(&folder).await {
                Ok(store) => {
                    operators(&Runtime::builder().store(store).build(), &words, seed, mood).await
                }
                Err(error) => Err(error),
            }
        }
        what => panic!("there is no `{what}`"),
    };
    if let Err(error) = &result {
        words.complain(&format!("{what} ends: {error}")).expect("it is kept");
    }
    result
}

async fn open(folder: &Path) -> Result<SqliteStore> {
    Ok(SqliteStore::open(folder.join("runs.db")).await?)
}

/// Runs several operators concurrently, since each waits for the outcome of its request.
async fn operators(
    runtime: &Runtime,
    words: &WordFile,
    seed: u64,
    mood: OperatorMode,
) -> Result<()> {
    let one = |at: u64| {
        let random = fastrand::Rng::with_seed(seed.wrapping_add(at));
        let cancels = if seed % 4 == 1 { 100 } else { 12 };
        Operator { runtime: runtime.clone(), words: words.clone(), random, mood, cancels }.work()
    };
    tokio::try_join!(one(0), one(1), one(2)).map(drop)
}

async fn host(
    folder: &Path,
    words: &WordFile,
    seed: u64,
    operate: bool,
    twin: bool,
    double: bool,
) -> Result<()> {
    let host = Host::new(folder, words).await?;
    if operate {
        let (runtime, words) = (host.runtime.clone(), words.clone());
        tokio::spawn(async move {
            match operators(&runtime, &words, seed, OperatorMode::Fickle).await {
                // The process is ending and has closed the store.
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Io => {}
                Err(error) => {
                    words.complain(&format!("operator ends: {error}")).expect("it is kept");
                }
                Ok(()) => {}
            }
        });
    }
    let second = if twin { Some(Host::new(folder, words).await?) } else { None };
    // Varies whether starting or recovering happens first.
    if seed.is_multiple_of(2) {
        host.begin().await?;
    }
    loop {
        let other = async {
            match (&second, double) {
                (Some(second), _) => second.recover().await,
                (None, true) => host.recover().await,
                (None, false) => Ok(()),
            }
        };
        let (one, other) = tokio::join!(host.recover(), other);
        one.and(other)?;
        host.begin().await?;
        if host.all_ended().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

impl Host {
    async fn new(folder: &Path, words: &WordFile) -> Result<Self> {
        let file = EffectFile::new(folder.join("effects"));
        let of =
            [flows::office, flows::gates, flows::forms, flows::long, flows::broken, flows::many];
        let flows = of.map(|flow| flow(&file));
        let builder = Runtime::builder().store(open(folder).await?);
        let solo = flows::chief(&file).name("solo");
        let builder = flows.iter().fold(builder, agentflow::runtime::RuntimeBuilder::workflow);
        let runtime = builder.agent(&solo).build();
        let solo = solo.runtime(&runtime);
        Ok(Self { runtime, flows, solo, words: words.clone() })
    }

    fn complain(&self, what: &str) {
        self.words.complain(what).expect("it is kept");
    }

    /// Starts the runs that the store does not contain yet.
    async fn begin(&self) -> Result<()> {
        let there = self.runtime.runs().list(RunFilter::new()).await?;
        let is_there = |id: &RunId| there.iter().any(|run| run.run_id == *id);
        for id in ids().into_iter().filter(|id| !is_there(id)) {
            let form =
                FORMS.iter().position(|form| id.as_str().contains(form)).expect("a run has a form");
            match self.flows.get(form) {
                Some(flow) => match self.runtime.start(flow.clone(), 1).run_id(id.clone()).await {
                    Ok(run) => self.watch(&id, async move { run.result().await.map(drop) }),
                    Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {}
                    Err(error) => self.complain(&format!("start: {error}")),
                },
                None => {
                    // The run appears in the store with a delay, so this may start it twice. The
                    // second start is refused.
                    let request = RunRequest::from(format!("{id} 1")).run_id(id.clone());
                    let run = self.solo.start(request)?;
                    self.watch(&id, async move { run.result().await.map(drop) });
                }
            }
        }
        Ok(())
    }

    /// Resumes the runs that no process executes.
    async fn recover(&self) -> Result<()> {
        let recovered = self.runtime.recover().await?;
        for run in recovered.resumed {
            let id = run.run_id().clone();
            self.watch(&id, async move { run.result().await.map(drop) });
        }
        for (run, error) in recovered.left {
            self.left(&run, &error);
        }
        Ok(())
    }

    /// Checks why a run could not be resumed. Another process may execute it, or it has ended
    /// meanwhile.
    fn left(&self, run: &RunId, error: &Error) {
        match error {
            Error::Store(error) if matches!(error.kind().as_str(), "busy" | "ended") => {}
            Error::Control(error) if error.kind() == ControlErrorKind::WrongState => {}
            error => self.complain(&format!("{} is left: {error}", form_of(run))),
        }
    }

    /// Reports a run that ends in an unexpected way.
    fn watch(&self, run: &RunId, result: impl Future<Output = Result<()>> + Send + 'static) {
        let (words, form) = (self.words.clone(), form_of(run).to_owned());
        words.note(&format!("executes {run}")).expect("it is kept");
        tokio::spawn(async move {
            match result.await {
                Ok(()) | Err(Error::Cancelled { .. } | Error::Node { .. } | Error::Recorded(_)) => {
                }
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {}
                Err(error) => words.complain(&format!("{form} ends: {error}")).expect("it is kept"),
            }
        });
    }

    async fn all_ended(&self) -> Result<bool> {
        let runs = self.runtime.runs().list(RunFilter::new()).await?;
        let ended = runs
            .iter()
            .filter(|run| matches!(run.status, RunStatus::Success | RunStatus::Cancelled))
            .count();
        Ok(ended == ids().len())
    }
}

fn ids() -> Vec<RunId> {
    let pairs = FORMS.iter().flat_map(|form| [format!("run-{form}"), format!("run-{form}-c")]);
    pairs.map(RunId::new).collect()
}

fn form_of(run: &RunId) -> &str {
    run.as_str().trim_start_matches("run-").trim_end_matches("-c")
}
