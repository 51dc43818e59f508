//! Approval of a tool call, in a step or by an agent's model.
//!
//! The question is recorded at the call's path. A person answers it, and may change the arguments,
//! or its time-out answers it. The time limit starts at the recorded time of the question, also if
//! another process waits for the answer.

use std::sync::Arc;
use std::time::Duration;

use agentflow_schema::text::head;
use serde_json::Value;

use super::call_answer::QuestionAnswer;
use super::matched_tool_call::MatchedToolCall;
use super::node_question::NodeQuestion;
use super::{UserQuestion, answer_with_replacement, is_granted, replaces_answers};
use crate::error::Error;
use crate::event::{ApprovalRequest, EventKind, PauseReason};
use crate::failure::{Failure, FailureKind};
use crate::on_timeout::OnTimeout;
use crate::path::StepPath;
use crate::run::{Approval, RunShared, asks_approval, call_answer_schema, timeout_answer};
use crate::store::StoreError;
use crate::time::Timestamp;
use crate::tool_definition::ToolDefinition;
use crate::value::Encoded;

/// Maximum number of bytes of the arguments in a question.
const SHOWN: usize = 300;

impl MatchedToolCall {
    /// Returns `true` if a person must approve the call. The grant `approve:NAME` of the run counts
    /// as an approval.
    pub(super) fn needs_approval(&self) -> bool {
        self.definition.policy.approve && !is_granted(&self.definition, self.place.cx.grants())
    }

    /// Waits for a person's approval of the call. Returns the arguments with which the person
    /// replaced the caller's, if any.
    ///
    /// # Errors
    /// The call was denied, or questions of this run cannot be answered.
    pub(super) async fn approved(
        &self,
        path: &StepPath,
        asked: bool,
        answer: Option<QuestionAnswer>,
    ) -> Result<Option<Value>, Failure> {
        let of_node = self.place.covered.question.as_deref();
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let shared = Arc::clone(self.place.cx.run());
                if !can_be_answered(&shared) {
                    let name = self.definition.catalogue_name();
                    return Err(unanswerable(&format!("`{name}` needs a person's approval")));
                }
                let question = match asked {
                    true => CallQuestion::of_recorded(shared, path.clone()),
                    false => {
                        let value = |error: serde_json::Error| {
                            Failure::new(FailureKind::Value, error.to_string())
                        };
                        CallQuestion::ask(
                            shared,
                            path.clone(),
                            &self.definition,
                            &self.arguments,
                            of_node,
                        )
                        .map_err(value)?
                    }
                };
                question.answer().await.map_err(|error| Failure::from(&Error::Store(error)))?
            }
        };
        match answer {
            QuestionAnswer { approval: Approval::Granted { arguments, .. }, .. } => Ok(arguments),
            QuestionAnswer { approval: Approval::Denied { comment }, late, .. } => {
                let (kind, what) = match late {
                    Some(OnTimeout::Fail) => (FailureKind::Timeout, "has no answer"),
                    Some(OnTimeout::Skip) if of_node.is_some() => {
                        (FailureKind::Timeout, "has no answer")
                    }
                    _ => (FailureKind::Denied, "denied"),
                };
                let message = match comment.as_deref() {
                    None | Some("") => format!("approval of `{path}` {what}"),
                    Some(comment) => format!("approval of `{path}` {what}: {comment}"),
                };
                // Not retryable: a retry would ask the person again.
                Err(Failure { retryable: false, ..Failure::new(kind, message) })
            }
        }
    }
}

/// Returns `true` if a question of the run can be answered: it is recorded, the run has a handle,
/// or a replacement answers.
pub(crate) fn can_be_answered(shared: &RunShared) -> bool {
    shared.log.has_journal() || shared.has_handle() || replaces_answers(&shared.host)
}

/// Creates the failure of a question in a run without a store and without a handle: no answer can
/// reach it.
pub(crate) fn unanswerable(what: &str) -> Failure {
    let message = format!(
        "{what}, and nobody can answer in a run that has neither a store nor a handle; start it on a runtime with a store: \
         `runtime.start(..)`"
    );
    Failure::new(FailureKind::Unauthorized, message)
}

/// An open question. Dropping it records that the run no longer waits for the answer.
pub(crate) struct CallQuestion {
    shared: Arc<RunShared>,
    path: StepPath,
    asked: Option<(Timestamp, Arc<ApprovalRequest>)>,
    open: bool,
}

impl CallQuestion {
    /// Records the question whether a call may be made with these arguments. `arguments` is `null`
    /// if they have no JSON form. `of_node` replaces the text and the time limit that the tool
    /// declares.
    ///
    /// # Errors
    /// The tool's schema or the arguments are not valid JSON.
    pub(crate) fn ask(
        shared: Arc<RunShared>,
        path: StepPath,
        definition: &ToolDefinition,
        arguments: &Value,
        of_node: Option<&NodeQuestion>,
    ) -> Result<Self, serde_json::Error> {
        let shown = match arguments {
            Value::Object(arguments) => {
                let shown: Vec<String> =
                    arguments.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                shown.join(", ")
            }
            _ => "..".to_owned(),
        };
        let of_tool = NodeQuestion::of_tool(definition);
        let NodeQuestion { text, timeout_ms, on_timeout } = of_node.unwrap_or(&of_tool);
        let message = match text {
            Some(text) => text.to_string(),
            None => format!("call `{}({})`?", definition.catalogue_name(), head(&shown, SHOWN)),
        };
        let answer = Encoded::new(&call_answer_schema(&definition.parameters))?;
        let payload = Encoded::from_json(arguments.to_string())?;
        let request =
            ApprovalRequest::new(message, payload, answer).within(*timeout_ms, on_timeout);
        Ok(Self::open(shared, path, request))
    }

    /// Records the question of a tool whose calls a person answers.
    ///
    /// # Errors
    /// The question's schema is not valid JSON.
    pub(crate) fn of_user(
        shared: Arc<RunShared>,
        path: StepPath,
        question: UserQuestion,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self::open(shared, path, question.into_request()?))
    }

    /// Creates a question that a running call sends, at a separate path. Reuses the recorded
    /// question unless it must be sent again.
    pub(crate) fn of_call(
        shared: Arc<RunShared>,
        path: StepPath,
        request: ApprovalRequest,
    ) -> Self {
        // A recorded question that can no longer be answered, because its step was stopped or it
        // was withdrawn, is sent again.
        let counts = shared.log.waits_within(&path) || shared.answered_at(&path).is_some();
        match asked_at(&shared, &path).filter(|_| counts) {
            None => Self::open(shared, path, request),
            asked => Self { shared, path, asked, open: true },
        }
    }

    fn open(shared: Arc<RunShared>, path: StepPath, request: ApprovalRequest) -> Self {
        // The journal has the time of the question, so the time limit continues after a restart.
        let (request, since) =
            (Arc::new(request.with_random_id(shared.host.question_bits())), shared.now());
        shared.log.record(since, path.clone(), EventKind::ApprovalRequested(Arc::clone(&request)));
        answer_with_replacement(&shared, &path, &request);
        shared.record(path.clone(), EventKind::paused(PauseReason::Approval));
        Self { shared, path, asked: Some((since, request)), open: true }
    }

    /// Creates the question from the record that an earlier process wrote and that has no answer
    /// yet.
    pub(crate) fn of_recorded(shared: Arc<RunShared>, path: StepPath) -> Self {
        let asked = asked_at(&shared, &path);
        Self { shared, path, asked, open: true }
    }

    /// Waits for the answer of a person or of the time-out.
    pub(crate) async fn answer(mut self) -> Result<QuestionAnswer, StoreError> {
        self.shared.log.commit().await?;
        let question = self.asked.as_ref().map(|(_, question)| &**question);
        let answered = self.shared.answer_at(&self.path);
        let (answer, by) = match self.left().zip(question) {
            None => answered.await,
            Some((left, question)) => match tokio::time::timeout(left, answered).await {
                Ok(answered) => answered,
                Err(_) => self.time_out(question).await?,
            },
        };
        let answer = QuestionAnswer::recorded(question, &answer, &by);
        self.open = false;
        Ok(answer)
    }

    /// Returns the remaining time for the answer, or `None` without a limit.
    fn left(&self) -> Option<Duration> {
        let (since, question) = self.asked.as_ref()?;
        Some(question.timeout()?.saturating_sub(self.shared.now().since(*since)))
    }

    /// Records the answer of the time-out, unless a person answers at the same moment. Returns the
    /// answer that was recorded first.
    async fn time_out(
        &self,
        question: &ApprovalRequest,
    ) -> Result<(Encoded, Arc<str>), StoreError> {
        let answer = match (timeout_answer(question), asks_approval(&question.answer)) {
            (Ok(answer), _) => answer,
            (Err(failure), true) => {
                Encoded::new(&Approval::denied(failure.message)).unwrap_or_else(|_| Encoded::null())
            }
            (Err(_), false) => Encoded::null(),
        };
        // An error means that a person has answered already; `answer_at` then returns that answer.
        let _ = self.shared.time_out(&self.path, answer);
        self.shared.log.commit().await?;
        Ok(self.shared.answer_at(&self.path).await)
    }
}

/// Returns the question recorded at a path, with the time when it was asked.
fn asked_at(shared: &RunShared, path: &StepPath) -> Option<(Timestamp, Arc<ApprovalRequest>)> {
    let recorded = shared.log.records_below(path);
    recorded.into_iter().rev().find_map(|(time, of, kind)| match kind {
        EventKind::ApprovalRequested(question) if of == *path => Some((time, question)),
        _ => None,
    })
}

impl Drop for CallQuestion {
    fn drop(&mut self) {
        if self.open {
            self.shared.record(self.path.clone(), EventKind::resumed());
        }
    }
}
