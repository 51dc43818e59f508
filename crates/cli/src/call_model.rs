//! `agentwf call`: model calls without an agent. Runs no tool; answers each tool call with "ok".

use std::pin::pin;
use std::sync::Arc;

use agentflow_schema::text::OneLine;
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::args::CallArgs;
use super::print::{Answer, BOLD, DIM, Problem, Stop, line, note, print_json, short};
use super::{ctrl_c, model};
use agentflow_core::message::{Conversation, Message, ToolCall, ToolResult, ToolStatus};
use agentflow_core::model::{Model, ModelError, ModelEvent, ModelRequest, ModelResponse, Usage};
use agentflow_core::runtime::Runtime;

pub(super) async fn call(host: &Runtime, args: CallArgs) -> Result<(), Stop> {
    match converse(host, &args).await {
        // With `--json`, an error is also a line of the output.
        Err(Stop::Failed(problem)) if args.json => {
            #[derive(Serialize)]
            struct Line {
                error: Problem,
            }
            print_json(&Line { error: *problem })?;
            Err(Stop::Said)
        }
        Err(Stop::Interrupted) => Err(ctrl_c::stopped()),
        ended => ended,
    }
}

async fn converse(host: &Runtime, args: &CallArgs) -> Result<(), Stop> {
    let model = model::open(host, &args.reference, &args.model)?;
    let mut ctrl_c = ctrl_c::watch();
    let definitions =
        args.tools.iter().map(|file| model::tool_file(file)).collect::<Result<Vec<_>, _>>()?;
    let mut conversation: Conversation =
        args.model.instruct.iter().cloned().map(Message::system).collect();
    conversation.push(Message::user(args.prompt.as_str()));
    let mut request = ModelRequest::new(conversation.clone())
        .tools(definitions.into_iter().collect::<agentflow_core::tool::ToolManifest>())
        .settings(model::settings(&args.model));
    request.stream = args.stream;
    for _ in 0..args.turns {
        request.messages = conversation.clone();
        let response = if args.json {
            let response = read(&*model, request.clone(), &mut ctrl_c, |_| Ok(())).await?;
            print_json(&Turn::from(&response))?;
            response
        } else {
            shown(&*model, &request, &mut ctrl_c).await?
        };
        let results: Vec<_> = response.tool_calls().map(|call| Arc::new(ok(call))).collect();
        // An answer without tool calls ends the conversation.
        if results.is_empty() {
            break;
        }
        conversation.push(Arc::clone(&response.message));
        conversation.push(Message::tool_results(results));
    }
    Ok(())
}

/// Makes one model call, and passes each event to `piece`. Ctrl-C closes the connection.
async fn read(
    model: &dyn Model,
    request: ModelRequest,
    ctrl_c: &mut oneshot::Receiver<()>,
    mut piece: impl FnMut(&ModelEvent) -> Result<(), Stop>,
) -> Result<ModelResponse, Stop> {
    let mut stream = model.stream(request);
    let mut pressed = pin!(ctrl_c::pressed(ctrl_c));
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            () = &mut pressed => return Err(Stop::Interrupted),
        };
        match event {
            // A complete stream ends with `Completed`.
            None => return Err(ModelError::truncated().into()),
            Some(event) => match event? {
                ModelEvent::Completed(response) => return Ok(*response),
                other => piece(&other)?,
            },
        }
    }
}

/// Makes one model call and prints it for a person: the text while it is generated, then the tool
/// calls. The token counts go to standard error.
async fn shown(
    model: &dyn Model,
    request: &ModelRequest,
    ctrl_c: &mut oneshot::Receiver<()>,
) -> Result<ModelResponse, Stop> {
    let mut text = Answer::new();
    let mut pieces = false;
    let read = read(model, request.clone(), ctrl_c, |event| match event {
        ModelEvent::Text(piece) => {
            pieces = true;
            text.push(piece)
        }
        _ => Ok(()),
    })
    .await;
    let response = match read {
        Ok(response) => response,
        Err(stop) => {
            // Ends the line of a partial answer, so that the error begins on a new line.
            let _ = text.end_line();
            return Err(stop);
        }
    };
    // Without streaming, only the final response contains the text.
    if !pieces {
        text.push(&response.text())?;
    }
    text.end_line()?;
    let reasoning = response.message.reasoning();
    if !reasoning.is_empty() {
        note(format_args!("{DIM}reasoning: {}{DIM:#}", short(&reasoning)));
    }
    for call in response.tool_calls() {
        line(format_args!(
            "tool call {BOLD}{}{BOLD:#} {}",
            short(&call.name),
            OneLine(arguments(call))
        ))?;
    }
    note(format_args!(
        "{DIM}{}{}{DIM:#}",
        short(response.stop_reason.as_str()),
        tokens(&response.usage)
    ));
    Ok(response)
}

/// Formats the token counts, if they are known.
fn tokens(usage: &Usage) -> String {
    if !is_known(usage) {
        return String::new();
    }
    let part = |count: Option<u64>, name| match count {
        Some(count) if count > 0 => format!(" ({count} {name})"),
        _ => String::new(),
    };
    format!(
        ", {} tokens in{}, {} out{}",
        usage.input_tokens,
        part(usage.cached_tokens, "cached"),
        usage.output_tokens,
        part(usage.reasoning_tokens, "reasoning")
    )
}

/// Returns `true` if the provider reported token counts. Distinguishes unknown counts from zero.
fn is_known(usage: &Usage) -> bool {
    usage.raw.is_some() || usage.input_tokens > 0 || usage.output_tokens > 0
}

fn ok(call: &ToolCall) -> ToolResult {
    ToolResult::new(call, ToolStatus::Success, "\"ok\"")
}

/// Parses the arguments as JSON. Invalid JSON becomes a JSON string.
fn arguments(call: &ToolCall) -> Value {
    match call.arguments.trim() {
        "" => Value::Object(serde_json::Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(call.arguments.as_str())),
    }
}

#[derive(Serialize)]
struct Turn<'a> {
    text: std::borrow::Cow<'a, str>,
    reasoning: std::borrow::Cow<'a, str>,
    tool_calls: Vec<Call<'a>>,
    stop_reason: &'a str,
    usage: Counts,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    arguments: Value,
}

#[derive(Serialize)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl<'a> From<&'a ModelResponse> for Turn<'a> {
    fn from(response: &'a ModelResponse) -> Self {
        let usage = &response.usage;
        let known = is_known(usage);
        Self {
            text: response.text(),
            reasoning: response.message.reasoning(),
            tool_calls: response
                .tool_calls()
                .map(|call| Call { id: &call.id, name: &call.name, arguments: arguments(call) })
                .collect(),
            stop_reason: response.stop_reason.as_str(),
            usage: Counts {
                input_tokens: known.then_some(usage.input_tokens),
                output_tokens: known.then_some(usage.output_tokens),
                cached_tokens: usage.cached_tokens,
                reasoning_tokens: usage.reasoning_tokens,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(response: &ModelResponse) -> Value {
        serde_json::to_value(Turn::from(response)).unwrap()
    }

    #[test]
    fn a_turn_as_json() {
        let call = ToolCall::new("c1", "add", r#"{"a": 1}"#);
        let broken = ToolCall::new("c2", "add", r#"{"a": "#);
        let parts =
            [call, broken].map(|call| agentflow_core::message::Part::ToolCall(Arc::new(call)));
        let mut response =
            ModelResponse::new(Message::new(agentflow_core::message::Role::Assistant, parts));
        response.usage = Usage::new(3, 2);
        response.usage.cached_tokens = Some(0);
        assert_eq!(
            turn(&response),
            json!({
                "text": "", "reasoning": "",
                "tool_calls": [
                    {"id": "c1", "name": "add", "arguments": {"a": 1}},
                    {"id": "c2", "name": "add", "arguments": "{\"a\": "},
                ],
                "stop_reason": "tool_calls",
                "usage": {"input_tokens": 3, "output_tokens": 2, "cached_tokens": 0, "reasoning_tokens": null},
            })
        );
    }

    #[test]
    fn unknown_counts_are_null() {
        let usage = &turn(&ModelResponse::new(Message::assistant("Hi")))["usage"];
        assert_eq!(
            usage,
            &json!({"input_tokens": null, "output_tokens": null, "cached_tokens": null, "reasoning_tokens": null})
        );
    }
}
