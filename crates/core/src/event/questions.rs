//! Payloads of questions to people: `ApprovalRequest`, and `ToolWaiting` for a tool call that asks
//! during its execution. The answers are not part of this module.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::on_timeout::OnTimeout;
use crate::value::Encoded;

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// Distinguishes this question from other questions at the same path: eight hexadecimal digits.
    /// A retried step asks a new question with a new id. For journals of older releases, which have
    /// no ids, it is derived from the sequence number of the event. The path, an `@` and this id
    /// form the [id](crate::runtime::OpenQuestion::id) that an answer refers to.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub id: Arc<str>,
    /// Kind of the question, such as `mcp.elicitation`, or empty. See
    /// [`UserQuestion::kind`](crate::tool::UserQuestion::kind).
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub kind: Arc<str>,
    /// The question, for a person to read.
    pub message: String,
    /// The data that the question is about. For a gate, the payload of the gate. For a node that
    /// requires an approval, an object with the values that the node reads, by the names of the
    /// nodes that produced them.
    pub payload: Encoded,
    /// JSON Schema of the answer.
    pub answer: Encoded,
    /// Time limit for the answer, in milliseconds. Without it, the run waits forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Action when the time limit is reached without an answer.
    #[serde(default, skip_serializing_if = "OnTimeout::is_default")]
    pub on_timeout: OnTimeout,
    /// Roles that allow a caller to answer. If this and `allowed_users` are empty, every caller with
    /// [`AccessAction::Answer`](crate::access::AccessAction::Answer) may answer. Both fields have the values
    /// of the [policy](crate::workflow::NodePolicy::allowed_roles) of the node that asks.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_roles: BTreeSet<Arc<str>>,
    /// Names of callers that may answer; see `allowed_roles`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_users: BTreeSet<Arc<str>>,
}

impl ApprovalRequest {
    /// Creates a question without a time limit and without an id.
    pub(crate) fn new(message: String, payload: Encoded, answer: Encoded) -> Self {
        Self {
            id: "".into(),
            kind: "".into(),
            message,
            payload,
            answer,
            timeout_ms: None,
            on_timeout: OnTimeout::Fail,
            allowed_roles: BTreeSet::new(),
            allowed_users: BTreeSet::new(),
        }
    }

    /// Sets the roles and users that may answer.
    pub(crate) fn for_callers(
        mut self,
        roles: &BTreeSet<Arc<str>>,
        users: &BTreeSet<Arc<str>>,
    ) -> Self {
        (self.allowed_roles, self.allowed_users) = (roles.clone(), users.clone());
        self
    }

    /// Returns `true` if the roles and users of the question allow a caller to answer it.
    pub fn may_be_answered_by(&self, caller: &Caller) -> bool {
        caller.is_one_of(&self.allowed_roles, &self.allowed_users)
    }

    /// Sets the id from the upper 32 bits of a random number.
    pub(crate) fn with_random_id(mut self, random: u64) -> Self {
        self.id = format!("{:08x}", random >> 32).into();
        self
    }

    /// Sets the id from the sequence number of the event, if the question has none. Used for
    /// journals of older releases.
    pub(crate) fn set_id_from_seq(&mut self, seq: u64) {
        if self.id.is_empty() {
            self.id = format!("{:08x}", seq & u64::from(u32::MAX)).into();
        }
    }

    /// Returns the id that [`RunRef::answer`](crate::runtime::RunRef::answer) accepts for this question.
    /// `path` is the path of the event.
    pub fn id_at(&self, path: &impl std::fmt::Display) -> String {
        match self.id.is_empty() {
            true => path.to_string(),
            false => format!("{path}@{}", self.id),
        }
    }

    /// Sets the time limit and the action at its end, if a time limit is given.
    pub(crate) fn within(mut self, timeout_ms: Option<u64>, on_timeout: &OnTimeout) -> Self {
        if timeout_ms.is_some() {
            (self.timeout_ms, self.on_timeout) = (timeout_ms, on_timeout.clone());
        }
        self
    }

    /// Returns the time limit for the answer.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// Splits the name of a question into its path and its id, if it has one: `review` or
/// `review@3f2a91c0`.
pub fn split_question_id(name: &str) -> (&str, Option<&str>) {
    let is_id = |id: &str| {
        id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    match name.rsplit_once('@') {
        Some((path, id)) if is_id(id) => (path, Some(id)),
        _ => (name, None),
    }
}

/// The questions that a tool asks during its call, and the state that it needs to continue with the
/// answers.
///
/// Each question has its own path, such as `tool#1.book/ask#1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolWaiting {
    /// State that the tool needs to continue. A redactor does not change it, because the call could
    /// not continue otherwise.
    pub state: Encoded,
    /// The questions.
    pub questions: Vec<ApprovalRequest>,
    /// Number of questions that the call asked before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ToolWaiting {
    pub(crate) fn new(state: Encoded, questions: Vec<ApprovalRequest>, asked: u32) -> Self {
        Self { state, questions, asked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_and_may_say_which_asking() {
        assert_eq!(split_question_id("review"), ("review", None));
        assert_eq!(split_question_id("a/review[2]@3f2a91c0"), ("a/review[2]", Some("3f2a91c0")));
        for path in [
            "tool#1.mail@example.org",
            "review@3F2A91C0",
            "review@3f2a91c",
            "review@3f2a91c00",
            "@",
        ] {
            assert_eq!(split_question_id(path), (path, None));
        }
        let mut question = ApprovalRequest::new("?".into(), Encoded::null(), Encoded::null());
        assert_eq!(question.id_at(&"review"), "review");
        question.set_id_from_seq(12);
        assert_eq!(question.id_at(&"review"), "review@0000000c");
        // An existing id is not replaced.
        let mut question = question.with_random_id(u64::MAX);
        question.set_id_from_seq(13);
        assert_eq!(split_question_id(&question.id_at(&"review")), ("review", Some("ffffffff")));
    }
}
