//! What a run records of the session that it is one of. It reads no history and decides no order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RunId;
use crate::artifact::ArtifactRef;

/// Where a run stands in its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionPlace {
    /// The session's id.
    pub session: Arc<str>,
    /// Its number among the runs of the session, from 1 and without gaps.
    pub number: u64,
    /// The completed run whose history it continues; `None` at the beginning of a history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<RunId>,
}

impl SessionPlace {
    /// The place of a run in a session.
    pub fn new(session: impl Into<Arc<str>>, number: u64, after: Option<RunId>) -> Self {
        Self { session: session.into(), number, after }
    }
}

/// An artifact that a run of a session saved, as later runs of it find it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionArtifact {
    /// The run that saved it, and whose bytes they are.
    pub run: RunId,
    /// What the record of that run holds of it. Its version is the next one of its name in the history.
    #[serde(flatten)]
    pub artifact: ArtifactRef,
}

impl SessionArtifact {
    pub(crate) fn new(run: RunId, artifact: ArtifactRef) -> Self {
        Self { run, artifact }
    }
}

/// How much of a session's history a model is given, beside what a run itself adds.
///
/// The newest runs are taken, while they fit. Of one that does not fit as a whole the model sees its question and
/// its answer, without the turns between them, and of a longer question or answer the beginning: a quarter of the window.
/// Tokens are estimated: four bytes of JSON each.
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
    /// The most runs. Default: 20.
    pub runs: u32,
    /// The most tokens of all of them together. Default: 16,000.
    pub tokens: u32,
    /// The most tokens of one tool's result; the rest of a longer one is left out. Default: 1,000.
    pub tool_tokens: u32,
}

impl Default for SessionWindow {
    fn default() -> Self {
        Self { runs: 20, tokens: 16_000, tool_tokens: 1_000 }
    }
}

impl SessionWindow {
    /// At most so many runs; 0 for no history.
    #[must_use]
    pub fn runs(mut self, runs: u32) -> Self {
        self.runs = runs;
        self
    }

    /// At most so many tokens of all runs together.
    #[must_use]
    pub fn tokens(mut self, tokens: u32) -> Self {
        self.tokens = tokens;
        self
    }

    /// At most so many tokens of one tool's result.
    #[must_use]
    pub fn tool_tokens(mut self, tokens: u32) -> Self {
        self.tool_tokens = tokens;
        self
    }
}

/// What becomes of the runs of a session that its [`SessionWindow`] has no room for: a model sums them up, and the summary
/// stands in front of the newer runs. Given to a request with [`Session::summarized`](crate::session::Session::summarized).
///
/// A run that begins in a session with more than fits sums up first, before it asks its own model: the newest half of the
/// window stays as it is, what is older becomes the summary, together with the summary before it. So a summary is made
/// once in many runs. It is recorded in the run, as the agent `session_summary` below the path `summary` and as
/// [`SessionSummarized`](crate::event::EventKind::SessionSummarized): it is made once, also across a crash, it counts
/// against the budgets and the model calls of the run, and later runs read it. When its model fails, the run
/// continues with what fits, and the next run tries again.
///
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
    /// The model by its name. Default: that of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// The most tokens of a summary, four bytes each; what is beyond is cut. They count against the window, and are a
    /// quarter of it at most. Default: 500.
    pub tokens: u32,
    /// What the model is instructed to do, in place of our own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
}

impl Default for Summary {
    fn default() -> Self {
        Self { model: None, tokens: 500, instructions: None }
    }
}

impl Summary {
    /// The model that sums up, by its name, such as one that costs less than the agent's.
    #[must_use]
    pub fn model(mut self, name: impl Into<Arc<str>>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// At most so many tokens.
    #[must_use]
    pub fn tokens(mut self, tokens: u32) -> Self {
        self.tokens = tokens;
        self
    }

    /// What the model is instructed to do, say which facts to keep. It is given what was said as the user's message.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }
}

/// The runs of a session that a run did not fit beside were summed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionSummarized {
    /// The newest run that the summary covers; all before it are covered as well.
    pub up_to: RunId,
    /// The summary; `None` when its model failed, so that the run did without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
}

impl SessionSummarized {
    pub(crate) fn new(up_to: RunId, text: Option<Arc<str>>) -> Self {
        Self { up_to, text }
    }
}
