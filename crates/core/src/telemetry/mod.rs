//! `tracing` spans with the names of OpenTelemetry's GenAI conventions.
//!
//! The names come from the repository `semantic-conventions-genai`, status "Development", as of
//! 2026-05-05, when they moved there. Nothing is formatted unless a subscriber is interested in the
//! span. Contents of messages and tool calls are only recorded if the host enabled it with
//! `RuntimeBuilder::trace_content`.
//!
//! Integers are recorded as `i64`, since `tracing-opentelemetry` exports only this type as a
//! number. `tracing` has no lists: a list with one value is recorded as that value, any other list
//! as its JSON text.

mod content;
#[cfg(feature = "metrics")]
mod metrics;

use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

#[cfg(feature = "metrics")]
pub use self::metrics::MetricsSink;
use crate::caller::Caller;
use crate::error::Error;
use crate::event::AgentCompleted;
use crate::message::{ToolCall, ToolResult};
use crate::model::{ModelError, ModelInfo, ModelRequest, ModelResponse, Usage, telemetry_name};
use crate::path::StepPath;
use crate::run::RunShared;
use crate::tool_definition::ToolDefinition;

/// Creates the span of an agent, which is a run or a step of a run.
pub(crate) fn agent_span(agent: &str, run: &RunShared, info: &ModelInfo) -> Span {
    if !run.is_traced() {
        return Span::none();
    }
    let span = tracing::info_span!(
        "invoke_agent",
        // `tracing` ignores values of fields that are not declared here.
        otel.name = format_args!("invoke_agent {agent}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = telemetry_name(&info.provider),
        gen_ai.request.model = &*info.model,
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = Empty,
        user.id = Empty,
        user.roles = Empty,
        agentflow.run.id = Empty,
        agentflow.tags = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
    );
    record_run(&span, run);
    span
}

/// Records the attributes that connect spans: the session as the conversation, or the run if it has
/// no session; the caller; the run and its tags. A redactor of the runtime also applies to tags.
fn record_run(span: &Span, run: &RunShared) {
    if span.is_disabled() {
        return;
    }
    let began = run.own().map(|own| &own.began);
    let session = began.and_then(|began| began.session());
    span.record("gen_ai.conversation.id", session.unwrap_or(run.id.as_str()));
    span.record("agentflow.run.id", run.id.as_str());
    let Some(began) = began else { return };
    if let Some(caller) = began.caller() {
        span.record("user.id", caller.name());
        if !caller.roles().is_empty() {
            span.record("user.roles", roles_text(caller));
        }
    }
    if !began.tags().is_empty() {
        span.record("agentflow.tags", run.host.redacted(content::json(began.tags())));
    }
}

/// Returns the roles of a caller in the form of a list.
fn roles_text(caller: &Caller) -> String {
    match caller.roles().iter().collect::<Vec<_>>().as_slice() {
        [role] => (***role).to_owned(),
        roles => content::json(roles),
    }
}

/// Records the outcome of an agent.
pub(crate) fn record_agent(span: &Span, ended: Result<&AgentCompleted, &Error>) {
    if span.is_disabled() {
        return;
    }
    match ended {
        Ok(completed) => {
            span.record("gen_ai.response.finish_reasons", completed.stop_reason.as_str());
            record_usage(span, &completed.usage);
        }
        Err(error) => record_failure(span, error),
    }
}

/// Creates the span of a workflow, which is a run or a step of a run.
pub(crate) fn workflow_span(workflow: &str, run: &RunShared) -> Span {
    if !run.is_traced() {
        return Span::none();
    }
    let span = tracing::info_span!(
        "invoke_workflow",
        otel.name = format_args!("invoke_workflow {workflow}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "invoke_workflow",
        gen_ai.workflow.name = workflow,
        gen_ai.conversation.id = Empty,
        user.id = Empty,
        user.roles = Empty,
        agentflow.run.id = Empty,
        agentflow.tags = Empty,
    );
    record_run(&span, run);
    span
}

/// Creates the span of a workflow step that is a function of the program. The conventions have no
/// name for it.
pub(crate) fn step_span(step: &StepPath, run: &RunShared) -> Span {
    if !run.is_traced() || !tracing::enabled!(tracing::Level::INFO) {
        return Span::none();
    }
    let span = tracing::info_span!(
        "execute_step",
        otel.name = format_args!("execute_step {step}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        agentflow.step = %step,
        gen_ai.conversation.id = Empty,
        user.id = Empty,
        user.roles = Empty,
        agentflow.run.id = Empty,
        agentflow.tags = Empty,
    );
    record_run(&span, run);
    span
}

/// Records the error of a workflow.
pub(crate) fn record_failure(span: &Span, error: &Error) {
    record_error(span, error.kind().as_str());
}

/// Creates the span of a model call. The adapter records the server in it.
pub(crate) fn chat_span(
    info: &ModelInfo,
    run: &RunShared,
    request: &ModelRequest,
    content: bool,
) -> Span {
    if !run.is_traced() {
        return Span::none();
    }
    let settings = &*request.settings;
    let span = tracing::info_span!(
        "chat",
        otel.name = format_args!("chat {}", info.model),
        otel.kind = "client",
        otel.status_code = Empty,
        error.type = Empty,
        server.address = Empty,
        server.port = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = telemetry_name(&info.provider),
        gen_ai.conversation.id = Empty,
        user.id = Empty,
        user.roles = Empty,
        agentflow.run.id = Empty,
        agentflow.tags = Empty,
        gen_ai.output.type = if request.output.is_some() { "json" } else { "text" },
        gen_ai.request.model = &*info.model,
        gen_ai.request.stream = request.stream,
        gen_ai.request.temperature = settings.temperature,
        gen_ai.request.top_p = settings.top_p,
        gen_ai.request.max_tokens = settings.max_tokens.map(i64::from),
        gen_ai.request.seed = settings.seed,
        gen_ai.request.stop_sequences = Empty,
        gen_ai.response.model = Empty,
        gen_ai.response.id = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.response.time_to_first_chunk = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        gen_ai.system_instructions = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        gen_ai.tool.definitions = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    record_run(&span, run);
    match settings.stop.as_slice() {
        [] => {}
        [one] => drop(span.record("gen_ai.request.stop_sequences", one.as_str())),
        many => drop(span.record("gen_ai.request.stop_sequences", content::json(many))),
    }
    if content {
        let (instructions, input) = content::input(&request.messages);
        if let Some(instructions) = instructions {
            span.record("gen_ai.system_instructions", instructions);
        }
        span.record("gen_ai.input.messages", input);
        if !request.tools.is_empty() {
            span.record("gen_ai.tool.definitions", content::tools(request.tools.definitions()));
        }
    }
    span
}

/// Records the time to the first piece of a response in the current span, which is the span of the
/// model call.
pub(crate) fn record_first_piece(waited: Duration) {
    Span::current().record("gen_ai.response.time_to_first_chunk", waited.as_secs_f64());
}

/// Records the outcome of a model call.
pub(crate) fn record_chat(span: &Span, ended: Result<&ModelResponse, &ModelError>, content: bool) {
    if span.is_disabled() {
        return;
    }
    match ended {
        Ok(response) => {
            for (name, value) in
                [("gen_ai.response.model", &response.model), ("gen_ai.response.id", &response.id)]
            {
                if !value.is_empty() {
                    span.record(name, value.as_str());
                }
            }
            span.record("gen_ai.response.finish_reasons", response.stop_reason.as_str());
            record_usage(span, &response.usage);
            if content {
                span.record("gen_ai.output.messages", content::output(response));
            }
        }
        Err(error) => record_error(span, error.kind().as_str()),
    }
}

/// Creates the span of a tool call.
pub(crate) fn tool_span(
    call: &ToolCall,
    definition: Option<&ToolDefinition>,
    run: &RunShared,
    content: bool,
) -> Span {
    if !run.is_traced() {
        return Span::none();
    }
    let span = tracing::info_span!(
        "execute_tool",
        otel.name = format_args!("execute_tool {}", call.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name.as_str(),
        gen_ai.tool.description = definition.map(|definition| &*definition.description),
        gen_ai.tool.call.id = call.id.as_str(),
        gen_ai.tool.r#type = "function",
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        agentflow.tool.output_size = Empty,
        gen_ai.conversation.id = Empty,
        user.id = Empty,
        user.roles = Empty,
        agentflow.run.id = Empty,
        agentflow.tags = Empty,
    );
    record_run(&span, run);
    if content {
        span.record("gen_ai.tool.call.arguments", call.arguments.as_str());
    }
    span
}

/// Creates the span of a step that is a call to a tool's function. Only the function sees the
/// arguments, so they are not recorded.
pub(crate) fn tool_span_of_step(
    definition: &ToolDefinition,
    run: &RunShared,
    id: impl FnOnce() -> String,
) -> Span {
    if !run.is_traced() || !tracing::enabled!(tracing::Level::INFO) {
        return Span::none();
    }
    tool_span(&ToolCall::new(id(), &*definition.name, ""), Some(definition), run, false)
}

/// Records the outcome of a tool call.
pub(crate) fn record_tool(span: &Span, result: &ToolResult, content: bool) {
    if span.is_disabled() {
        return;
    }
    if !result.status.is_success() {
        record_error(span, result.status.as_str());
    }
    record_output_size(span, result.output_size());
    if content {
        span.record("gen_ai.tool.call.result", result.output.as_str());
    }
}

/// Records the size of a tool's output, in bytes.
pub(crate) fn record_output_size(span: &Span, bytes: u64) {
    span.record("agentflow.tool.output_size", i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Records the error of a tool call.
pub(crate) fn record_failed(span: &Span, kind: &str) {
    record_error(span, kind);
}

fn record_error(span: &Span, kind: &str) {
    span.record("otel.status_code", "error");
    span.record("error.type", kind);
}

fn record_usage(span: &Span, usage: &Usage) {
    let count = |name: &str, tokens: Option<u64>| {
        if let Some(tokens) = tokens {
            span.record(name, i64::try_from(tokens).unwrap_or(i64::MAX));
        }
    };
    // Zero tokens mean that the provider did not report them.
    if usage.input_tokens > 0 || usage.output_tokens > 0 {
        count("gen_ai.usage.input_tokens", Some(usage.input_tokens));
        count("gen_ai.usage.output_tokens", Some(usage.output_tokens));
    }
    count("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
    count("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens);
    count("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens);
}
