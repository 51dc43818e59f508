//! What a run records of the session that it is one of. It reads no history and decides no order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RunId;

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
