//! Benchmark case: one turn of an agent in memory. The model calls a tool, the tool answers, and
//! both messages are added to the conversation.
//!
//! The model returns prepared messages, so the case measures only the overhead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::agent::Limits;
use agentflow::event::EventSink;
use agentflow::message::{Conversation, Part, Role, ToolCall, ToolResult, ToolStatus};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::serde::Deserialize;
use agentflow::tool::{FnTool, ToolDefinition, ToolManifest};
use agentflow::{Agent, Event, Message, Model, Runtime, serde_json, tools};
use futures_util::StreamExt;
use futures_util::stream;

use super::{Case, dispatch};

const TARGET: f64 = 10.0;

/// A model that calls `add` in every turn except the last, in which it answers.
pub(crate) struct Script {
    info: ModelInfo,
    turns: Vec<Arc<Message>>,
}

impl Script {
    pub(crate) fn new(steps: usize) -> Self {
        let asks = (1..steps).map(|turn| {
            let call =
                ToolCall::new(format!("call_{turn}"), "add", format!(r#"{{"a": {turn}, "b": 3}}"#));
            Arc::new(Message::new(Role::Assistant, [Part::ToolCall(Arc::new(call))]))
        });
        let answer = Arc::new(Message::assistant("That is the sum."));
        Self { info: ModelInfo::new("bench", "script"), turns: asks.chain([answer]).collect() }
    }

    pub(crate) fn answer(&self, request: &ModelRequest) -> ModelEvent {
        // One question before the first turn, then two messages per turn.
        let turn = request.messages.len() / 2;
        ModelEvent::Completed(Box::new(ModelResponse::new(Arc::clone(&self.turns[turn]))))
    }
}

impl Model for Script {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        ModelStream::new(stream::iter([Ok(self.answer(&request))]))
    }
}

/// A typical hand-written loop over the same model, without events, limits, time-outs or
/// cancellation.
pub(crate) async fn by_hand(model: &dyn Model, request: &ModelRequest) -> usize {
    #[derive(Deserialize)]
    struct Add {
        a: i64,
        b: i64,
    }
    let mut messages = Conversation::from("Add the numbers.");
    loop {
        let mut turn = request.clone();
        turn.messages = messages.clone();
        let mut answer = model.stream(turn);
        let response = loop {
            match answer
                .next()
                .await
                .expect("the answer has an end")
                .expect("the model does not fail")
            {
                ModelEvent::Completed(response) => break response,
                _ => continue,
            }
        };
        drop(answer);
        messages.push(Arc::clone(&response.message));
        let results: Vec<_> = response.tool_calls().map(|call| Arc::new(result(call))).collect();
        if results.is_empty() {
            return messages.len() + response.text().len();
        }
        messages.push(Message::tool_results(results));
    }

    fn result(call: &ToolCall) -> ToolResult {
        let output = match call.name.as_str() {
            "add" => {
                let Add { a, b } =
                    serde_json::from_str(&call.arguments).expect("the arguments fit");
                serde_json::to_string(&(a + b)).expect("a number has a JSON form")
            }
            other => unreachable!("the model was offered no `{other}`"),
        };
        ToolResult::new(call, ToolStatus::Success, output)
    }
}

/// Returns the parts that all requests of [`by_hand`] have in common.
pub(crate) fn request() -> ModelRequest {
    ModelRequest::new("")
        .tools(ToolManifest::from_iter([Arc::clone(tools![dispatch::add][0].definition())]))
}

/// Counts events.
#[derive(Default)]
struct Count(AtomicUsize);

impl EventSink for Count {
    fn emit(&self, _: &Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Creates an agent with `add` and additional tools, up to the given number.
pub(crate) fn agent(model: impl Model + 'static, tools: usize, runtime: &Runtime) -> Agent {
    let others = (1..tools).map(|number| {
        let schema =
            serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let definition = ToolDefinition::new(format!("other_{number}"), "Never called.", schema);
        FnTool::dynamic(definition, |_, arguments| async move { Ok::<_, String>(arguments) })
    });
    Agent::new(model)
        .tools(tools![dispatch::add])
        .tools(others)
        .settings(Limits::default().max_steps(u32::MAX).max_llm_calls(u32::MAX))
        .runtime(runtime)
        .build()
        .expect("the agent is complete")
}

pub(crate) fn cases() -> Vec<Case> {
    let silent = || Runtime::builder().build();
    let counted = || Runtime::builder().sink(Count::default()).build();
    [(1, 10), (1, 1000), (20, 10), (20, 1000)]
        .map(|(tools, steps)| case("", tools, steps, &silent()))
        .into_iter()
        .chain([
            case(", a sink that counts", 1, 10, &counted()),
            case(", a sink that counts", 1, 1000, &counted()),
        ])
        .collect()
}

fn case(variant: &str, tools: usize, steps: u32, runtime: &Runtime) -> Case {
    let tokio =
        || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (for_floor, for_ours) = (tokio(), tokio());
    let floor = Script::new(steps as usize);
    let agent = agent(Script::new(steps as usize), tools, runtime);
    let request = request();
    Case {
        name: format!("step, {tools} tools, {steps} steps{variant}"),
        units: steps,
        target: TARGET,
        floor: Box::new(move || for_floor.block_on(by_hand(&floor, &request))),
        ours: Box::new(move || {
            let result =
                for_ours.block_on(agent.run("Add the numbers.")).expect("the run has an answer");
            result.conversation().len() + result.output().len()
        }),
    }
}
