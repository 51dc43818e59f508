//! `Elsewhere`: a step executor that forwards steps to a second runtime, on another thread or task.
//! The two sides exchange only bytes and share only the code that is linked into the program.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow::event::ModelDelta;
use agentflow::executor::{
    ExecutorError, StepBatch, StepCall, StepExecutor, StepHost, StepOutcome, StepRecorder,
    StepSignal,
};
use agentflow::path::StepPath;
use agentflow::value::Encoded;
use agentflow::{Runtime, async_trait};
use agentflow_testing::within;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Messages about a call, from the side that owns the run.
#[derive(Serialize, Deserialize)]
enum StepRequestMessage {
    Call(Box<StepCall>),
    Kept(Result<(), ExecutorError>),
    Said(StepSignal),
}

/// Messages about a call, from the side that executes its step.
#[derive(Serialize, Deserialize)]
enum Up {
    Record(StepBatch),
    Delta(StepPath, ModelDelta),
    Progress(StepPath, Encoded),
    Ended(Box<StepOutcome>),
}

type Bytes = mpsc::UnboundedSender<Vec<u8>>;
type Calls = Arc<Mutex<HashMap<u64, (StepHost, Option<oneshot::Sender<StepOutcome>>)>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sent<T: Serialize>(to: &Bytes, call: u64, message: &T) {
    let bytes = serde_json::to_vec(&(call, message)).expect("a message has a JSON form");
    // The other side may have ended.
    let _ = to.send(bytes);
}

fn received<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> (u64, T) {
    serde_json::from_slice(bytes).expect("a message survives JSON")
}

/// Executes steps in another runtime, over serialized messages.
#[derive(Debug)]
pub struct Elsewhere {
    to: Bytes,
    calls: Calls,
    next: AtomicU64,
    bytes: Arc<AtomicU64>,
}

impl Elsewhere {
    /// Serves the runtime on a new thread with its own tokio runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn on_thread(runtime: Runtime) -> Self {
        let (executor, inbox, outbox) = Self::begin();
        std::thread::spawn(move || {
            let tokio = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a tokio runtime");
            tokio.block_on(serve(runtime, inbox, outbox));
        });
        executor
    }

    /// Serves the runtime on a task of this tokio runtime, so that it shares the test's clock.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn on_task(runtime: Runtime) -> Self {
        let (executor, inbox, outbox) = Self::begin();
        tokio::spawn(serve(runtime, inbox, outbox));
        executor
    }

    fn begin() -> (Self, mpsc::UnboundedReceiver<Vec<u8>>, Bytes) {
        let (to, inbox) = mpsc::unbounded_channel();
        let (outbox, from) = mpsc::unbounded_channel();
        let (calls, bytes) = (Calls::default(), Arc::new(AtomicU64::new(0)));
        tokio::spawn(read(from, to.downgrade(), Arc::clone(&calls), Arc::clone(&bytes)));
        (Self { to, calls, next: AtomicU64::new(0), bytes }, inbox, outbox)
    }

    /// Returns how many steps were forwarded.
    pub fn calls(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns how many bytes came back.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl StepExecutor for Elsewhere {
    async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (ended, outcome) = oneshot::channel();
        locked(&self.calls).insert(number, (host.clone(), Some(ended)));
        sent(&self.to, number, &StepRequestMessage::Call(Box::new(call)));
        let (to, calls) = (self.to.clone(), Arc::clone(&self.calls));
        tokio::spawn(async move {
            loop {
                let signal = host.signal().await;
                sent(&to, number, &StepRequestMessage::Said(signal.clone()));
                if let StepSignal::Stop { .. } = signal {
                    locked(&calls).remove(&number);
                    return;
                }
            }
        });
        outcome.await.map_err(|_| ExecutorError::lost("the worker is gone"))
    }
}

/// Handles the messages of the executing side, on the side that owns the run.
async fn read(
    mut from: mpsc::UnboundedReceiver<Vec<u8>>,
    to: mpsc::WeakUnboundedSender<Vec<u8>>,
    calls: Calls,
    count: Arc<AtomicU64>,
) {
    while let Some(bytes) = from.recv().await {
        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let (number, message) = received::<Up>(&bytes);
        let host = match locked(&calls).get_mut(&number) {
            Some((host, ended)) => match message {
                Up::Ended(outcome) => {
                    let waits = ended.take().is_some_and(|ended| ended.send(*outcome).is_ok());
                    assert!(waits || ended.is_none(), "nobody waits for it");
                    continue;
                }
                Up::Delta(path, delta) => {
                    host.delta(&path, delta);
                    continue;
                }
                Up::Progress(path, value) => {
                    host.progress(&path, value);
                    continue;
                }
                Up::Record(batch) => (host.clone(), batch),
            },
            None => continue,
        };
        let (host, batch) = host;
        // Stores the batch on a separate task, so that later messages are not delayed.
        if let Some(to) = to.upgrade() {
            tokio::spawn(async move {
                sent(&to, number, &StepRequestMessage::Kept(host.record(batch).await));
            });
        }
    }
    // The executing side has ended. Dropping the senders fails the calls that still wait.
    locked(&calls).values_mut().for_each(|(_, ended)| drop(ended.take()));
}

/// Executes the forwarded steps until the other side ends.
async fn serve(runtime: Runtime, mut inbox: mpsc::UnboundedReceiver<Vec<u8>>, outbox: Bytes) {
    let mut running = JoinSet::new();
    let mut lanes: HashMap<u64, (mpsc::UnboundedSender<_>, mpsc::UnboundedSender<StepSignal>)> =
        HashMap::new();
    while let Some(bytes) = inbox.recv().await {
        let (number, message) = received::<StepRequestMessage>(&bytes);
        match message {
            StepRequestMessage::Call(call) => {
                let ((kept, is_kept), (say, said)) =
                    (mpsc::unbounded_channel(), mpsc::unbounded_channel());
                lanes.insert(number, (kept, say));
                let recorder = Recorder {
                    call: number,
                    to: outbox.clone(),
                    kept: tokio::sync::Mutex::new(is_kept),
                    said: tokio::sync::Mutex::new(said),
                };
                let (runtime, outbox) = (runtime.clone(), outbox.clone());
                running.spawn(async move {
                    let outcome = runtime.execute_step(*call, recorder).await;
                    sent(&outbox, number, &Up::Ended(Box::new(outcome)));
                });
            }
            StepRequestMessage::Kept(kept) => drop(lanes.get(&number).map(|(to, _)| to.send(kept))),
            StepRequestMessage::Said(signal) => {
                let is_last = matches!(signal, StepSignal::Stop { .. });
                drop(lanes.get(&number).map(|(_, say)| say.send(signal)));
                if is_last {
                    lanes.remove(&number);
                }
            }
        }
    }
}

/// Forwards the records of one step, and waits until the other side confirms that they are stored.
struct Recorder {
    call: u64,
    to: Bytes,
    kept: tokio::sync::Mutex<mpsc::UnboundedReceiver<Result<(), ExecutorError>>>,
    said: tokio::sync::Mutex<mpsc::UnboundedReceiver<StepSignal>>,
}

#[async_trait]
impl StepRecorder for Recorder {
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError> {
        // Confirmations have no id. The lock ensures that the next one belongs to this batch.
        let mut kept = self.kept.lock().await;
        sent(&self.to, self.call, &Up::Record(batch));
        within("a message", kept.recv())
            .await
            .unwrap_or_else(|| Err(ExecutorError::lost("the run is gone")))
    }

    fn delta(&self, path: &StepPath, delta: ModelDelta) {
        sent(&self.to, self.call, &Up::Delta(path.clone(), delta));
    }

    fn progress(&self, path: &StepPath, value: Encoded) {
        sent(&self.to, self.call, &Up::Progress(path.clone(), value));
    }

    async fn signal(&self) -> StepSignal {
        match self.said.lock().await.recv().await {
            Some(signal) => signal,
            // A stop is the last signal of a step.
            None => std::future::pending().await,
        }
    }
}
