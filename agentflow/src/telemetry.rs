//! `tracing` spans in the words of OpenTelemetry's GenAI conventions.
//!
//! The names are those of the repository `semantic-conventions-genai`, status "Development", as of 2026-05-05, when they
//! moved there. Nothing is formatted unless a subscriber wants the span. Contents of messages are never recorded here.

use tracing::Span;
use tracing::field::Empty;

use crate::event::RunId;
use crate::message::ToolCall;
use crate::model::{ModelInfo, ModelResponse};

pub(crate) fn agent_span(agent: &str, run: &RunId) -> Span {
    tracing::info_span!(
        "invoke_agent",
        otel.name = format_args!("invoke_agent {agent}"),
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = run.as_str(),
    )
}

pub(crate) fn workflow_span(workflow: &str, run: &RunId) -> Span {
    tracing::info_span!(
        "invoke_workflow",
        otel.name = format_args!("invoke_workflow {workflow}"),
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_workflow",
        gen_ai.workflow.name = workflow,
        gen_ai.conversation.id = run.as_str(),
    )
}

pub(crate) fn chat_span(info: &ModelInfo) -> Span {
    tracing::info_span!(
        "chat",
        otel.name = format_args!("chat {}", info.model),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider_name(&info.provider),
        gen_ai.request.model = &*info.model,
        gen_ai.response.model = Empty,
        gen_ai.response.id = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
    )
}

/// Adds what is known when the answer is there to the current span, which is the call's.
pub(crate) fn record_response(response: &ModelResponse) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    let usage = &response.usage;
    span.record("gen_ai.response.model", response.model.as_str());
    span.record("gen_ai.response.id", response.id.as_str());
    span.record("gen_ai.response.finish_reasons", response.stop_reason.as_str());
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    if let Some(tokens) = usage.cached_tokens {
        span.record("gen_ai.usage.cache_read.input_tokens", tokens);
    }
    if let Some(tokens) = usage.reasoning_tokens {
        span.record("gen_ai.usage.reasoning.output_tokens", tokens);
    }
}

pub(crate) fn tool_span(call: &ToolCall) -> Span {
    tracing::info_span!(
        "execute_tool",
        otel.name = format_args!("execute_tool {}", call.name),
        otel.kind = "internal",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name.as_str(),
        gen_ai.tool.call.id = call.id.as_str(),
        gen_ai.tool.r#type = "function",
    )
}

/// The conventions' name for a wire format of ours.
fn provider_name(provider: &str) -> &str {
    match provider {
        "openai-chat" | "openai-responses" => "openai",
        "gemini" => "gcp.gemini",
        other => other,
    }
}
