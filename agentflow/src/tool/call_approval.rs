//! The question whether the call of a tool may be made, in a step or by an agent's model: asked at the call's path, and
//! answered by a person, who may change the arguments.
//!
//! It neither makes the call nor finds what was recorded of it.

use std::sync::Arc;

use serde_json::Value;

use super::answered_instead;
use super::call_in_step::KnownCall;
use crate::error::Error;
use crate::event::{ApprovalRequest, EventKind, PauseReason};
use crate::failure::{Failure, FailureKind};
use crate::path::StepPath;
use crate::run::{Approval, RunShared, call_answer_schema};
use crate::store::StoreError;
use crate::text::head;
use crate::tool_definition::ToolDefinition;
use crate::value::Encoded;

/// How much of the arguments a question shows.
const SHOWN: usize = 300;

impl KnownCall {
    /// Waits until a person has agreed to the call; gives the arguments that they said in the place of the caller's.
    pub(super) async fn approved(
        &self,
        path: &StepPath,
        asked: bool,
        answer: Option<Approval>,
    ) -> Result<Option<Value>, Failure> {
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let shared = Arc::clone(self.place.cx.run());
                let question = match asked {
                    true => CallQuestion::of_recorded(shared, path.clone()),
                    false => {
                        let value = |error: serde_json::Error| Failure::new(FailureKind::Value, error.to_string());
                        CallQuestion::ask(shared, path.clone(), &self.definition, &self.arguments).map_err(value)?
                    }
                };
                question.answer().await.map_err(|error| Failure::from(&Error::Store(error)))?
            }
        };
        match answer {
            Approval::Granted { arguments, .. } => Ok(arguments),
            Approval::Denied { comment } => {
                let message = match comment.as_deref() {
                    None | Some("") => format!("approval of `{path}` denied"),
                    Some(comment) => format!("approval of `{path}` denied: {comment}"),
                };
                Err(Failure::new(FailureKind::Denied, message))
            }
        }
    }
}

/// A question that is open. Dropped, nobody waits for its answer any more.
pub(crate) struct CallQuestion {
    shared: Arc<RunShared>,
    path: StepPath,
    open: bool,
}

impl CallQuestion {
    /// Records the question whether a call may be made with these arguments; `null` where they have no JSON form.
    ///
    /// # Errors
    /// When the tool's schema or the arguments are not JSON.
    pub(crate) fn ask(
        shared: Arc<RunShared>,
        path: StepPath,
        definition: &ToolDefinition,
        arguments: &Value,
    ) -> Result<Self, serde_json::Error> {
        let shown = match arguments {
            Value::Object(arguments) => {
                let shown: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                shown.join(", ")
            }
            _ => "..".to_owned(),
        };
        let message = format!("call `{}({})`?", definition.name, head(&shown, SHOWN));
        let answer = Encoded::new(&call_answer_schema(&definition.parameters))?;
        let payload = Encoded::from_json(arguments.to_string())?;
        let request = Arc::new(ApprovalRequest::new(message, payload, answer, None));
        shared.record(path.clone(), EventKind::ApprovalRequested(Arc::clone(&request)));
        answered_instead(&shared, &path, &request);
        shared.record(path.clone(), EventKind::RunPaused { reason: PauseReason::Approval });
        Ok(Self { shared, path, open: true })
    }

    /// One that an earlier life of the run has recorded, and that nobody has answered.
    pub(crate) fn of_recorded(shared: Arc<RunShared>, path: StepPath) -> Self {
        Self { shared, path, open: true }
    }

    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Result<Approval, StoreError> {
        self.shared.log.commit().await?;
        let answer = self.shared.answer_at(&self.path).await;
        self.open = false;
        Ok(answer)
    }
}

impl Drop for CallQuestion {
    fn drop(&mut self) {
        if self.open {
            self.shared.record(self.path.clone(), EventKind::resumed());
        }
    }
}
