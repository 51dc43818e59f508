//! The question whether a call of a tool in a step may be made: asked at the call's path, and answered by a person.
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
use crate::run::{Approval, RunShared};
use crate::text::head;
use crate::value::{Encoded, NodeValue};

/// How much of the arguments a question shows.
const SHOWN: usize = 300;

impl KnownCall {
    /// Waits until a person has agreed to the call.
    pub(super) async fn approved(&self, path: &StepPath, asked: bool, answer: Option<Approval>) -> Result<(), Failure> {
        let shared = self.place.cx.run();
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let question = if asked { Asking { shared, path } } else { self.ask(path)? };
                let stored = |error| Failure::from(&Error::Store(error));
                shared.log.commit().await.map_err(stored)?;
                let answer = shared.answer_at(path).await;
                std::mem::forget(question);
                answer
            }
        };
        match answer {
            Approval::Granted { .. } => Ok(()),
            Approval::Denied { comment } => {
                let message = match comment.as_deref() {
                    None | Some("") => format!("approval of `{path}` denied"),
                    Some(comment) => format!("approval of `{path}` denied: {comment}"),
                };
                Err(Failure::new(FailureKind::Denied, message))
            }
        }
    }

    /// Records the question.
    fn ask<'s>(&'s self, path: &'s StepPath) -> Result<Asking<'s>, Failure> {
        let shared = self.place.cx.run();
        let arguments = match &self.arguments {
            Value::Object(arguments) => {
                let shown: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                shown.join(", ")
            }
            _ => "..".to_owned(),
        };
        let message = format!("call `{}({})`?", self.definition.name, head(&arguments, SHOWN));
        let value = |error: serde_json::Error| Failure::new(FailureKind::Value, error.to_string());
        let answer = Encoded::new(&Approval::schema()).map_err(value)?;
        let payload = Encoded::from_json(self.arguments.to_string()).map_err(value)?;
        let request = ApprovalRequest::new(message, payload, answer, None);
        let request = Arc::new(request);
        shared.record(path.clone(), EventKind::ApprovalRequested(Arc::clone(&request)));
        answered_instead(shared, path, &request);
        shared.record(path.clone(), EventKind::RunPaused { reason: PauseReason::Approval });
        Ok(Asking { shared, path })
    }
}

/// A question that is open. Dropped, nobody waits for its answer any more.
struct Asking<'s> {
    shared: &'s RunShared,
    path: &'s StepPath,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.shared.record(self.path.clone(), EventKind::resumed());
    }
}
