//! `AccessAction`: the actions that access control distinguishes.

use std::fmt;

use serde::Serialize;

/// An action that an [`AccessControl`](crate::access::AccessControl) allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AccessAction {
    /// Starts or queues a run.
    Start,
    /// Reads the record, the events, the state, the artifacts or the questions of a run. Also
    /// decides whether a list contains the run. Every other action on a run needs it, too.
    Read,
    /// Pauses a run.
    Pause,
    /// Continues a paused run.
    Unpause,
    /// Cancels a run.
    Cancel,
    /// Closes a live run.
    Close,
    /// Sends a message to a run.
    Message,
    /// Retries a failed node.
    Retry,
    /// Answers a question or an approval.
    Answer,
    /// Resumes a run whose process ended.
    Resume,
    /// Deletes a run.
    Delete,
    /// Calls a registered tool directly, outside of a run.
    CallTool,
    /// Reads the record, the history, the state or the artifacts of a session. Also decides whether a
    /// list contains the session. Every other action on a session needs it, too.
    ReadSession,
    /// Starts a run in a session that exists.
    ContinueSession,
    /// Deletes a session with its runs.
    DeleteSession,
    /// Reads the memories of a user.
    ReadMemory,
    /// Saves or deletes memories of a user.
    ChangeMemory,
    /// Reads a stored document and its versions. Also decides whether a list contains the
    /// document.
    ReadDocument,
    /// Saves, checks or removes a stored document. Needs [`ReadDocument`](Self::ReadDocument), too.
    WriteDocument,
}

impl AccessAction {
    /// Returns the action as words before the name of a thing, such as `cancel` or
    /// `delete the session`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Read => "read",
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Cancel => "cancel",
            Self::Close => "close",
            Self::Message => "message",
            Self::Retry => "retry",
            Self::Answer => "answer",
            Self::Resume => "resume",
            Self::Delete => "delete",
            Self::CallTool => "call",
            Self::ReadSession => "read the session",
            Self::ContinueSession => "continue the session",
            Self::DeleteSession => "delete the session",
            Self::ReadMemory => "read the memories of",
            Self::ChangeMemory => "change the memories of",
            Self::ReadDocument => "read the document",
            Self::WriteDocument => "write the document",
        }
    }
}

impl fmt::Display for AccessAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
