//! Access to questions: finds the question that an answer is for, and checks that the caller is one of
//! its roles and users.

use std::sync::Arc;

use super::control_request::ControlRequest;
use super::read::read_events;
use super::state::RunState;
use crate::access::ActingCaller;
use crate::error::Result;
use crate::event::{ApprovalRequest, Event};
use crate::path::StepPath;
use crate::store::{RunRecord, Store};

/// Checks that a caller may send a request to a run: with the access control, and for an answer with
/// the roles and users of the question. `recorded` returns the events of a run without a store.
///
/// # Errors
/// [`Error::AccessDenied`](crate::Error::AccessDenied), or `not_found` if the caller may not read the
/// run.
pub(crate) async fn check_request(
    acting: &ActingCaller,
    record: &RunRecord,
    request: &ControlRequest,
    (store, recorded): (Option<&Arc<dyn Store>>, impl FnOnce() -> Vec<Event>),
) -> Result<()> {
    acting.check(request.action(), record).await?;
    let ControlRequest::Answer { node, .. } = request else { return Ok(()) };
    // An invalid path has no question, and the answer is refused later.
    let Ok(path) = node.parse::<StepPath>() else { return Ok(()) };
    let question = match question_in(record, &path) {
        Found::Question(question) => Some(question),
        Found::Nothing => None,
        Found::Unknown => {
            let events = match store {
                Some(store) => read_events(store, &record.run_id, 0).await?,
                None => recorded(),
            };
            let state = RunState::from_open_questions(
                events.iter().map(|event| (&event.path, &event.kind)),
            );
            state.asking_node(node).ok().map(|(_, question)| Arc::clone(question))
        }
    };
    match question {
        Some(question) => acting.check_answer(record, &question),
        // The answer to a question that is not open is refused later.
        None => Ok(()),
    }
}

/// The question at a path, according to a record.
enum Found {
    Question(Arc<ApprovalRequest>),
    Nothing,
    /// The record does not contain all questions.
    Unknown,
}

fn question_in(record: &RunRecord, path: &StepPath) -> Found {
    let Some(questions) = &record.questions else { return Found::Unknown };
    match questions.open.iter().find(|question| question.path == *path) {
        Some(question) => match &question.request {
            Some(request) => Found::Question(Arc::clone(request)),
            None => Found::Unknown,
        },
        None if questions.has_more => Found::Unknown,
        None => Found::Nothing,
    }
}
