//! What people are asked, as it is recorded: `ApprovalRequest`, and `ToolWaiting` for a call that asks in the middle. It says
//! nothing of the answers.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::on_timeout::OnTimeout;
use crate::value::Encoded;

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// What identifies this asking among all at its path: eight hexadecimal digits. A step that is retried asks again, which is
    /// another question. A journal that was written before there were such has them by the place of the event. Behind the path
    /// and an `@` it is the [id](crate::runtime::OpenQuestion::id) by which a question is answered.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub id: Arc<str>,
    /// The question, for a person to read.
    pub message: String,
    /// What it is about: the payload of a gate; of a node that needs an approval, an object with the values that it
    /// reads, by the names of their nodes.
    pub payload: Encoded,
    /// The JSON Schema of the answer.
    pub answer: Encoded,
    /// How long the answer is waited for, in milliseconds; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What happens when nobody has answered by then.
    #[serde(default, skip_serializing_if = "OnTimeout::is_default")]
    pub on_timeout: OnTimeout,
}

impl ApprovalRequest {
    /// A question that waits for ever.
    pub(crate) fn new(message: String, payload: Encoded, answer: Encoded) -> Self {
        Self { id: "".into(), message, payload, answer, timeout_ms: None, on_timeout: OnTimeout::Fail }
    }

    /// The same, asked now: with an id of its own, made of random bits.
    pub(crate) fn asked_as(mut self, random: u64) -> Self {
        self.id = format!("{:08x}", random >> 32).into();
        self
    }

    /// The same of a journal that has no ids of questions: with that of its place.
    pub(crate) fn asked_at_seq(&mut self, seq: u64) {
        if self.id.is_empty() {
            self.id = format!("{:08x}", seq & u64::from(u32::MAX)).into();
        }
    }

    /// Returns the id that [`Runtime::answer`](crate::Runtime::answer) takes for this question. `path` is the path of its
    /// event.
    pub fn id_at(&self, path: &impl std::fmt::Display) -> String {
        match self.id.is_empty() {
            true => path.to_string(),
            false => format!("{path}@{}", self.id),
        }
    }

    /// The same, waiting so long.
    pub(crate) fn within(mut self, timeout_ms: Option<u64>, on_timeout: &OnTimeout) -> Self {
        if timeout_ms.is_some() {
            (self.timeout_ms, self.on_timeout) = (timeout_ms, on_timeout.clone());
        }
        self
    }

    /// How long the answer is waited for.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// The path of what asks, and of its question the id where it is named: `review`, or one asking of it as `review@3f2a91c0`.
pub(crate) fn named_question(name: &str) -> (&str, Option<&str>) {
    let is_id = |id: &str| id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match name.rsplit_once('@') {
        Some((path, id)) if is_id(id) => (path, Some(id)),
        _ => (name, None),
    }
}

/// What a tool asks in the middle of its call, and what it needs to continue when everything is answered.
///
/// Each question is one of its own, at a path such as `tool#1.book/ask#1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolWaiting {
    /// What the tool needs to continue. A redactor leaves it as it is, since the call could not continue otherwise.
    pub state: Encoded,
    /// The questions.
    pub questions: Vec<ApprovalRequest>,
    /// How many questions the call had asked before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(any(feature = "mcp", feature = "a2a-client"))]
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
        assert_eq!(named_question("review"), ("review", None));
        assert_eq!(named_question("a/review[2]@3f2a91c0"), ("a/review[2]", Some("3f2a91c0")));
        for path in ["tool#1.mail@example.org", "review@3F2A91C0", "review@3f2a91c", "review@3f2a91c00", "@"] {
            assert_eq!(named_question(path), (path, None));
        }
        let mut question = ApprovalRequest::new("?".into(), Encoded::null(), Encoded::null());
        assert_eq!(question.id_at(&"review"), "review");
        question.asked_at_seq(12);
        assert_eq!(question.id_at(&"review"), "review@0000000c");
        // One that has an id keeps it.
        let mut question = question.asked_as(u64::MAX);
        question.asked_at_seq(13);
        assert_eq!(named_question(&question.id_at(&"review")), ("review", Some("ffffffff")));
    }
}
