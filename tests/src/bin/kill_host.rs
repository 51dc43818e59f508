//! A program that a test kills. It starts or resumes the run of a workflow and prints its outcome.
//!
//! The store is a minimal file with one line per commit. It serves one process at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::store::{Append, Epoch, MemoryStore, RunRecord, Store, StoreError, StoreErrorKind};
use agentflow::workflow::{Handle, Node, NodePolicy};
use agentflow::{Context, Event, RunId, Runtime, Workflow, async_trait, serde_json};

type Step<T> = Result<T, String>;

/// A [`MemoryStore`] that also appends each commit to a file as a line.
#[derive(Clone, Debug)]
struct FileStore {
    memory: MemoryStore,
    file: Arc<Mutex<File>>,
}

impl FileStore {
    async fn open(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A line without a line break was never committed.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let (memory, mut epoch) = (MemoryStore::new(), None);
        let mut count = 0;
        for line in text[..whole].lines() {
            let events: Vec<Event> = serde_json::from_str(line)?;
            let (run, more) = (events[0].run_id.clone(), events.len() as u64);
            match epoch {
                None => epoch = Some(memory.create(&run, events).await?),
                Some(epoch) => memory.append(&run, epoch, Append::new(count, events)).await?,
            }
            count += more;
        }
        Ok(Self { memory, file: Arc::new(Mutex::new(file)) })
    }

    fn keep(&self, events: &[Event]) -> Result<(), StoreError> {
        let keep = || -> io::Result<()> {
            let mut line = serde_json::to_vec(events)?;
            line.push(b'\n');
            let mut file = self.file.lock().map_err(|_| io::Error::other("poisoned"))?;
            file.write_all(&line)?;
            file.sync_data()
        };
        keep().map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for FileStore {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        self.keep(&events)?;
        self.inner().create(run, events).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.keep(&append.events)?;
        self.inner().append(run, epoch, append).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        self.keep(&events)?;
        self.inner().amend(run, after, events).await
    }
}

/// Records an effect as a line in a file, so that the test can count effects later.
fn effect(file: &Path, cx: &Context) -> Step<()> {
    let write = || {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)?
            .write_all(format!("{}\n", cx.path()).as_bytes())
    };
    write().map_err(|error| error.to_string())
}

fn flow(effects: &Path) -> Workflow<(u32,), u32> {
    let step =
        |b: &mut agentflow::workflow::Builder, node: Node, reads: Handle<u32>| -> Handle<u32> {
            let file: PathBuf = effects.to_owned();
            b.node(node, (reads,), move |cx, (n,)| {
                let file = file.clone();
                async move {
                    effect(&file, &cx)?;
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    Step::Ok(n + 1)
                }
            })
        };
    let built = Workflow::build("killed", ["n"], |b, (n,)| {
        let mut last = n;
        for at in 0..6 {
            let beside = step(b, Node::new(format!("beside{at}")), last);
            let policy = NodePolicy::default().repeatable(false);
            let paid = step(b, Node::new(format!("pay{at}")).policy(policy), last);
            last = b.value(format!("sum{at}"), (beside, paid), |(x, y)| Step::Ok(x + y));
        }
        let items = b.value("items", (last,), |(n,)| Step::Ok(vec![n, n + 1, n + 2]));
        let file: PathBuf = effects.to_owned();
        let mapped = b.map("mapped", items, (), move |cx, n: u32, ()| {
            let file = file.clone();
            async move {
                effect(&file, &cx)?;
                Step::Ok(n)
            }
        });
        b.value("end", (mapped,), |(all,)| Step::Ok(all.iter().sum::<u32>()))
    });
    built.unwrap_or_else(|error| panic!("{error}"))
}

#[expect(clippy::print_stdout, reason = "what the program is for")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("give it a folder")?);
    let store = FileStore::open(&folder.join("run.jsonl")).await?;
    let flow = flow(&folder.join("effects"));
    let run = RunId::new("run-1");
    let runtime = Runtime::builder().store(store.clone()).build();
    let ended = |record: &RunRecord| record.status.has_ended();
    let handle = match store.record(&run).await? {
        Some(record) if ended(&record) => {
            let events = store.read(&run, 0, usize::MAX).await?;
            let output = events.iter().rev().find_map(|event| match &event.kind {
                agentflow::event::EventKind::RunCompleted(completed) => {
                    Some(completed.workflow()?.output.clone())
                }
                _ => None,
            });
            println!("{}", output.ok_or("the run has no output")?);
            return Ok(());
        }
        Some(_) => {
            // The journal refers to the definition by hash. The program is unchanged, so this is
            // the same definition.
            store.put_definition(&flow.graph().hash(), flow.graph().to_json().to_string()).await?;
            runtime.run(&run).resume_as(&flow).await?
        }
        None => runtime.start(flow.clone(), 1).run_id(run.clone()).await?,
    };
    loop {
        tokio::select! {
            biased;
            output = handle.result() => {
                println!("{}", output?);
                return Ok(());
            }
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
        }
        // This program acts as its own operator: it retries every interrupted node.
        let waits = store.record(&run).await?.is_some_and(|record| record.pause_reason.is_some());
        for event in handle.recorded().iter().filter(|_| waits) {
            if matches!(&event.kind, agentflow::event::EventKind::NodeFailed { error, .. } if error.kind == "interrupted")
            {
                // A node that an earlier process retried is no longer interrupted, so a refusal is
                // fine.
                let _ = handle.retry(&event.path.to_string(), "host").await;
            }
        }
    }
}
