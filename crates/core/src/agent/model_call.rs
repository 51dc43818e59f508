//! One model call of an agent: its attempts, each recorded before it begins and when it ends, with the hooks of
//! middleware around it.
//!
//! `model_retry.rs` says which failed attempts a run retries by itself; the machine decides whether another one is
//! within the run's limits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tracing::Instrument;

use super::driver::Run;
use crate::error::{Error, Failure, Result};
use crate::event::{EventKind, ModelDelta};
use crate::middleware::{Flow, ModelStep, Recovery};
use crate::model::{Model, ModelError, ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use crate::path::StepPath;
use crate::telemetry;
use crate::time::Timestamp;

/// How an attempt ended, before hooks and model_retry have their say.
/// Boxed, since it passes through many hands.
type Outcome = Result<Box<ModelResponse>, Arc<ModelError>>;

/// An attempt that the hooks before it have seen.
struct Hooked {
    step: ModelStep,
    /// How many layers see the outcome on its way out.
    depth: usize,
    /// The outcome, when a hook gave it.
    outcome: Option<Outcome>,
}

/// What follows from an attempt.
enum Attempted {
    Answered(Box<ModelResponse>),
    /// It failed, and middleware gave an answer.
    Replaced {
        error: Arc<ModelError>,
        response: Box<ModelResponse>,
    },
    Failed(Arc<ModelError>),
    Again {
        error: Arc<ModelError>,
        after: Duration,
    },
}

/// What a call does after an attempt.
enum Next {
    Ended(Result<(), Arc<ModelError>>),
    Retry { error: Arc<ModelError>, after: Duration },
}

impl Attempted {
    fn of(outcome: Outcome) -> Self {
        match outcome {
            Ok(response) => Self::Answered(response),
            Err(error) => Self::Failed(error),
        }
    }
}

impl Run {
    /// One model call with all its attempts; the outcome of each is recorded. What hooks need is boxed, so that a run
    /// without any does not hold the room of it.
    pub(super) async fn call_model(&mut self, path: &StepPath) -> Result<Result<(), Arc<ModelError>>> {
        let mut model = Arc::clone(&self.plan.model);
        loop {
            let mut hooked = match self.hooks.is_empty() {
                true => None,
                false => {
                    self.moment = None;
                    Some(Box::pin(self.before_model(path, &model)).await?)
                }
            };
            // What the attempt holds in budgets is given back when its end is recorded.
            let mut places = Vec::new();
            if let Some(hooked) = &mut hooked {
                model = Arc::clone(&hooked.step.model);
                places.append(&mut hooked.step.places);
            }
            if hooked.as_ref().is_none_or(|hooked| hooked.outcome.is_none()) {
                self.check_calls()?;
            }
            self.record_model_start(path, &model);
            self.commit().await?;
            let outcome = if let Some(outcome) = hooked.as_mut().and_then(|hooked| hooked.outcome.take()) {
                outcome.inspect(|response| self.show(path, response))
            } else {
                let request = match &hooked {
                    Some(hooked) => hooked.step.request.clone(),
                    None => self.model_request(),
                };
                self.ask_model(path, &*model, request).await
            };
            let attempted = match hooked {
                None => Attempted::of(outcome),
                Some(hooked) => Box::pin(self.after_model(path, hooked, outcome, &mut model)).await?,
            };
            let (error, after) = match self.record_attempt(path, &model, attempted) {
                Next::Ended(outcome) => return Ok(outcome),
                Next::Retry { error, after } => (error, after),
            };
            drop(places);
            // Boxed, so that a run that waits for its model does not hold the room of another wait.
            if !Box::pin(self.wait_to_call_again(path, &error, after)).await? {
                return Ok(Ok(()));
            }
        }
    }

    /// Records the outcome of an attempt, unless the call is retried.
    fn record_attempt(&mut self, path: &StepPath, model: &Arc<dyn Model>, attempted: Attempted) -> Next {
        match attempted {
            Attempted::Answered(mut response) => {
                self.save_with_model(path, &mut response);
                let now = self.segment.shared.now();
                self.record_at(now, path.clone(), EventKind::ModelCompleted(Arc::from(response)));
                self.moment = Some(now);
                Next::Ended(Ok(()))
            }
            Attempted::Replaced { error, mut response } => {
                self.save_with_model(path, &mut response);
                self.record_retry(path, &error, Duration::ZERO);
                self.record_model_start(path, model);
                self.record(path.clone(), EventKind::ModelCompleted(Arc::from(response)));
                Next::Ended(Ok(()))
            }
            Attempted::Failed(error) => match self.retry_wait(&error) {
                Some(after) => Next::Retry { error, after },
                None => {
                    self.record(path.clone(), EventKind::ModelFailed { error: Arc::new(Failure::from(&*error)) });
                    Next::Ended(Err(error))
                }
            },
            Attempted::Again { error, after } => Next::Retry { error, after },
        }
    }

    /// The hooks on the way in, up to the first that has an answer or fails.
    async fn before_model(&self, path: &StepPath, model: &Arc<dyn Model>) -> Result<Box<Hooked>> {
        let step = ModelStep {
            request: self.model_request(),
            model: Arc::clone(model),
            agent: Arc::clone(&self.plan.name),
            cx: self.step_context(path),
            attempts: self.machine.attempts().to_vec(),
            typed: self.plan.output.is_some(),
            notes: Vec::new(),
            places: Vec::new(),
        };
        let mut hooked = Box::new(Hooked { step, depth: 0, outcome: None });
        for hook in self.hooks.iter() {
            hooked.outcome = match hook.before_model(&mut hooked.step).await {
                Ok(Flow::Continue) => {
                    hooked.depth += 1;
                    continue;
                }
                Ok(Flow::Return(response)) => Some(Ok(self.by_hook(Box::new(response), hook.name()))),
                Err(Error::Model(error)) => Some(Err(error)),
                Err(error) => return Err(error),
            };
            break;
        }
        Ok(hooked)
    }

    /// The hooks on the way out, of the layers that the attempt went through. `model` becomes what the next attempt
    /// asks.
    async fn after_model(
        &mut self,
        path: &StepPath,
        hooked: Box<Hooked>,
        mut outcome: Outcome,
        model: &mut Arc<dyn Model>,
    ) -> Result<Attempted> {
        let Hooked { mut step, depth, outcome: _ } = *hooked;
        let hooks = Arc::clone(&self.hooks);
        let mut failed = None;
        for hook in hooks[..depth].iter().rev() {
            match &mut outcome {
                Ok(response) => match hook.after_model(&mut step, response).await {
                    Ok(()) => {}
                    Err(Error::Model(error)) => outcome = Err(error),
                    Err(error) => return self.ended_by(path, outcome, error),
                },
                Err(error) => match hook.on_model_error(&mut step, error).await {
                    Ok(Flow::Continue) => {}
                    Ok(Flow::Return(Recovery::Answer(response))) => {
                        failed = Some(Arc::clone(error));
                        outcome = Ok(self.by_hook(response, hook.name()));
                    }
                    Ok(Flow::Return(Recovery::Again { after })) => {
                        *model = Arc::clone(&step.model);
                        return Ok(Attempted::Again { error: Arc::clone(error), after });
                    }
                    Err(Error::Model(other)) => *error = other,
                    Err(error) => return self.ended_by(path, outcome, error),
                },
            }
        }
        *model = Arc::clone(&step.model);
        Ok(match (outcome, failed) {
            (Ok(response), Some(error)) => Attempted::Replaced { error, response },
            (outcome, _) => Attempted::of(outcome),
        })
    }

    /// Records the outcome of the call before a hook's error ends the run: it was made, and it cost something.
    fn ended_by(&mut self, path: &StepPath, outcome: Outcome, error: Error) -> Result<Attempted> {
        let kind = match outcome {
            Ok(response) => EventKind::ModelCompleted(Arc::from(response)),
            Err(failed) => EventKind::ModelFailed { error: Arc::new(Failure::from(&*failed)) },
        };
        self.record(path.clone(), kind);
        Err(error)
    }

    fn record_model_start(&mut self, path: &StepPath, model: &Arc<dyn Model>) {
        let ModelInfo { provider, model } = model.info().clone();
        let now = self.moment();
        self.record_at(now, path.clone(), EventKind::ModelStarted { provider, model });
    }

    /// Shows an answer that no model gave as one piece, to those who read pieces.
    fn show(&self, path: &StepPath, response: &ModelResponse) {
        let text = response.text();
        if self.segment.shared.log.wants_deltas() && !text.is_empty() {
            self.segment.shared.log.delta(
                self.segment.shared.now(),
                path,
                EventKind::ModelDelta(ModelDelta::Text(text.into_owned())),
            );
        }
    }

    /// Whether the run as a whole may make another model call. One that a crash interrupted is not another one.
    fn check_calls(&self) -> Result<()> {
        let calls = self.segment.shared.max_llm_calls.load(Ordering::Relaxed);
        match !self.machine.is_calling() && self.segment.shared.log.model_calls() >= calls {
            true => Err(Error::LlmCallLimit { calls }),
            false => Ok(()),
        }
    }

    fn model_request(&self) -> ModelRequest {
        ModelRequest {
            messages: self.machine.request().clone(),
            tools: self.offered.manifest.clone(),
            output: self.plan.output.as_ref().and_then(|output| output.native.clone()),
            settings: Arc::clone(&self.plan.settings),
            stream: self.segment.shared.log.wants_deltas(),
            retried_by_caller: self.is_patient(),
        }
    }

    /// Asks a model, in a span of its own. Not an `async fn`, which would keep room for the request while it waits.
    fn ask_model<'r>(
        &'r self,
        path: &'r StepPath,
        model: &dyn Model,
        request: ModelRequest,
    ) -> impl Future<Output = Outcome> + Send + use<'r> {
        // Spans hold no contents where something is removed from events.
        let content = self.plan.host.trace_content && self.segment.shared.host.redactor.is_none();
        let span = telemetry::chat_span(model.info(), &self.segment.shared, &request, content);
        let mut asked = request.stream.then(|| self.segment.shared.now());
        let mut stream = span.in_scope(|| model.stream(request));
        async move {
            // What is read into is borrowed: a future that owned it would have room for it twice.
            let (stream, asked) = (&mut stream, &mut asked);
            let outcome = self.read_model(path, stream, asked).instrument(span.clone()).await;
            telemetry::record_chat(&span, outcome.as_deref().map_err(|error| &**error), content);
            outcome
        }
    }

    /// Reads an answer to its end. Its stream is dropped before it is recorded, so that the conversation has one owner
    /// again and pushing to it copies nothing.
    async fn read_model(&self, path: &StepPath, stream: &mut ModelStream, asked: &mut Option<Timestamp>) -> Outcome {
        let log = &self.segment.shared.log;
        while let Some(event) = stream.next().await {
            if let Some(asked) = asked.take() {
                telemetry::record_first_piece(self.segment.shared.now().since(asked));
            }
            let delta = match event.map_err(Arc::new)? {
                ModelEvent::Completed(response) => {
                    return Ok(self.with_call_ids(response));
                }
                _ if !log.wants_deltas() => continue,
                ModelEvent::Progress(value) => {
                    log.delta(self.segment.shared.now(), path, EventKind::StepProgress { value });
                    continue;
                }
                ModelEvent::Text(text) => ModelDelta::Text(text),
                ModelEvent::Reasoning(text) => ModelDelta::Reasoning(text),
                ModelEvent::ToolCall(call) => ModelDelta::ToolCall(Box::new(call)),
            };
            log.delta(self.segment.shared.now(), path, EventKind::ModelDelta(delta));
        }
        Err(Arc::new(ModelError::truncated()))
    }

    fn with_call_ids(&self, response: Box<ModelResponse>) -> Box<ModelResponse> {
        let mut ids = self.call_ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.distinct(response, self.machine.turn(), self.machine.request())
    }

    /// An answer that a middleware gave.
    fn by_hook(&self, response: Box<ModelResponse>, by: &str) -> Box<ModelResponse> {
        let mut response = self.with_call_ids(response);
        response.answered_by = Some(by.into());
        response
    }
}
