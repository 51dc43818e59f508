//! Shared state of a cassette's clones. A recording collects calls; a replay keeps the remaining
//! entries and the mismatches.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow::__private::watch_errors;
use agentflow::Model;
use agentflow::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStream, OutputMode, OutputSchema,
};

use super::asked::Asked;
use super::format::{self, Call, Came, Order, RecordedOutputMode, Tape};
use super::play::{Playing, Recording};
use super::scrub::Scrubber;
use crate::diff::plain_diff;
use crate::run_error::panic_when_dropped;
use crate::show::request_text;

pub(super) struct Shared {
    path: PathBuf,
    scrubber: Mutex<Scrubber>,
    mode: Mode,
    finished: AtomicBool,
}

enum Mode {
    Record { model: Arc<dyn Model>, state: Mutex<Recorded> },
    Replay(Mutex<Replay>),
}

struct Recorded {
    tape: Tape,
    in_flight: usize,
}

struct Replay {
    tape: Tape,
    played: Vec<bool>,
    calls: usize,
    failures: Vec<String>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn recording(path: PathBuf, model: Arc<dyn Model>) -> Self {
        let tape = Tape {
            model: model.info().clone(),
            order: Order::Recorded,
            output_modes: Vec::new(),
            calls: Vec::new(),
        };
        Self::new(path, Mode::Record { model, state: Mutex::new(Recorded { tape, in_flight: 0 }) })
    }

    pub(super) fn playing(path: PathBuf, tape: Tape) -> Self {
        let played = vec![false; tape.calls.len()];
        Self::new(
            path,
            Mode::Replay(Mutex::new(Replay { tape, played, calls: 0, failures: Vec::new() })),
        )
    }

    fn new(path: PathBuf, mode: Mode) -> Self {
        watch_errors();
        Self { path, scrubber: Mutex::default(), mode, finished: AtomicBool::new(false) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the cassette as finished, so that dropping it neither writes nor checks anything.
    pub(super) fn abandon(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_recording(&self) -> bool {
        matches!(self.mode, Mode::Record { .. })
    }

    pub(super) fn scrubber(&self, change: impl FnOnce(&mut Scrubber)) {
        change(&mut locked(&self.scrubber));
    }

    pub(super) fn stream(this: &Arc<Self>, request: ModelRequest) -> ModelStream {
        match &this.mode {
            Mode::Record { model, .. } => {
                ModelStream::new(Recording::new(Arc::clone(this), Arc::clone(model), request))
            }
            Mode::Replay(_) => ModelStream::new(Playing::new(Arc::clone(this), request)),
        }
    }

    pub(super) fn output_mode(
        &self,
        schema: &OutputSchema,
        with_tools: bool,
    ) -> Result<OutputMode, String> {
        match &self.mode {
            Mode::Record { model, state } => {
                let mode = model.output_mode(schema, with_tools)?;
                let native = mode == OutputMode::Native;
                let asked =
                    RecordedOutputMode { schema: schema.name.to_string(), with_tools, native };
                let mut state = locked(state);
                if !state.tape.output_modes.contains(&asked) {
                    state.tape.output_modes.push(asked);
                }
                Ok(mode)
            }
            Mode::Replay(replay) => {
                let replay = locked(replay);
                let modes = &replay.tape.output_modes;
                modes
                    .iter()
                    .find(|asked| asked.schema == *schema.name && asked.with_tools == with_tools)
                    .map(RecordedOutputMode::mode)
                    .ok_or_else(|| {
                        format!(
                            "the cassette {} was recorded without the output type `{}`; record it again",
                            self.path.display(),
                            schema.name
                        )
                    })
            }
        }
    }

    /// Starts recording a call and returns its index.
    pub(super) fn begin(&self, request: &ModelRequest) -> usize {
        let Mode::Record { state, .. } = &self.mode else { return 0 };
        let mut state = locked(state);
        // Calls that overlap have no defined order, so the replay must accept any order.
        if state.in_flight > 0 {
            state.tape.order = Order::Any;
        }
        state.in_flight += 1;
        // Until its end is known, the call counts as dropped.
        state.tape.calls.push(Call {
            asked: Asked::new(request),
            pieces: Vec::new(),
            came: Came::Dropped,
        });
        state.tape.calls.len() - 1
    }

    /// Records a piece of a streamed answer.
    pub(super) fn piece(&self, at: usize, piece: &ModelEvent) {
        if let Mode::Record { state, .. } = &self.mode
            && let Some(call) = locked(state).tape.calls.get_mut(at)
        {
            call.pieces.push(piece.clone());
        }
    }

    /// Records the end of a call.
    pub(super) fn end(&self, at: usize, came: Came) {
        if let Mode::Record { state, .. } = &self.mode {
            let mut state = locked(state);
            state.in_flight -= 1;
            if let Some(call) = state.tape.calls.get_mut(at) {
                call.came = came;
            }
        }
    }

    /// Finds the entry that matches a request, marks it as played and returns its answer.
    pub(super) fn play(
        &self,
        request: &ModelRequest,
    ) -> Result<(Vec<ModelEvent>, Came), ModelError> {
        let Mode::Replay(replay) = &self.mode else { return Err(ModelError::truncated()) };
        let mut asked = Asked::new(request);
        asked.scrub(&locked(&self.scrubber).ready());
        let mut replay = locked(replay);
        replay.calls += 1;
        match replay.find(&asked) {
            Ok(at) => {
                replay.played[at] = true;
                let call = &replay.tape.calls[at];
                Ok((call.pieces.clone(), call.came.clone()))
            }
            Err(problem) => {
                let problem =
                    format!("call {}: {problem}\n{}", replay.calls, request_text(request));
                replay.failures.push(problem.clone());
                drop(replay);
                let problem =
                    format!("the cassette {} does not fit: {problem}", self.path.display());
                Err(ModelError::new(ModelErrorKind::BadRequest, problem)
                    .with_provider_code("cassette"))
            }
        }
    }

    pub(super) fn failures(&self) -> Vec<String> {
        match &self.mode {
            Mode::Record { .. } => Vec::new(),
            Mode::Replay(replay) => locked(replay).failures.clone(),
        }
    }

    /// Writes the file of a recording, or returns all problems of a replay.
    pub(super) fn finish(&self) -> Option<String> {
        // Set first: a panic of the caller drops this value, which must not finish it again.
        self.abandon();
        match &self.mode {
            Mode::Record { state, .. } => {
                // A copy is scrubbed, so that the calls in memory stay unchanged.
                let tape = locked(state).tape.clone();
                let written = self.write(tape);
                written.err().map(|problem| {
                    format!("the cassette {} was not written: {problem}", self.path.display())
                })
            }
            Mode::Replay(replay) => locked(replay).problems().map(|problems| {
                format!(
                    "the model was not called as recorded in {}\n\n{problems}\n",
                    self.path.display()
                )
            }),
        }
    }

    fn write(&self, mut tape: Tape) -> Result<(), String> {
        let ready = locked(&self.scrubber).ready();
        for call in &mut tape.calls {
            call.scrub(&ready)?;
        }
        let text = format::write(&tape)?;
        format::save(&self.path, &text).map_err(|error| error.to_string())
    }
}

impl Replay {
    fn find(&self, asked: &Asked) -> Result<usize, String> {
        let calls = &self.tape.calls;
        let mut left = (0..calls.len()).filter(|at| !self.played[*at]).peekable();
        let Some(next) = left.peek().copied() else {
            return Err(match calls.len() {
                0 => "the cassette has no calls".to_owned(),
                calls => format!("the cassette has {calls} calls, and all were played before"),
            });
        };
        let nearest = match self.tape.order {
            Order::Recorded if calls[next].asked == *asked => return Ok(next),
            Order::Recorded => next,
            Order::Any => {
                let left: Vec<usize> = left.collect();
                if let Some(at) = left.iter().find(|at| calls[**at].asked == *asked) {
                    return Ok(*at);
                }
                // The entry with the longest common prefix of messages is the most useful one to
                // compare with.
                let alike = |at: &usize| {
                    calls[*at]
                        .asked
                        .messages
                        .iter()
                        .zip(&asked.messages)
                        .take_while(|(one, other)| one == other)
                        .count()
                };
                left.into_iter().rev().max_by_key(alike).unwrap_or(next)
            }
        };
        let which = match self.tape.order {
            Order::Recorded => format!("it is not entry {}", nearest + 1),
            Order::Any => {
                format!("it is not among the entries that are left; the nearest is {}", nearest + 1)
            }
        };
        let diff = plain_diff(&calls[nearest].asked.lines(), &asked.lines()).unwrap_or_default();
        Err(format!("{which} (- recorded, + asked):\n{diff}"))
    }

    fn problems(&self) -> Option<String> {
        let mut problems = self.failures.clone();
        for (at, call) in self.tape.calls.iter().enumerate().filter(|(at, _)| !self.played[*at]) {
            let asked = call.asked.messages.last().map(ToString::to_string).unwrap_or_default();
            problems.push(format!("entry {} was never asked for: {asked}", at + 1));
        }
        (!problems.is_empty()).then(|| problems.join("\n\n"))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A failed test must not change the file, and a second panic during unwinding would abort the
        // process.
        if *self.finished.get_mut() || std::thread::panicking() {
            return;
        }
        if let Some(problems) = self.finish() {
            panic_when_dropped(&problems, self.failures().is_empty());
        }
    }
}
