//! The arguments of middleware hooks: `AgentStep`, `ModelStep` and `ToolStep` say which step it is and let a hook
//! change it.

use std::fmt;
use std::sync::Arc;

use super::Place;
use crate::context::Context;
use crate::event::{RunId, Spending};
use crate::failure::Failure;
use crate::message::{Conversation, Part, ToolCall, ToolResult, ToolStatus};
use crate::model::{Model, ModelInfo, ModelRequest, Usage};
use crate::run::RunShared;
use crate::tool_definition::ToolDefinition;

/// Which run a hook is about.
#[derive(Clone)]
pub struct RunInfo {
    name: Arc<str>,
    shared: Arc<RunShared>,
}

impl RunInfo {
    pub(crate) fn new(name: Arc<str>, shared: Arc<RunShared>) -> Self {
        Self { name, shared }
    }

    /// The run.
    pub fn id(&self) -> &RunId {
        &self.shared.id
    }

    /// The name of its agent or workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the run has spent on models so far, in all its lives: one row for each agent and model.
    pub fn spent(&self) -> Vec<Spending> {
        self.shared.log.spent(|ledger| ledger.rows().to_vec())
    }
}

impl fmt::Debug for RunInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunInfo").field("id", self.id()).field("name", &self.name).finish()
    }
}

/// An agent that is about to begin, or has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentStep {
    /// What it begins with, instructions included.
    pub conversation: Conversation,
    pub(crate) agent: Arc<str>,
    pub(crate) cx: Context,
}

impl AgentStep {
    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The run, the path in it, the clock, the resources.
    pub fn context(&self) -> &Context {
        &self.cx
    }
}

/// A model call that is about to be made, or was made. Each attempt has one of its own.
#[non_exhaustive]
pub struct ModelStep {
    /// What is sent.
    pub request: ModelRequest,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) agent: Arc<str>,
    pub(crate) cx: Context,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) typed: bool,
    pub(crate) notes: Vec<(String, String)>,
    /// What the call holds in budgets.
    pub(crate) places: Vec<Place>,
}

/// An attempt at a model call that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The model that was asked.
    pub info: ModelInfo,
    /// Why it failed.
    pub error: Arc<Failure>,
}

/// The bytes that a token stands for, when nothing is known: a little less than of English text, since an estimate that
/// is too low lets too many calls through.
const BYTES_PER_TOKEN: u64 = 3;
/// The tokens of an image or a file, when nothing is known.
const MEDIA_TOKENS: u64 = 1_500;
/// The tokens of an answer whose request names no limit, until the run has seen a larger one.
const ANSWER_TOKENS: u64 = 4_096;

impl ModelStep {
    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The run, the path in it, the clock, the resources.
    pub fn context(&self) -> &Context {
        &self.cx
    }

    /// The model that is asked.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// Who the model is.
    pub fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    /// Has another model asked, in this attempt and those after it.
    pub fn set_model(&mut self, model: Arc<dyn Model>) {
        self.model = model;
    }

    /// The attempts at this call that failed before, those of an earlier process included.
    pub fn failed(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Whether the answer must have the shape of a type.
    pub fn is_typed(&self) -> bool {
        self.typed
    }

    /// What the run has spent on models so far, in all its lives: one row for each agent and model.
    pub fn spent(&self) -> Vec<Spending> {
        self.cx.run().log.spent(|ledger| ledger.rows().to_vec())
    }

    /// What the calls in progress in the run, and this one, will cost at least: what each agent's last call read
    /// and wrote is read again by its next one. One row for each call.
    pub fn at_least(&self) -> Vec<Spending> {
        let base = self.cx.path().parent().unwrap_or_else(crate::path::StepPath::root);
        let ModelInfo { provider, model } = self.info().clone();
        let agent = Arc::clone(&self.agent);
        self.cx.run().log.spent(|ledger| {
            let mut rows = ledger.open_calls();
            rows.push(Spending { agent, provider, model, calls: 1, usage: ledger.least(&base) });
            rows
        })
    }

    /// What this call is expected to cost: its conversation and tools by their length, and the longest answer that it
    /// may get by its settings, else the longest that the run has seen, of at least 4,096 tokens.
    pub(super) fn estimate(&self) -> Spending {
        let base = self.cx.path().parent().unwrap_or_else(crate::path::StepPath::root);
        let (least, seen) = self.cx.run().log.spent(|ledger| (ledger.least(&base), ledger.longest_answer()));
        let ModelInfo { provider, model } = self.info().clone();
        let output = match self.request.settings.max_tokens {
            Some(most) => u64::from(most),
            None => seen.max(ANSWER_TOKENS),
        };
        let usage = Usage::new(tokens_of(&self.request).max(least.input_tokens), output);
        Spending { agent: Arc::clone(&self.agent), provider, model, calls: 1, usage }
    }

    /// The tokens that this agent alone has spent, and those that this call will cost it at least.
    pub(super) fn own_tokens(&self) -> (u64, u64) {
        let base = self.cx.path().parent().unwrap_or_else(crate::path::StepPath::root);
        self.cx.run().log.spent(|ledger| (ledger.tokens_of(&base), ledger.least(&base).input_tokens))
    }

    /// What a hook before this call noted for the hooks after it.
    pub fn note(&self, key: &str) -> Option<&str> {
        self.notes.iter().rev().find(|(of, _)| of == key).map(|(_, note)| note.as_str())
    }

    /// Notes something for the hooks after this call. Give the key the name of the middleware.
    pub fn set_note(&mut self, key: impl Into<String>, note: impl Into<String>) {
        self.notes.push((key.into(), note.into()));
    }
}

/// About how many tokens a model reads of a request.
fn tokens_of(request: &ModelRequest) -> u64 {
    let parts = request.messages.messages().iter().flat_map(|message| message.parts());
    let of_part = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Reasoning(reasoning) => reasoning.text.len(),
        Part::ToolCall(call) => call.name.len() + call.arguments.len(),
        Part::ToolResult(result) => result.output.len(),
        Part::Media(_) => usize::try_from(MEDIA_TOKENS * BYTES_PER_TOKEN).unwrap_or(usize::MAX),
    };
    let tools = request.tools.definitions().iter();
    let of_schema = |schema: &serde_json::Value| schema.to_string().len();
    let bytes = parts.map(of_part).sum::<usize>()
        + tools.map(|tool| tool.name.len() + tool.description.len() + of_schema(&tool.parameters)).sum::<usize>()
        + request.output.as_ref().map_or(0, |output| of_schema(&output.schema));
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}

impl fmt::Debug for ModelStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStep")
            .field("agent", &self.agent)
            .field("model", self.info())
            .field("cx", &self.cx)
            .field("failed", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// A tool call that is about to be made, or was made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolStep {
    /// What the tool is called with. Id and name stay those of the tool call.
    pub arguments: String,
    pub(crate) call: Arc<ToolCall>,
    pub(crate) definition: Option<Arc<ToolDefinition>>,
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) cx: Context,
}

impl ToolStep {
    pub(crate) fn new(
        call: Arc<ToolCall>,
        definition: Option<Arc<ToolDefinition>>,
        agent: Option<Arc<str>>,
        cx: Context,
    ) -> Self {
        Self { arguments: call.arguments.clone(), call, definition, agent, cx }
    }

    /// The name of the agent that calls; `None` when a workflow's step or the program itself does.
    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// The run, the path in it, the clock, the resources.
    pub fn context(&self) -> &Context {
        &self.cx
    }

    /// The tool call.
    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    /// The tool; `None` when no tool has the name, such as one that a model was not offered.
    pub fn definition(&self) -> Option<&ToolDefinition> {
        self.definition.as_deref()
    }

    /// A result of this call: JSON text on success, otherwise a sentence that says what failed.
    pub fn result(&self, status: ToolStatus, output: impl Into<String>) -> ToolResult {
        ToolResult::new(&self.call, status, output)
    }
}
