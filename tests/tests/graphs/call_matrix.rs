//! A table of callers, forms of arguments and policies of tools. Each row is one policy. All
//! callers must record the same events for it, have the same number of effects and end with the
//! same error.
//!
//! `every_caller.rs` compares the sentences and the command line, `told_calls.rs` calls outside of
//! runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::async_trait;
use agentflow::event::{Event, EventKind};
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::middleware::{Flow, Middleware, ToolStep};
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition, ToolRef};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{Error, RunHandle, Workflow};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, within};
use serde_json::{Value, json};

use crate::every_caller::EventCollector;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The effects of a run.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The body of all tools. `tool` is the last part of the tool's name.
    async fn act(&self, tool: &str, who: &str) -> Result<String, String> {
        self.0.lock().unwrap().push(format!("{tool} {who}"));
        match tool {
            "late" | "stuck" => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok("late".to_owned())
            }
            "again" if self.count() < 3 => Err("not yet".to_owned()),
            "vain" => Err("nothing left".to_owned()),
            "panics" => panic!("not today"),
            "big" => Ok("much too much".to_owned()),
            _ => Ok(who.to_owned()),
        }
    }
}

/// Defines a tool, a workflow whose node is its call, and a workflow with a helper that calls it.
macro_rules! rows {
    ($($tool:ident $word:literal ($($policy:tt)*) $node:ident $step:ident $helper:ident)*) => {
        $(
            #[tool($($policy)*)]
            async fn $tool(effects: Inject<Effects>, who: String) -> Result<String, String> {
                effects.act($word, &who).await
            }

            #[workflow]
            async fn $node(cx: &Context, who: String) -> Result<String, AnyError> {
                let out = $tool(cx.inject()?, who).await?;
                Ok(out)
            }

            async fn $helper(cx: &Context, who: String) -> Result<String, AnyError> {
                let effects = cx.inject()?;
                Ok($tool(effects, who).await?)
            }

            #[workflow]
            async fn $step(cx: &Context, who: String) -> Result<String, AnyError> {
                let out = $helper(cx, who).await?;
                Ok(out)
            }
        )*

        fn tools() -> Vec<ToolOfRow> {
            vec![$(
                ToolOfRow {
                    word: $word,
                    typed: tools![$tool].remove(0),
                    node: $node::workflow(),
                    step: $step::workflow(),
                }
            ),*]
        }
    };
}

struct ToolOfRow {
    word: &'static str,
    typed: ToolRef,
    node: Workflow<(String,), String>,
    step: Workflow<(String,), String>,
}

rows! {
    matrix_well "well" (effects = "write") matrix_well_node matrix_well_step matrix_well_helper
    matrix_vain "vain" (effects = "read") matrix_vain_node matrix_vain_step matrix_vain_helper
    matrix_late "late" (timeout = "1s") matrix_late_node matrix_late_step matrix_late_helper
    matrix_again "again" (effects = "read", retry = 2) matrix_again_node matrix_again_step matrix_again_helper
    matrix_panics "panics" (effects = "read") matrix_panics_node matrix_panics_step matrix_panics_helper
    matrix_big "big" (effects = "read", max_output = 8) matrix_big_node matrix_big_step matrix_big_helper
    matrix_scoped "scoped" (effects = "read", scopes("desk")) matrix_scoped_node matrix_scoped_step matrix_scoped_helper
    matrix_asked "asked" (approve) matrix_asked_node matrix_asked_step matrix_asked_helper
    matrix_stuck "stuck" (effects = "write") matrix_stuck_node matrix_stuck_step matrix_stuck_helper
}

/// Returns a tool with JSON arguments and the policy of a typed one.
fn json_tool(of: &ToolOfRow) -> FnTool {
    let (word, typed) = (of.word, of.typed.definition());
    let definition = ToolDefinition::new(format!("json_{word}"), "", typed.parameters.clone());
    let body = move |cx: Context, arguments: Value| async move {
        let effects = cx.inject::<Effects>().map_err(|error| error.to_string())?;
        effects.act(word, arguments["who"].as_str().unwrap_or_default()).await
    };
    FnTool::dynamic(definition, body).policy(typed.policy.clone())
}

/// Middleware that refuses calls or changes their arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hook {
    Refuses,
    Changes,
    Recovers,
}

#[async_trait]
impl Middleware for Hook {
    fn name(&self) -> &str {
        "hook"
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        match self {
            Self::Refuses => {
                return Ok(Flow::Return(step.result(ToolStatus::Unauthorized, "not today")));
            }
            Self::Changes => step.arguments = json!({"who": "eve"}).to_string(),
            Self::Recovers => {}
        }
        Ok(Flow::Continue)
    }

    async fn on_tool_error(&self, step: &ToolStep, _: &ToolResult) -> Result<Flow<ToolResult>> {
        Ok(match self {
            Self::Recovers => Flow::Return(step.result(ToolStatus::Success, "\"saved\"")),
            _ => Flow::Continue,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    Agent,
    /// A node of a `#[workflow]` that consists of the call.
    Node,
    /// A helper function that a step calls.
    Step,
    /// A node of a graph.
    GraphNode,
    /// A branch of a `fallback` in a graph.
    Branch,
    /// `Runtime::invoke`, outside of any run.
    Program,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Typed,
    Json,
}

const COLUMNS: [(Caller, Form); 10] = [
    (Caller::Agent, Form::Typed),
    (Caller::Agent, Form::Json),
    (Caller::Node, Form::Typed),
    (Caller::Step, Form::Typed),
    (Caller::GraphNode, Form::Typed),
    (Caller::GraphNode, Form::Json),
    (Caller::Branch, Form::Typed),
    (Caller::Branch, Form::Json),
    (Caller::Program, Form::Typed),
    (Caller::Program, Form::Json),
];

/// A row of the table: a tool, an intervention in its call, and the expected outcome.
#[derive(Clone)]
struct Row {
    tool: &'static str,
    hook: Option<Hook>,
    answer: Option<Approval>,
    is_cancelled: bool,
    events: &'static [&'static str],
    effects: usize,
    /// The status of the result, or the kind of the error with which the run ends.
    ended: &'static str,
}

impl Row {
    fn new(tool: &'static str, events: &'static [&'static str], ended: &'static str) -> Self {
        let (hook, answer) = (None, None);
        Self { tool, hook, answer, is_cancelled: false, events, effects: 1, ended }
    }

    fn hook(self, hook: Hook, effects: usize) -> Self {
        Self { hook: Some(hook), effects, ..self }
    }

    fn answer(self, answer: Approval, effects: usize) -> Self {
        Self { answer: Some(answer), effects, ..self }
    }
}

#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<String>,
    effects: usize,
    ended: String,
}

/// Returns the events of the call: the name, and the parts that policies determine.
fn lines(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match &event.kind {
        EventKind::ApprovalRequested(_) | EventKind::ApprovalResolved { .. } => {
            Some(event.name().to_owned())
        }
        EventKind::ToolStarted { given: None, effects, .. } => Some(format!("started {effects:?}")),
        EventKind::ToolStarted { given: Some(given), call, effects, .. } => {
            Some(format!("started {effects:?} {} instead of {given}", call.arguments))
        }
        EventKind::ToolRetrying { attempt, error, .. } => {
            Some(format!("retrying {attempt} {}", error.kind))
        }
        EventKind::ToolCompleted { result, answered_by, .. }
        | EventKind::ToolFailed { result, answered_by, .. } => {
            let by = answered_by.as_deref().map_or_else(String::new, |by| format!("{by}: "));
            Some(format!("{} {by}{}", result.status, result.output.replace("json_", "matrix_")))
        }
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

fn graph(caller: Caller, tool: &str) -> Graph {
    let call = json!({"kind": "tool", "name": tool, "with": {"object": {"who": {"from": "who"}}}});
    let does = match caller {
        Caller::Branch => json!({"fallback": [call]}),
        _ => json!({"call": call}),
    };
    serde_json::from_value(json!({
        "version": 1, "name": "matrix", "output": "out", "concurrency": 4,
        "nodes": [
            {"name": "who", "kind": "input", "schema": {"type": "string"}},
            {"name": "out", "does": does},
        ],
    }))
    .unwrap()
}

async fn ended<T>(row: &Row, run: RunHandle<T>) -> (Vec<Event>, Result<T, Error>) {
    if let Some(answer) = &row.answer {
        let question = within("the question", run.asked()).await.unwrap().expect("it asks");
        run.approve(&question.path, answer.clone(), "ada").await.unwrap();
    }
    if row.is_cancelled {
        tokio::time::sleep(Duration::from_secs(1)).await;
        run.cancel("enough").await.unwrap();
    }
    let result = within("the end of the run", run.result()).await;
    (run.recorded(), result)
}

fn kind<T>(result: Result<T, Error>) -> String {
    result.map_or_else(|error| error.kind().to_string(), |_| "success".to_owned())
}

async fn seen(row: &Row, caller: Caller, form: Form) -> Seen {
    let tool = tools().into_iter().find(|tool| tool.word == row.tool).expect("a tool of the rows");
    let json_tool = ToolRef::from(json_tool(&tool));
    let name = match form {
        Form::Typed => format!("matrix_{}", row.tool),
        Form::Json => format!("json_{}", row.tool),
    };
    let (effects, heard) = (Effects::default(), EventCollector::default());
    let mut runtime =
        test_runtime().store(MemoryStore::new()).resource(effects.clone()).record_calls(true);
    if let Some(hook) = row.hook {
        runtime = runtime.with(hook);
    }
    if caller == Caller::Program {
        runtime = runtime.sink(heard.clone());
    }
    if form == Form::Json && caller != Caller::Agent {
        runtime = runtime.tools(json_tool.clone());
    }
    let input = Encoded::new(&json!({"who": "ada"})).unwrap();
    let ada = || ("ada".to_owned(),);
    let (events, ended) = match caller {
        Caller::Agent => {
            let turns = [Turn::call(&*name, json!({"who": "ada"})), Turn::text("Done.")];
            // A cancelled run does not ask the model for its second turn.
            let asked = if row.is_cancelled { 1 } else { 2 };
            let agent = Agent::new(ScriptedModel::new(turns.into_iter().take(asked)));
            let agent = match form {
                Form::Typed => agent.tools(tool.typed.clone()),
                Form::Json => agent.tools(json_tool),
            };
            let runtime = runtime.build();
            let run = agent.runtime(&runtime).start(RunRequest::new("Call it.")).unwrap();
            let (events, result) = ended(row, run).await;
            let status = events.iter().rev().find_map(|event| match &event.kind {
                EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
                    Some(result.status.to_string())
                }
                _ => None,
            });
            let status = status.expect("the call has an end");
            (events, result.map_or_else(|error| error.kind().to_string(), |_| status))
        }
        Caller::Node | Caller::Step => {
            let workflow = if caller == Caller::Node { tool.node } else { tool.step };
            let run = runtime.build().start(workflow, ada()).await.unwrap();
            let (events, result) = ended(row, run).await;
            (events, kind(result))
        }
        Caller::GraphNode | Caller::Branch => {
            let runtime = runtime.graph(graph(caller, &name)).build();
            let (events, result) =
                ended(row, runtime.start_named("matrix", &input).await.unwrap()).await;
            (events, kind(result))
        }
        Caller::Program => {
            let call = ToolCall::new("1", &*name, json!({"who": "ada"}).to_string());
            let runtime = runtime.build();
            let result = within("the answer", runtime.invoke(&call, &[])).await.unwrap();
            (heard.events(), result.status.to_string())
        }
    };
    if caller != Caller::Program {
        check_events(&events).unwrap();
    }
    Seen { events: lines(&events), effects: effects.count(), ended }
}

fn rows() -> Vec<Row> {
    let changed = Approval::granted_with(json!({"who": "eve"}));
    vec![
        Row::new("well", &["started Write", "success \"ada\""], "success"),
        Row::new("vain", &["started Read", "error nothing left"], "error"),
        Row::new(
            "late",
            &[
                "started Write",
                "timeout `matrix_late` did not answer within 1s; whether it had its effect is unknown",
            ],
            "timeout",
        ),
        Row {
            effects: 3,
            ..Row::new(
                "again",
                &["started Read", "retrying 1 error", "retrying 2 error", "success \"ada\""],
                "success",
            )
        },
        Row::new(
            "panics",
            &[
                "started Read",
                "panicked `matrix_panics` panicked: not today; other arguments may help",
            ],
            "panicked",
        ),
        Row::new("panics", &["started Read", "success hook: \"saved\""], "success")
            .hook(Hook::Recovers, 1),
        Row::new("late", &["started Write", "success hook: \"saved\""], "success")
            .hook(Hook::Recovers, 1),
        Row::new(
            "big",
            &[
                "started Read",
                "output_too_large the tool ran, but its answer of 15 bytes is over the limit of 8 bytes; ask for less. It begins: \"much to",
            ],
            "output_too_large",
        ),
        Row {
            effects: 0,
            ..Row::new(
                "scoped",
                &[
                    "started None",
                    "unauthorized `matrix_scoped` needs the scope `desk`, which this run was not granted; do without it",
                ],
                "unauthorized",
            )
        },
        Row::new("well", &["started None", "unauthorized hook: not today"], "unauthorized")
            .hook(Hook::Refuses, 0),
        Row::new(
            "well",
            &["started Write {\"who\":\"eve\"} instead of {\"who\":\"ada\"}", "success \"eve\""],
            "success",
        )
        .hook(Hook::Changes, 1),
        Row::new(
            "asked",
            &["approval.requested", "approval.resolved", "started Write", "success \"ada\""],
            "success",
        )
        .answer(Approval::granted(), 1),
        Row::new(
            "asked",
            &[
                "approval.requested",
                "approval.resolved",
                "started Write {\"who\":\"eve\"} instead of {\"who\":\"ada\"}",
                "success \"eve\"",
            ],
            "success",
        )
        .answer(changed, 1),
        Row::new("asked", &["approval.requested", "approval.resolved"], "denied")
            .answer(Approval::denied("no"), 0),
        Row {
            is_cancelled: true,
            ..Row::new(
                "stuck",
                &[
                    "started Write",
                    "cancelled enough while this tool was running; whether it had its effect is unknown",
                ],
                "cancelled",
            )
        },
    ]
}

/// Returns the expected result of a row for a caller. Each difference has a documented reason.
fn expected(row: &Row, caller: Caller) -> Option<Seen> {
    let mut events: Vec<String> = row.events.iter().map(|line| (*line).to_owned()).collect();
    let mut ended = row.ended.to_owned();
    let is_node = matches!(caller, Caller::Node | Caller::GraphNode);
    match (row.tool, caller) {
        // A program outside of a run cannot be asked, and drops the call instead of cancelling it.
        ("asked" | "stuck", Caller::Program) => return None,
        // A node that consists of the call is retried as a node.
        ("again", _) if is_node => {
            let attempt = ["started Read", "error not yet"].map(str::to_owned);
            events = [
                attempt.clone().as_slice(),
                &attempt,
                &["started Read".to_owned(), "success \"ada\"".to_owned()],
            ]
            .concat();
        }
        // The event of an agent's call does not contain the reason: its run has it.
        ("stuck", Caller::Agent) => {
            events[1] = events[1].replace("enough", "the run was cancelled");
        }
        // A model receives a denial as the result of its call.
        ("asked", Caller::Agent) if row.ended == "denied" => {
            events.push("started None".to_owned());
            events.push(
                "unauthorized a person was asked about this call and did not agree: no".to_owned(),
            );
            ended = "unauthorized".to_owned();
        }
        _ => {}
    }
    Some(Seen { events, effects: row.effects, ended })
}

#[tokio::test(start_paused = true)]
async fn a_policy_means_the_same_for_every_caller_and_every_form_of_arguments() {
    let mut differences = Vec::new();
    for row in rows() {
        for (caller, form) in COLUMNS {
            let Some(expected) = expected(&row, caller) else { continue };
            let seen = seen(&row, caller, form).await;
            if seen != expected {
                let (tool, hook) = (row.tool, row.hook);
                differences.push(format!(
                    "{tool} {hook:?} {caller:?} {form:?}:\n  expected {expected:?}\n  seen     {seen:?}"
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
