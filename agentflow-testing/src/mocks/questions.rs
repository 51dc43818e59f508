//! Defines `ExpectedQuestion`, an expected question to a person with its answer.

use std::fmt;
use std::time::Duration;

use agentflow::Approval;
use agentflow::event::ApprovalRequest;
use agentflow::path::StepPath;
use serde::Serialize;
use serde_json::Value;

use super::calls::{contains, json_of};
use super::ready::{Ready, Way};

/// An expected question to a person with its answer. The question comes from a gate, from a node
/// with an approval, or from a tool that needs one. It is expected once. The default answer is
/// [granted](Approval::granted).
///
/// ```
/// use agentflow::Approval;
/// use agentflow::prelude::*;
/// use agentflow_testing::{Mocks, ExpectedQuestion};
///
/// #[workflow]
/// async fn publish(text: String) -> Result<String> {
///     let approval = gate!("publish?", text).await?;
///     let published = match approval {
///         Approval::Granted { .. } => text,
///         Approval::Denied { comment } => comment.unwrap_or_default(),
///     };
///     Ok(published)
/// }
///
/// # async fn story() -> Result<()> {
/// let mocks = Mocks::new().person([ExpectedQuestion::at("approval").about("a draft").answers(Approval::denied("too short"))]);
/// assert_eq!(publish::workflow().run(&mocks.runtime().build(), "a draft".to_owned()).await?, "too short");
/// mocks.finish();
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(story()).unwrap();
/// ```
#[must_use = "a question is expected when mocks have it"]
#[derive(Clone, Debug)]
pub struct ExpectedQuestion {
    /// Path of the question, or the name of the tool.
    path: String,
    tool: bool,
    text: Option<String>,
    payload: Option<Value>,
    ready: Ready,
}

impl ExpectedQuestion {
    /// Expects a question at a path, such as `approval` or `pay/tool#1.refund`.
    pub fn at(path: impl Into<String>) -> Self {
        let granted = json_of(&Approval::granted());
        Self {
            path: path.into(),
            tool: false,
            text: None,
            payload: None,
            ready: Ready::new(Way::Value(granted)),
        }
    }

    /// Expects a question about a call to this tool, or a question that this tool asks itself, such
    /// as [`ask_user`](agentflow::ask_user()). The path of the call does not matter.
    pub fn of_tool(name: impl Into<String>) -> Self {
        Self { tool: true, ..Self::at(name) }
    }

    /// Requires that the text of the question contains this text.
    pub fn asking(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Requires this payload. An object may have additional fields.
    ///
    /// # Panics
    /// If the value cannot be serialized to JSON.
    #[track_caller]
    pub fn about(mut self, payload: impl Serialize) -> Self {
        self.payload = Some(json_of(&payload));
        self
    }

    /// Sets the answer: an [`Approval`], or a value of the type that the gate asks for.
    ///
    /// # Panics
    /// If the value cannot be serialized to JSON.
    #[track_caller]
    pub fn answers(mut self, answer: impl Serialize) -> Self {
        self.ready.way = Way::Value(json_of(&answer));
        self
    }

    /// Denies the request with this comment.
    pub fn denies(self, comment: impl Into<String>) -> Self {
        self.answers(Approval::denied(comment))
    }

    /// Leaves the question unanswered, so that its time-out expires or the run waits.
    pub fn stays_open(mut self) -> Self {
        self.ready.stays = true;
        self
    }

    /// Delays the answer, in tokio's time.
    pub fn after(mut self, delay: Duration) -> Self {
        self.ready.delay = delay;
        self
    }

    pub(super) fn is_of(&self, path: &StepPath, question: &ApprovalRequest) -> bool {
        let payload = || question.payload.decode::<Value>().unwrap_or_default();
        let (path, of) = (path.to_string(), &self.path);
        let is_of_tool = || {
            let call = path.rsplit('/').next().unwrap_or_default();
            let name = call.strip_prefix("tool#").and_then(|call| call.split_once('.'));
            // An index such as `[2]` may follow the name of the tool.
            name.is_some_and(|(_, name)| name.split('[').next() == Some(of.as_str()))
        };
        (if self.tool { is_of_tool() } else { path == *of })
            && self.text.as_ref().is_none_or(|text| question.message.contains(text))
            && self.payload.as_ref().is_none_or(|part| contains(&payload(), part))
    }

    pub(super) fn into_ready(self) -> Ready {
        self.ready
    }
}

/// Describes the question in failures: `at `approval`, asking "publish?"`.
impl fmt::Display for ExpectedQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", if self.tool { "about the tool" } else { "at" }, self.path)?;
        if let Some(text) = &self.text {
            write!(f, ", asking {text:?}")?;
        }
        match &self.payload {
            Some(payload) => write!(f, ", about {payload}"),
            None => Ok(()),
        }
    }
}
