//! Arguments of middleware hooks. [`RunInfo`], [`AgentStep`], [`ModelStep`] and [`ToolStep`]
//! describe the current step, and let a hook change it.

use std::fmt;
use std::sync::Arc;

use super::Place;
use crate::caller::Caller;
use crate::context::Context;
use crate::event::{RunId, Spending};
use crate::failure::Failure;
use crate::message::{Conversation, Part, ToolCall, ToolResult, ToolStatus};
use crate::model::{Model, ModelInfo, ModelRequest, Usage};
use crate::run::RunShared;
use crate::tool_definition::ToolDefinition;

/// The run that a hook is called for.
#[derive(Clone)]
pub struct RunInfo {
    name: Arc<str>,
    shared: Arc<RunShared>,
}

impl RunInfo {
    pub(crate) fn new(name: Arc<str>, shared: Arc<RunShared>) -> Self {
        Self { name, shared }
    }

    /// Id of the run.
    pub fn id(&self) -> &RunId {
        &self.shared.id
    }

    /// Name of the agent or workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Caller on whose behalf the run was started.
    pub fn caller(&self) -> Option<&Caller> {
        self.shared.own().and_then(|own| own.began.caller())
    }

    /// Returns the tokens that the run has spent on models so far, also before a restart: one row
    /// for each agent and model.
    pub fn spent(&self) -> Vec<Spending> {
        self.shared.log.spent(|ledger| ledger.rows().to_vec())
    }
}

impl fmt::Debug for RunInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunInfo").field("id", self.id()).field("name", &self.name).finish()
    }
}

/// An agent that is about to start or has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentStep {
    /// Conversation with which the agent starts, including the instructions.
    pub conversation: Conversation,
    pub(crate) agent: Arc<str>,
    pub(crate) cx: Context,
}

impl AgentStep {
    /// Name of the agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Context of the agent: the run, the path, the clock, the resources.
    pub fn context(&self) -> &Context {
        &self.cx
    }
}

/// A model call that is about to be made or was made. Each attempt has a separate `ModelStep`.
#[non_exhaustive]
pub struct ModelStep {
    /// The request to the model.
    pub request: ModelRequest,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) agent: Arc<str>,
    pub(crate) cx: Context,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) typed: bool,
    pub(crate) notes: Vec<(String, String)>,
    /// Reservations of the call in budgets.
    pub(crate) places: Vec<Place>,
}

/// A failed attempt at a model call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Model that was called.
    pub info: ModelInfo,
    /// Error of the attempt.
    pub error: Arc<Failure>,
}

/// Bytes per token in an estimate: slightly less than in English text, since a low estimate would
/// admit too many calls.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens of an image or a file in an estimate.
const MEDIA_TOKENS: u64 = 1_500;
/// Tokens of a response in an estimate, if the request sets no limit and the run has seen no longer
/// response.
const ANSWER_TOKENS: u64 = 4_096;

impl ModelStep {
    /// Name of the agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Context of the call: the run, the path, the clock, the resources.
    pub fn context(&self) -> &Context {
        &self.cx
    }

    /// The model that is called.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// Provider and name of the model.
    pub fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    /// Replaces the model, in this attempt and the following ones.
    pub fn set_model(&mut self, model: Arc<dyn Model>) {
        self.model = model;
    }

    /// Failed attempts at this call, including attempts in an earlier process.
    pub fn failed(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Returns `true` if the answer must match an output type.
    pub fn is_typed(&self) -> bool {
        self.typed
    }

    /// Returns the tokens that the run has spent on models so far, also before a restart: one row
    /// for each agent and model.
    pub fn spent(&self) -> Vec<Spending> {
        self.cx.run().log.spent(|ledger| ledger.rows().to_vec())
    }

    /// Returns the minimum cost of the running calls of the run and of this call. The minimum is
    /// known because an agent's next call contains the input and output of its previous call. One
    /// row for each call.
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

    /// Returns the expected cost of this call. The input is estimated from the length of the
    /// conversation and the tools. The output is the limit in the settings, otherwise the longest
    /// response of the run, and at least 4,096 tokens.
    pub(super) fn estimate(&self) -> Spending {
        let base = self.cx.path().parent().unwrap_or_else(crate::path::StepPath::root);
        let (least, seen) =
            self.cx.run().log.spent(|ledger| (ledger.least(&base), ledger.longest_answer()));
        let ModelInfo { provider, model } = self.info().clone();
        let output = match self.request.settings.max_tokens {
            Some(most) => u64::from(most),
            None => seen.max(ANSWER_TOKENS),
        };
        // The next call contains at least the input and output of the previous call, whose tokens
        // are known.
        let usage = Usage::new(tokens_of(&self.request).max(least.input_tokens), output);
        Spending { agent: Arc::clone(&self.agent), provider, model, calls: 1, usage }
    }

    /// Returns the tokens that this agent has spent, and the minimum input tokens of this call.
    pub(super) fn own_tokens(&self) -> (u64, u64) {
        let base = self.cx.path().parent().unwrap_or_else(crate::path::StepPath::root);
        self.cx
            .run()
            .log
            .spent(|ledger| (ledger.tokens_of(&base), ledger.least(&base).input_tokens))
    }

    /// Returns a note that a hook before this call has set.
    pub fn note(&self, key: &str) -> Option<&str> {
        self.notes.iter().rev().find(|(of, _)| of == key).map(|(_, note)| note.as_str())
    }

    /// Sets a note for the hooks after this call. Use the name of the middleware as the key.
    pub fn set_note(&mut self, key: impl Into<String>, note: impl Into<String>) {
        self.notes.push((key.into(), note.into()));
    }
}

/// Estimates the input tokens of a request.
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
        + tools
            .map(|tool| tool.name.len() + tool.description.len() + of_schema(&tool.parameters))
            .sum::<usize>()
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

/// A tool call that is about to be made or was made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolStep {
    /// Arguments that the tool receives. The id and the name of the call cannot be changed.
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

    /// Name of the calling agent; `None` for a call by a workflow step or by the program.
    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// Context of the call: the run, the path, the clock, the resources.
    pub fn context(&self) -> &Context {
        &self.cx
    }

    /// The tool call, with the arguments of the caller.
    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Definition of the tool; `None` if no tool has this name.
    pub fn definition(&self) -> Option<&ToolDefinition> {
        self.definition.as_deref()
    }

    /// Creates a result of this call. `output` is JSON text on success, otherwise a description of
    /// the failure.
    pub fn result(&self, status: ToolStatus, output: impl Into<String>) -> ToolResult {
        ToolResult::new(&self.call, status, output)
    }
}
