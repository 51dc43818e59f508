//! A model call of an agent: each attempt is recorded before it starts and after it ends, and
//! middleware hooks wrap it.
//!
//! `model_retry.rs` decides which failed attempts are retried automatically. The machine decides if
//! another attempt is within the run's limits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tracing::Instrument;

use super::driver::Run;
use crate::error::{Error, Failure, Result};
use crate::event::{EventKind, ModelDelta};
use crate::middleware::{Flow, ModelStep, Recovery};
use crate::model::{
    Model, ModelError, ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream,
};
use crate::path::StepPath;
use crate::telemetry;
use crate::time::Timestamp;

/// Result of an attempt, before hooks and retries are applied. Boxed because it is moved often.
type Outcome = Result<Box<ModelResponse>, Arc<ModelError>>;

/// An attempt after the hooks on the way in.
struct HookedModelCall {
    step: ModelStep,
    /// Number of middleware layers that see the outcome on the way out.
    depth: usize,
    /// The outcome, if a hook provided it.
    outcome: Option<Outcome>,
}

/// Result of an attempt after the hooks on the way out.
enum AttemptOutcome {
    Answered(Box<ModelResponse>),
    /// The attempt failed, and middleware provided an answer.
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

/// Next action of a call after an attempt.
enum Next {
    Ended(Result<(), Arc<ModelError>>),
    Retry { error: Arc<ModelError>, after: Duration },
}

impl AttemptOutcome {
    fn from_result(outcome: Outcome) -> Self {
        match outcome {
            Ok(response) => Self::Answered(response),
            Err(error) => Self::Failed(error),
        }
    }
}

impl Run {
    /// Makes a model call with all its attempts and records the outcome of each. State for hooks is
    /// boxed, so that a run without hooks stays small.
    pub(super) async fn call_model(
        &mut self,
        path: &StepPath,
    ) -> Result<Result<(), Arc<ModelError>>> {
        let mut model = Arc::clone(&self.plan.model);
        loop {
            let mut hooked = match self.hooks.is_empty() {
                true => None,
                false => {
                    self.moment = None;
                    Some(Box::pin(self.before_model(path, &model)).await?)
                }
            };
            // Reservations in budgets. They are released when the end of the attempt is recorded.
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
            let outcome =
                if let Some(outcome) = hooked.as_mut().and_then(|hooked| hooked.outcome.take()) {
                    outcome.inspect(|response| self.show(path, response))
                } else {
                    let request = match &hooked {
                        Some(hooked) => hooked.step.request.clone(),
                        None => self.model_request(),
                    };
                    self.ask_model(path, &*model, request).await
                };
            let attempted = match hooked {
                None => AttemptOutcome::from_result(outcome),
                Some(hooked) => {
                    Box::pin(self.after_model(path, hooked, outcome, &mut model)).await?
                }
            };
            let (error, after) = match self.record_attempt(path, &model, attempted) {
                Next::Ended(outcome) => return Ok(outcome),
                Next::Retry { error, after } => (error, after),
            };
            drop(places);
            // Boxed, so that a run that waits for its model does not reserve space for this wait.
            if !Box::pin(self.wait_to_call_again(path, &error, after)).await? {
                return Ok(Ok(()));
            }
        }
    }

    /// Records the outcome of an attempt, unless the call is retried.
    fn record_attempt(
        &mut self,
        path: &StepPath,
        model: &Arc<dyn Model>,
        attempted: AttemptOutcome,
    ) -> Next {
        match attempted {
            AttemptOutcome::Answered(mut response) => {
                self.save_with_model(path, &mut response);
                let now = self.segment.shared.now();
                self.record_at(now, path.clone(), EventKind::ModelCompleted(Arc::from(response)));
                self.moment = Some(now);
                Next::Ended(Ok(()))
            }
            AttemptOutcome::Replaced { error, mut response } => {
                self.save_with_model(path, &mut response);
                self.record_retry(path, &error, Duration::ZERO);
                self.record_model_start(path, model);
                self.record(path.clone(), EventKind::ModelCompleted(Arc::from(response)));
                Next::Ended(Ok(()))
            }
            AttemptOutcome::Failed(error) => match self.retry_wait(&error) {
                Some(after) => Next::Retry { error, after },
                None => {
                    self.record(
                        path.clone(),
                        EventKind::ModelFailed { error: Arc::new(Failure::from(&*error)) },
                    );
                    Next::Ended(Err(error))
                }
            },
            AttemptOutcome::Again { error, after } => Next::Retry { error, after },
        }
    }

    /// Calls the hooks on the way in, up to the first that provides an answer or fails.
    async fn before_model(
        &self,
        path: &StepPath,
        model: &Arc<dyn Model>,
    ) -> Result<Box<HookedModelCall>> {
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
        let mut hooked = Box::new(HookedModelCall { step, depth: 0, outcome: None });
        for hook in self.hooks.iter() {
            hooked.outcome = match hook.before_model(&mut hooked.step).await {
                Ok(Flow::Continue) => {
                    hooked.depth += 1;
                    continue;
                }
                Ok(Flow::Return(response)) => {
                    Some(Ok(self.mark_answered_by(Box::new(response), hook.name())))
                }
                Err(Error::Model(error)) => Some(Err(error)),
                Err(error) => return Err(error),
            };
            break;
        }
        Ok(hooked)
    }

    /// Calls the hooks on the way out, for the layers that the attempt passed. Sets `model` to the
    /// model of the next attempt.
    async fn after_model(
        &mut self,
        path: &StepPath,
        hooked: Box<HookedModelCall>,
        mut outcome: Outcome,
        model: &mut Arc<dyn Model>,
    ) -> Result<AttemptOutcome> {
        let HookedModelCall { mut step, depth, outcome: _ } = *hooked;
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
                    // The failed attempt is recorded too, before the replacement.
                    Ok(Flow::Return(Recovery::Answer(response))) => {
                        failed = Some(Arc::clone(error));
                        outcome = Ok(self.mark_answered_by(response, hook.name()));
                    }
                    // The outer hooks see only the outcome of the next attempt.
                    Ok(Flow::Return(Recovery::Again { after })) => {
                        *model = Arc::clone(&step.model);
                        return Ok(AttemptOutcome::Again { error: Arc::clone(error), after });
                    }
                    Err(Error::Model(other)) => *error = other,
                    Err(error) => return self.ended_by(path, outcome, error),
                },
            }
        }
        *model = Arc::clone(&step.model);
        Ok(match (outcome, failed) {
            (Ok(response), Some(error)) => AttemptOutcome::Replaced { error, response },
            (outcome, _) => AttemptOutcome::from_result(outcome),
        })
    }

    /// Records the outcome of the call before a hook's error ends the run. The call was made and
    /// had a cost.
    fn ended_by(
        &mut self,
        path: &StepPath,
        outcome: Outcome,
        error: Error,
    ) -> Result<AttemptOutcome> {
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

    /// Sends an answer that no model produced to the listeners for deltas, as a single delta.
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

    /// Checks the limit of model calls for the whole run. Repeating a call that a crash interrupted
    /// does not count again.
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
            retried_by_caller: self.retries_automatically(),
        }
    }

    /// Calls a model in a new tracing span. Not an `async fn`, which would reserve space for the
    /// request while it waits.
    fn ask_model<'r>(
        &'r self,
        path: &'r StepPath,
        model: &dyn Model,
        request: ModelRequest,
    ) -> impl Future<Output = Outcome> + Send + use<'r> {
        // Spans contain no content if a redactor is configured: it only processes events.
        let content = self.plan.host.trace_content && self.segment.shared.host.redactor.is_none();
        let span = telemetry::chat_span(model.info(), &self.segment.shared, &request, content);
        let mut asked = request.stream.then(|| self.segment.shared.now());
        let mut stream = span.in_scope(|| model.stream(request));
        async move {
            // The stream is borrowed: a future that owned it would reserve space for it twice.
            let (stream, asked) = (&mut stream, &mut asked);
            let outcome = self.read_model(path, stream, asked).instrument(span.clone()).await;
            telemetry::record_chat(&span, outcome.as_deref().map_err(|error| &**error), content);
            outcome
        }
    }

    /// Reads an answer to its end. The stream is dropped before the answer is recorded. The
    /// conversation then has a single owner again, so appending to it does not copy it.
    async fn read_model(
        &self,
        path: &StepPath,
        stream: &mut ModelStream,
        asked: &mut Option<Timestamp>,
    ) -> Outcome {
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

    /// Marks an answer as provided by middleware.
    fn mark_answered_by(&self, response: Box<ModelResponse>, by: &str) -> Box<ModelResponse> {
        let mut response = self.with_call_ids(response);
        response.answered_by = Some(by.into());
        response
    }
}
