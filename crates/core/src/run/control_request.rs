//! Control requests to a run (pause, unpause, cancel, retry, answer, message, close) and the
//! channel for their outcomes. Plain data.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::done_calls::is_of_undo;
use super::redaction::Redactor;
use crate::access::AccessAction;
use crate::error::ControlError;
use crate::event::{Event, EventKind, split_question_id};
use crate::message::Message;
use crate::store::MessageId;
use crate::time::Timestamp;
use crate::value::Encoded;

/// A request of an operator to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlRequest {
    Pause,
    Unpause,
    /// Sent by the runtime that drains the run, never by an operator.
    #[serde(skip)]
    Drain,
    Cancel {
        reason: String,
    },
    Retry {
        node: String,
        by: String,
    },
    Answer {
        node: String,
        /// Id of the question, if the caller gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
        answer: Encoded,
        by: String,
    },
    Message {
        /// Unique id of the message, so that it is recorded once.
        id: String,
        message: Arc<Message>,
    },
    Close,
}

impl ControlRequest {
    /// Creates an answer to the question at a path, or to a question by its id.
    pub(crate) fn answer(named: &str, answer: Encoded, by: &str) -> Self {
        let (node, question) = split_question_id(named);
        Self::Answer {
            node: node.to_owned(),
            question: question.map(Arc::from),
            answer,
            by: by.to_owned(),
        }
    }

    /// Returns the request as its record contains it after redaction.
    pub(super) fn recorded_by(&self, redactor: &Redactor) -> Self {
        let recorded = match self {
            Self::Cancel { reason } => {
                EventKind::RunCancelled { reason: reason.as_str().into(), by: None }
            }
            Self::Retry { by, .. } => EventKind::NodeReset { by: by.as_str().into() },
            Self::Answer { answer, by, .. } => {
                EventKind::ApprovalResolved { answer: answer.clone(), by: by.as_str().into() }
            }
            Self::Pause | Self::Unpause | Self::Drain | Self::Message { .. } | Self::Close => {
                return self.clone();
            }
        };
        match (self, redactor.event(recorded)) {
            (Self::Cancel { .. }, EventKind::RunCancelled { reason, .. }) => {
                Self::Cancel { reason: reason.to_string() }
            }
            (Self::Retry { node, .. }, EventKind::NodeReset { by }) => {
                Self::Retry { node: node.clone(), by: by.to_string() }
            }
            (Self::Answer { node, question, .. }, EventKind::ApprovalResolved { answer, by }) => {
                Self::Answer {
                    node: node.clone(),
                    question: question.clone(),
                    answer,
                    by: by.to_string(),
                }
            }
            _ => self.clone(),
        }
    }

    /// Returns the action that access control decides on.
    pub(crate) fn action(&self) -> AccessAction {
        match self {
            Self::Pause | Self::Drain => AccessAction::Pause,
            Self::Unpause => AccessAction::Unpause,
            Self::Cancel { .. } => AccessAction::Cancel,
            Self::Retry { .. } => AccessAction::Retry,
            Self::Answer { .. } => AccessAction::Answer,
            Self::Message { .. } => AccessAction::Message,
            Self::Close => AccessAction::Close,
        }
    }

    /// Returns this request with another operator, if it contains one.
    pub(super) fn sent_by(self, operator: &str) -> Self {
        match self {
            Self::Retry { node, .. } => Self::Retry { node, by: operator.to_owned() },
            Self::Answer { node, question, answer, .. } => {
                Self::Answer { node, question, answer, by: operator.to_owned() }
            }
            other => other,
        }
    }

    /// Returns the participle for error messages such as "the run cannot be paused".
    pub(crate) fn done(&self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Unpause => "unpaused",
            Self::Drain => "drained",
            Self::Cancel { .. } => "cancelled",
            Self::Retry { .. } => "retried",
            Self::Answer { .. } => "answered",
            Self::Message { .. } => "sent a message",
            Self::Close => "closed",
        }
    }

    /// Returns `true` if the request is about a step of a compensation.
    pub(super) fn is_of_undo(&self) -> bool {
        self.node().is_some_and(|node| node.parse().is_ok_and(|path| is_of_undo(&path)))
    }

    /// Returns `true` if only runs of agents accept the request.
    pub(super) fn is_for_agents(&self) -> bool {
        matches!(self, Self::Message { .. } | Self::Close)
    }

    pub(crate) fn is_retry(&self) -> bool {
        matches!(self, Self::Retry { .. })
    }

    /// Returns `true` if equal requests are distinguished in the journal only by the sequence
    /// number of their events. Other requests have a distinct text or id, or take effect only once.
    pub(super) fn is_known_by_number(&self) -> bool {
        matches!(self, Self::Pause | Self::Unpause | Self::Retry { .. } | Self::Answer { .. })
    }

    /// Returns the node that the request is about.
    pub(crate) fn node(&self) -> Option<&str> {
        match self {
            Self::Retry { node, .. } | Self::Answer { node, .. } => Some(node),
            Self::Pause
            | Self::Unpause
            | Self::Drain
            | Self::Cancel { .. }
            | Self::Message { .. }
            | Self::Close => None,
        }
    }
}

/// The stored form of a control request to another process. Without an operator it has the form of
/// earlier releases, which recorded no operator.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum StoredRequest<'a> {
    Plain(&'a ControlRequest),
    By { request: &'a ControlRequest, by: &'a str },
}

impl<'a> StoredRequest<'a> {
    pub(super) fn new(request: &'a ControlRequest, by: Option<&'a str>) -> Self {
        match by {
            None => Self::Plain(request),
            Some(by) => Self::By { request, by },
        }
    }

    /// Parses a stored request. Both forms are parsed from the text, because an encoded answer can
    /// only be read from text.
    ///
    /// # Errors
    /// Fails if the text has neither form.
    pub(super) fn read(text: &str, reply: Option<Reply>) -> Result<Asked, serde_json::Error> {
        #[derive(Deserialize)]
        struct ByOperator {
            request: ControlRequest,
            by: Arc<str>,
        }
        match (serde_json::from_str(text), serde_json::from_str(text)) {
            (Ok(request), _) => Ok(Asked { request, by: None, reply }),
            (Err(_), Ok(ByOperator { request, by })) => Ok(Asked { request, by: Some(by), reply }),
            (Err(error), Err(_)) => Err(error),
        }
    }
}

/// A control request on its way to a run, with the recipient of its outcome.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: ControlRequest,
    /// The operator who sends the request, if known.
    pub(crate) by: Option<Arc<str>>,
    pub(crate) reply: Option<Reply>,
}

/// The events by which a process granted a request. The journal contains them only if that process
/// stored them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantingEvents {
    /// Sequence number of the first event.
    pub(super) first: u64,
    /// Sequence number of the last event.
    pub(super) last: u64,
    /// Time of the first event. It distinguishes the events from those that another process wrote
    /// with the same numbers.
    pub(super) time: Timestamp,
}

impl GrantingEvents {
    /// Returns `true` if an event of the journal may be one of them.
    pub(super) fn may_include(&self, event: &Event) -> bool {
        (self.first..=self.last).contains(&event.seq)
            && (event.seq != self.first || event.time == self.time)
    }
}

/// The recipient of the outcome of a control request. The outcome is sent when the effects of the
/// request are stored.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A caller in this process. If the run stops before the outcome is known, the caller looks for
    /// the granting events.
    Caller(oneshot::Sender<Result<(), ControlError>>, Arc<OnceLock<GrantingEvents>>),
    /// A process that sent the request as a message through the store.
    Message(MessageId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_request_without_an_operator_has_its_former_form() {
        let requests = [
            ControlRequest::Pause,
            ControlRequest::Cancel { reason: "too late".to_owned() },
            ControlRequest::answer(
                "gate",
                Encoded::from_json(r#"{"a": 1.0}"#.to_owned()).unwrap(),
                "ada",
            ),
        ];
        for request in requests {
            for by in [None, Some("bob")] {
                let text = serde_json::to_string(&StoredRequest::new(&request, by)).unwrap();
                assert_eq!(
                    text == serde_json::to_string(&request).unwrap(),
                    by.is_none(),
                    "{text}"
                );
                let asked = StoredRequest::read(&text, None).unwrap();
                assert_eq!((&asked.request, asked.by.as_deref()), (&request, by), "{text}");
            }
        }
        assert!(StoredRequest::read("\"sleep\"", None).is_err());
    }
}
