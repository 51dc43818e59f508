//! The parts of a run's events that describe its session: position, artifacts, history window and
//! summary.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RunId;
use crate::artifact::ArtifactRef;

/// Position of a run in its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionPlace {
    /// Id of the session.
    pub session: Arc<str>,
    /// Number of the run within the session, from 1, without gaps.
    pub number: u64,
    /// The completed run whose history this run continues; `None` at the start of a history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<RunId>,
}

impl SessionPlace {
    /// Creates the position of a run in a session.
    pub fn new(session: impl Into<Arc<str>>, number: u64, after: Option<RunId>) -> Self {
        Self { session: session.into(), number, after }
    }
}

/// An artifact that an earlier run of the session saved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionArtifact {
    /// The run that saved the artifact and stores its bytes.
    pub run: RunId,
    /// The artifact as recorded by that run. Its version is the next version of its name in the
    /// history.
    #[serde(flatten)]
    pub artifact: ArtifactRef,
}

impl SessionArtifact {
    pub(crate) fn new(run: RunId, artifact: ArtifactRef) -> Self {
        Self { run, artifact }
    }
}

/// Limits on the part of a session's history that a model receives. Messages of the current run do
/// not count.
///
/// The newest runs are included as long as they fit. A run that does not fit completely is reduced
/// to its question and its answer, without the turns between them. A question or answer that is
/// still too long is cut to a quarter of the window. Tokens are estimated at four bytes of JSON per
/// token.
///
/// ```
/// use agentflow::session::SessionWindow;
///
/// let window = SessionWindow::default();
/// assert_eq!((window.runs, window.tokens, window.tool_tokens), (20, 16_000, 1_000));
/// let window = SessionWindow::default().runs(50).tokens(60_000).tool_tokens(4_000);
/// assert_eq!(window.runs, 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionWindow {
    /// Maximum number of runs. Default: 20.
    pub runs: u32,
    /// Maximum number of tokens of all runs together. Default: 16,000.
    pub tokens: u32,
    /// Maximum number of tokens per tool result. Longer results are truncated. Default: 1,000.
    pub tool_tokens: u32,
}

impl Default for SessionWindow {
    fn default() -> Self {
        Self { runs: 20, tokens: 16_000, tool_tokens: 1_000 }
    }
}

impl SessionWindow {
    /// Sets the maximum number of runs. 0 disables the history.
    #[must_use]
    pub fn runs(mut self, runs: u32) -> Self {
        self.runs = runs;
        self
    }

    /// Sets the maximum number of tokens of all runs together.
    #[must_use]
    pub fn tokens(mut self, tokens: u32) -> Self {
        self.tokens = tokens;
        self
    }

    /// Sets the maximum number of tokens per tool result.
    #[must_use]
    pub fn tool_tokens(mut self, tokens: u32) -> Self {
        self.tool_tokens = tokens;
        self
    }
}

/// Settings for summarizing the runs of a session that do not fit into its [`SessionWindow`]. A
/// model writes the summary, which precedes the newer runs in the history. Enable it with
/// [`Session::summarized`](crate::session::Session::summarized).
///
/// When the history does not fit, a starting run creates the summary before its first model call.
/// The newest half of the window stays unchanged. The older runs are summarized together with the
/// previous summary, so many runs share one summary.
///
/// The summary is recorded in the run, as the agent `session_summary` below the path `summary` and
/// as the event [`SessionSummarized`](crate::event::EventKind::SessionSummarized). It is created
/// once, also across a crash, and later runs reuse it. It counts against the budgets and the model
/// calls of the run. If its model fails, the run continues with the runs that fit, and the next run
/// tries again.
/// ```
/// use agentflow::session::{Session, Summary};
///
/// let summary = Summary::default().model("openai/gpt-5-nano").tokens(300);
/// let session = Session::from("ada-1").summarized(summary);
/// # let _ = session;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Name of the model that writes the summary. Default: the model of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Maximum number of tokens of a summary, at four bytes each; a longer summary is cut. These
    /// tokens count against the window and are limited to a quarter of it. Default: 500.
    pub tokens: u32,
    /// Instructions for the model, replacing the default instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
}

impl Default for Summary {
    fn default() -> Self {
        Self { model: None, tokens: 500, instructions: None }
    }
}

impl Summary {
    /// Sets the model that writes the summary, by its name. It can be a cheaper model than the
    /// agent's.
    #[must_use]
    pub fn model(mut self, name: impl Into<Arc<str>>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the maximum number of tokens of a summary.
    #[must_use]
    pub fn tokens(mut self, tokens: u32) -> Self {
        self.tokens = tokens;
        self
    }

    /// Sets the instructions for the model, such as which facts to keep. The model receives the
    /// history as the user message.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }
}

/// A summary of the older runs of a session, which did not fit into the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionSummarized {
    /// The newest run that the summary covers. It also covers all earlier runs.
    pub up_to: RunId,
    /// The summary; `None` if its model failed and the run continued without a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
}

impl SessionSummarized {
    pub(crate) fn new(up_to: RunId, text: Option<Arc<str>>) -> Self {
        Self { up_to, text }
    }
}
