//! Implements `ScriptedModel`, which plays turns, checks requests against them and collects
//! mismatches.
//!
//! Only the model is replaced: the agent, the runtime and the tools are the real ones. Requests are
//! kept only if capturing is enabled.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use agentflow::__private::watch_errors;
use agentflow::Model;
use agentflow::message::Role;
use agentflow::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelRequest, ModelStream, OutputMode,
    OutputSchema,
};
use futures_util::Stream;

use crate::expect::without_panic;
use crate::run_error::panic_when_dropped;
use crate::show::request_text;
use crate::turn::{Ending, Turn};

/// A model that answers from a script and fails the test on any deviation from it.
///
/// Clones share the script: give one clone to the agent and keep another.
///
/// A script fails on:
/// - a call when no turn is left;
/// - a request that does not meet the expectations of its turn;
/// - a turn that was never played.
///
/// The first two also end the run with a model error that is not retryable. All three are recorded:
/// [`finish`](Self::finish) panics with all of them, and so does dropping the last clone, so that a
/// failure is not lost if the code under test ignores errors. Drop the last clone on the thread of
/// the test or call `finish`, because a panic on another thread may go unnoticed. If a test returns
/// the error of a run with `?` before the script is finished, the panic shows that error first and
/// then the remaining turns.
///
/// Turns are played in the order of the calls. Agents that run concurrently need one model each, or
/// one script with lanes: see [`keyed`](Self::keyed).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::Agent;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// let model = ScriptedModel::new([Turn::text("Hello, Ada.").expect_last("I am Ada.")]);
/// let agent = Agent::new(model.clone());
/// assert_eq!(agent.run("I am Ada.").await?.output(), "Hello, Ada.");
/// model.finish();
/// # Ok(())
/// # }
/// ```
///
/// Code that refers to its model by name, as in `Agent::new("openai-chat/gpt-5-mini")`, gets the
/// script through the runtime:
///
/// ```
/// # use std::sync::Arc;
/// # use agentflow_testing::{ScriptedModel, Turn, test_runtime};
/// let model = ScriptedModel::new([]);
/// let script = model.clone();
/// let runtime = test_runtime().model_provider("openai-chat", move |_, _| Ok(Arc::new(script.clone()))).build();
/// # let _ = runtime;
/// ```
#[derive(Clone)]
#[doc(alias = "MockLlm")]
#[doc(alias = "MockModel")]
#[doc(alias = "MockBackend")]
pub struct ScriptedModel {
    info: ModelInfo,
    shared: Arc<Shared>,
}

struct Shared {
    /// A rule that computes every turn. If set, there are no lanes.
    endless: Option<Box<Rule>>,
    state: Mutex<State>,
    capturing: AtomicBool,
    in_flight: AtomicUsize,
    finished: AtomicBool,
}

type Rule = dyn Fn(&ModelRequest) -> Turn + Send + Sync;

struct State {
    lanes: Vec<Lane>,
    calls: usize,
    ids: usize,
    failures: Vec<String>,
    captured: Vec<ModelRequest>,
}

struct Lane {
    /// Text that a request must contain; `None` for the only lane of a plain script.
    key: Option<String>,
    turns: VecDeque<Turn>,
    played: usize,
}

impl ScriptedModel {
    /// Creates a script with these turns, played in the order of the calls.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::from_lanes(
            vec![Lane { key: None, turns: turns.into_iter().collect(), played: 0 }],
            None,
        )
    }

    /// Creates a script with lanes, for agents or runs that are executed concurrently. A request
    /// belongs to the lane whose key occurs in its instructions or its first user message. A
    /// request that matches no lane or several lanes fails the script.
    ///
    /// ```
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// let model = ScriptedModel::keyed([
    ///     ("You plan.", vec![Turn::text("first this, then that")]),
    ///     ("You write.", vec![Turn::text("a draft"), Turn::text("a better draft")]),
    /// ]);
    /// # drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.finish())));
    /// ```
    pub fn keyed<K: Into<String>, T: IntoIterator<Item = Turn>>(
        lanes: impl IntoIterator<Item = (K, T)>,
    ) -> Self {
        let lanes = lanes.into_iter().map(|(key, turns)| Lane {
            key: Some(key.into()),
            turns: turns.into_iter().collect(),
            played: 0,
        });
        Self::from_lanes(lanes.collect(), None)
    }

    /// Creates a model that computes the answer to each request with a closure. The number of calls
    /// is not limited. Only the expectations of the returned turns can fail.
    pub fn from_fn(turn: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static) -> Self {
        Self::from_lanes(Vec::new(), Some(Box::new(turn)))
    }

    fn from_lanes(mut lanes: Vec<Lane>, endless: Option<Box<Rule>>) -> Self {
        watch_errors();
        let mut ids = 0;
        for turn in lanes.iter_mut().flat_map(|lane| &mut lane.turns) {
            turn.number_calls(&mut || next_id(&mut ids));
        }
        let state = State { lanes, calls: 0, ids, failures: Vec::new(), captured: Vec::new() };
        Self {
            info: ModelInfo::new("script", "scripted"),
            shared: Arc::new(Shared {
                endless,
                state: Mutex::new(state),
                capturing: AtomicBool::new(false),
                in_flight: AtomicUsize::new(0),
                finished: AtomicBool::new(false),
            }),
        }
    }

    /// Sets the provider and model name that events and traces show. Default: `script/scripted`.
    #[must_use]
    pub fn named(mut self, provider: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        self.info = ModelInfo::new(provider, model);
        self
    }

    /// Keeps every request from now on, for [`requests`](Self::requests). An agent then copies its
    /// message list in every turn, so do not enable it in benchmarks.
    #[must_use]
    pub fn capturing(self) -> Self {
        self.shared.capturing.store(true, Ordering::Relaxed);
        self
    }

    /// Returns the requests so far, oldest first.
    ///
    /// # Panics
    /// If requests are not captured; see [`capturing`](Self::capturing).
    #[track_caller]
    pub fn requests(&self) -> Vec<ModelRequest> {
        assert!(
            self.shared.capturing.load(Ordering::Relaxed),
            "requests are not captured; make the model with `ScriptedModel::new(..).capturing()`"
        );
        self.shared.state().captured.clone()
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> usize {
        self.shared.state().calls
    }

    /// Returns the number of calls that are being answered. It is zero after a cancelled run,
    /// because the request was dropped.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the mismatches so far. Remaining turns are not included, because the script may
    /// still continue.
    pub fn failures(&self) -> Vec<String> {
        self.shared.state().failures.clone()
    }

    /// Ends the script: checks that all calls matched and that no turn is left.
    ///
    /// # Panics
    /// If there is a mismatch or a turn is left, with all of them.
    #[track_caller]
    #[doc(alias = "assert_finished")]
    #[doc(alias = "verify")]
    pub fn finish(&self) {
        self.shared.finished.store(true, Ordering::Relaxed);
        if let Some(problems) = self.shared.problems() {
            panic!("{problems}");
        }
    }
}

fn next_id(ids: &mut usize) -> String {
    *ids += 1;
    format!("call_{ids}")
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turn for a request after checking its expectations.
    fn turn(&self, request: &ModelRequest) -> Result<Turn, ModelError> {
        let (name, mut turn) = self.next(request)?;
        let mut problems = Vec::new();
        // A computed turn may return another computed turn, so this repeats until the turn is
        // known.
        loop {
            let expectations = std::mem::take(&mut turn.expectations);
            problems.extend(
                expectations.into_iter().filter_map(|expectation| expectation.check(request).err()),
            );
            let Ending::Computed(compute) = turn.ending else { break };
            let compute = compute.into_inner().unwrap_or_else(PoisonError::into_inner);
            match without_panic(|| compute(request)) {
                Ok(computed) => turn = Turn { delay: turn.delay + computed.delay, ..computed },
                Err(problem) => {
                    problems.push(problem);
                    return Err(self.fail(request, &name, &problems));
                }
            }
            turn.number_calls(&mut || next_id(&mut self.state().ids));
        }
        if problems.is_empty() { Ok(turn) } else { Err(self.fail(request, &name, &problems)) }
    }

    /// Returns the next turn and its name.
    fn next(&self, request: &ModelRequest) -> Result<(TurnPosition, Turn), ModelError> {
        let mut state = self.state();
        state.calls += 1;
        if self.capturing.load(Ordering::Relaxed) {
            state.captured.push(request.clone());
        }
        let call = state.calls;
        if let Some(endless) = &self.endless {
            // The lock is released, because the closure may use this model.
            drop(state);
            let name = TurnPosition { turn: call, lane: None };
            let mut turn = match without_panic(|| endless(request)) {
                Ok(turn) => turn,
                Err(problem) => return Err(self.fail(request, &name, &[problem])),
            };
            turn.number_calls(&mut || next_id(&mut self.state().ids));
            return Ok((name, turn));
        }
        let problem = match state.lane_of(request) {
            Ok(lane) => match lane.turns.pop_front() {
                Some(turn) => {
                    lane.played += 1;
                    return Ok((TurnPosition { turn: lane.played, lane: lane.key.clone() }, turn));
                }
                None => {
                    let of =
                        lane.key.as_ref().map(|key| format!(" for {key:?}")).unwrap_or_default();
                    match lane.played {
                        0 => format!("the script{of} has no turns"),
                        1 => format!("the script{of} has 1 turn, and it was played before"),
                        turns => {
                            format!("the script{of} has {turns} turns, and all were played before")
                        }
                    }
                }
            },
            Err(problem) => problem,
        };
        drop(state);
        Err(self.record(format!(
            "unexpected call {call} of the model: {problem}\n{}",
            request_text(request)
        )))
    }

    fn fail(&self, request: &ModelRequest, name: &TurnPosition, problems: &[String]) -> ModelError {
        self.record(format!(
            "{name}: {}\n{}",
            problems.join(&format!("\n{name}: ")),
            request_text(request)
        ))
    }

    fn record(&self, problem: String) -> ModelError {
        self.state().failures.push(problem.clone());
        ModelError::new(ModelErrorKind::BadRequest, problem).with_provider_code("script")
    }

    /// Returns all problems at the end of the script.
    fn problems(&self) -> Option<String> {
        let state = self.state();
        let mut problems = state.failures.clone();
        for lane in &state.lanes {
            for (turn, at) in lane.turns.iter().zip(lane.played + 1..) {
                let name = TurnPosition { turn: at, lane: lane.key.clone() };
                problems.push(format!("{name} was never asked for: {}", turn.summary()));
            }
        }
        if problems.is_empty() {
            return None;
        }
        Some(format!("the model was not called as scripted\n\n{}\n", problems.join("\n\n")))
    }
}

impl State {
    fn lane_of(&mut self, request: &ModelRequest) -> Result<&mut Lane, String> {
        let mut fitting: Vec<usize> = Vec::new();
        // A plain script has one lane, which takes every request.
        if let [Lane { key: None, .. }] = self.lanes.as_slice() {
            return Ok(&mut self.lanes[0]);
        }
        let messages = request.messages.messages();
        // Later messages may quote the key of another lane, so they are not searched.
        let first = messages
            .iter()
            .position(|message| message.role() == Role::User)
            .map_or(messages.len(), |at| at + 1);
        for (at, lane) in self.lanes.iter().enumerate() {
            let key = lane.key.as_deref().unwrap_or_default();
            if messages[..first].iter().any(|message| message.text().contains(key)) {
                fitting.push(at);
            }
        }
        let keys = |lanes: &mut dyn Iterator<Item = &Lane>| {
            lanes
                .map(|lane| format!("{:?}", lane.key.as_deref().unwrap_or_default()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match fitting[..] {
            [at] => Ok(&mut self.lanes[at]),
            [] => Err(format!("it fits none of the lanes {}", keys(&mut self.lanes.iter()))),
            _ => Err(format!(
                "it fits more than one lane: {}; make their keys differ",
                keys(&mut fitting.iter().map(|at| &self.lanes[*at]))
            )),
        }
    }
}

/// Position of a turn, as shown in failures.
struct TurnPosition {
    turn: usize,
    lane: Option<String>,
}

impl fmt::Display for TurnPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {}", self.turn)?;
        match &self.lane {
            Some(lane) => write!(f, " of {lane:?}"),
            None => Ok(()),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A second panic during unwinding would abort the process.
        if *self.finished.get_mut() || std::thread::panicking() {
            return;
        }
        if let Some(problems) = self.problems() {
            // Without a mismatch, unused turns are probably a consequence of the error that ended
            // the run.
            let are_left_over = self.state().failures.is_empty();
            panic_when_dropped(&problems, are_left_over);
        }
    }
}

impl Model for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Accepts every schema, because the script defines the answer.
    fn output_mode(&self, _: &OutputSchema, _: bool) -> Result<OutputMode, String> {
        Ok(OutputMode::Native)
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        ModelStream::new(ScriptedStream {
            shared: Arc::clone(&self.shared),
            phase: Phase::Asked(request),
            sleep: None,
        })
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        let left: usize = state.lanes.iter().map(|lane| lane.turns.len()).sum();
        f.debug_struct("ScriptedModel")
            .field("calls", &state.calls)
            .field("turns_left", &left)
            .finish_non_exhaustive()
    }
}

/// The stream of one call.
struct ScriptedStream {
    shared: Arc<Shared>,
    phase: Phase,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

enum Phase {
    /// The stream has not been polled. A call counts from its first poll, as it would with a real
    /// model.
    Asked(ModelRequest),
    Playing {
        pieces: std::vec::IntoIter<ModelEvent>,
        turn: Box<Turn>,
    },
    Stalled,
    Ended,
}

impl ScriptedStream {
    fn begin(&mut self, request: ModelRequest) -> Result<(), ModelError> {
        self.shared.in_flight.fetch_add(1, Ordering::Relaxed);
        // Set before `turn` is called: if it panics, dropping the stream ends the call.
        self.phase = Phase::Stalled;
        let turn = self.shared.turn(&request)?;
        let (pieces, wait) = match request.stream {
            true => (turn.stream_events(), turn.delay),
            false => (Vec::new(), turn.delay + turn.all_pauses()),
        };
        self.wait(wait);
        self.phase = Phase::Playing { pieces: pieces.into_iter(), turn: Box::new(turn) };
        Ok(())
    }

    fn wait(&mut self, time: std::time::Duration) {
        self.sleep = (!time.is_zero()).then(|| Box::pin(tokio::time::sleep(time)));
    }

    fn end(&mut self) {
        self.phase = Phase::Ended;
        self.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Stream for ScriptedStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Phase::Asked(_) = &this.phase
            && let Phase::Asked(request) = std::mem::replace(&mut this.phase, Phase::Ended)
            && let Err(error) = this.begin(request)
        {
            this.end();
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(sleep) = &mut this.sleep {
            ready!(sleep.as_mut().poll(cx));
            this.sleep = None;
        }
        let (piece, pace) = match &mut this.phase {
            Phase::Playing { pieces, turn } => (pieces.next(), turn.pace),
            Phase::Stalled => return Poll::Pending,
            Phase::Asked(_) | Phase::Ended => return Poll::Ready(None),
        };
        if let Some(piece) = piece {
            this.wait(pace);
            return Poll::Ready(Some(Ok(piece)));
        }
        // A stalled turn keeps this phase; every other ending replaces it below.
        let Phase::Playing { mut turn, .. } = std::mem::replace(&mut this.phase, Phase::Stalled)
        else {
            return Poll::Ready(None);
        };
        let last = match std::mem::replace(&mut turn.ending, Ending::Completed) {
            Ending::Stalled => return Poll::Pending,
            Ending::Cut => None,
            Ending::Failed(error) => Some(Err(error)),
            Ending::Given(response) => Some(Ok(ModelEvent::Completed(turn.given(response)))),
            Ending::Completed | Ending::Computed(_) => {
                Some(Ok(ModelEvent::Completed(turn.into_response())))
            }
        };
        this.end();
        Poll::Ready(last)
    }
}

impl Drop for ScriptedStream {
    fn drop(&mut self) {
        if matches!(self.phase, Phase::Playing { .. } | Phase::Stalled) {
            self.end();
        }
    }
}
