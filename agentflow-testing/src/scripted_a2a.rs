//! Implements `ScriptedA2a`, an in-process agent of the Agent2Agent protocol that answers from a
//! script and collects mismatches. Only the remote agent is replaced.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow::__private::watch_errors;
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::{Map, Value, json};

use crate::run_error::panic_when_dropped;

/// The responses to one request. A stream has one response for each event.
type Responses = Pin<Box<dyn Stream<Item = Value> + Send>>;

/// The behaviour of the agent for one message.
///
/// ```
/// use agentflow_testing::A2aTurn;
///
/// let turns = [
///     A2aTurn::asks("Which order?").expect_text("Refund it."),
///     A2aTurn::text("Order 7 is refunded.").after_work(),
/// ];
/// # drop(turns);
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is a turn of a script"]
pub struct A2aTurn {
    does: Does,
    text: Option<String>,
    works_first: bool,
    breaks_off: bool,
}

#[derive(Clone, Debug)]
enum Does {
    /// The task has this state, this status message and this part as its result.
    Task {
        state: &'static str,
        says: Option<String>,
        result: Option<Value>,
    },
    Message(String),
    Error(i32, String),
    Silence,
    HangUp,
}

impl A2aTurn {
    fn new(does: Does) -> Self {
        Self { does, text: None, works_first: false, breaks_off: false }
    }

    /// Completes the task with text as its result.
    pub fn text(result: impl Into<String>) -> Self {
        let result = Some(json!({"text": result.into()}));
        Self::new(Does::Task { state: "TASK_STATE_COMPLETED", says: None, result })
    }

    /// Completes the task with a value as its result.
    pub fn data(result: Value) -> Self {
        let result = Some(json!({"data": result}));
        Self::new(Does::Task { state: "TASK_STATE_COMPLETED", says: None, result })
    }

    /// Asks for input (`TASK_STATE_INPUT_REQUIRED`). The next message of the task is answered by
    /// the next turn.
    pub fn asks(question: impl Into<String>) -> Self {
        Self::new(Does::Task {
            state: "TASK_STATE_INPUT_REQUIRED",
            says: Some(question.into()),
            result: None,
        })
    }

    /// Fails the task with this reason.
    pub fn fails(why: impl Into<String>) -> Self {
        Self::new(Does::Task { state: "TASK_STATE_FAILED", says: Some(why.into()), result: None })
    }

    /// Keeps the task working. It does not end unless the client cancels it.
    pub fn works() -> Self {
        Self::new(Does::Task { state: "TASK_STATE_WORKING", says: None, result: None })
    }

    /// Answers with a message and without a task.
    pub fn message(text: impl Into<String>) -> Self {
        Self::new(Does::Message(text.into()))
    }

    /// Answers with a JSON-RPC error: its code, such as -32005, and its message.
    pub fn error(code: i32, message: impl Into<String>) -> Self {
        Self::new(Does::Error(code, message.into()))
    }

    /// Sends no answer. The connection stays open.
    pub fn silence() -> Self {
        Self::new(Does::Silence)
    }

    /// Sends no answer and closes the connection.
    pub fn hang_up() -> Self {
        Self::new(Does::HangUp)
    }

    /// Expects this text: all text parts of the message, concatenated.
    pub fn expect_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Shows the task as working first. The client sees the outcome in the stream or with its next
    /// poll.
    ///
    /// # Panics
    /// If the turn has no task.
    #[track_caller]
    pub fn after_work(mut self) -> Self {
        assert!(matches!(self.does, Does::Task { .. }), "no task could be at work in {self:?}");
        self.works_first = true;
        self
    }

    /// Shows the task as working, then breaks the stream. The client sees the outcome when it
    /// subscribes again.
    ///
    /// # Panics
    /// If the turn has no task.
    #[track_caller]
    pub fn after_a_break(mut self) -> Self {
        self.breaks_off = true;
        self.after_work()
    }
}

/// An agent that answers messages with its turns, in order. Clones share the script: give
/// [`respond`](Self::respond) of one clone to a client and keep another.
///
/// A script fails on a message when no turn is left, a message with other text than its turn
/// expects, an answer to a task that asks nothing, a method that the protocol does not have, and an
/// unused turn. [`finish`](Self::finish) panics with all failures, and so does dropping the last
/// clone.
///
/// ```
/// use agentflow_testing::{A2aTurn, ScriptedA2a};
///
/// let far = ScriptedA2a::new("researcher", [A2aTurn::text("42").expect_text("What is the answer?")]);
/// let near = far.clone();
/// // A2aClient::in_memory("researcher", far.card(), move |request| near.respond(request)).build()?
/// # drop(near);
/// # assert_eq!(far.failures(), ["1 turns were never asked for"]);
/// # far.forgive();
/// ```
#[derive(Clone)]
pub struct ScriptedA2a(Arc<Script>);

struct Script {
    name: String,
    streams: bool,
    state: Mutex<A2aScriptState>,
}

#[derive(Default)]
struct A2aScriptState {
    turns: VecDeque<A2aTurn>,
    messages: Vec<Value>,
    tasks: BTreeMap<String, Task>,
    cancelled: Vec<String>,
    /// Push configurations, by task and configuration id.
    configs: BTreeMap<(String, String), Value>,
    failures: Vec<String>,
    is_forgiven: bool,
}

/// A task in its current state, and the state that the client sees after that.
struct Task {
    seen: Value,
    outcome: Option<Value>,
}

impl ScriptedA2a {
    /// Creates an agent with a name and its turns. It supports streaming.
    pub fn new(name: impl Into<String>, turns: impl IntoIterator<Item = A2aTurn>) -> Self {
        watch_errors();
        let state = Mutex::new(A2aScriptState {
            turns: turns.into_iter().collect(),
            ..A2aScriptState::default()
        });
        Self(Arc::new(Script { name: name.into(), streams: true, state }))
    }

    /// Disables streaming in the agent card, so that clients poll.
    ///
    /// # Panics
    /// If the agent has been cloned.
    #[must_use]
    pub fn without_streams(mut self) -> Self {
        Arc::get_mut(&mut self.0).expect("said before it is cloned").streams = false;
        self
    }

    /// Returns the agent card.
    pub fn card(&self) -> Value {
        let Script { name, streams, .. } = &*self.0;
        let skill = json!({"id": name, "name": name, "description": format!("What {name} does."), "tags": []});
        json!({
            "name": name, "description": format!("The agent {name}."), "version": "1", "skills": [skill],
            "supportedInterfaces": [], "capabilities": {"streaming": streams},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        })
    }

    /// Returns the responses to a JSON-RPC request.
    pub fn respond(&self, request: Value) -> impl Stream<Item = Value> + Send + use<> {
        let id = request["id"].clone();
        let responses = self.answer(&request);
        responses.map(move |mut response| {
            response["jsonrpc"] = "2.0".into();
            response["id"] = id.clone();
            response
        })
    }

    /// Returns the messages so far, as they were sent.
    pub fn messages(&self) -> Vec<Value> {
        self.state().messages.clone()
    }

    /// Returns the ids of the tasks that the client cancelled.
    pub fn cancelled(&self) -> Vec<String> {
        self.state().cancelled.clone()
    }

    /// Returns the mismatches so far, and the number of unused turns.
    pub fn failures(&self) -> Vec<String> {
        self.state().all_failures()
    }

    /// Ends the script and checks it.
    ///
    /// # Panics
    /// If there are failures, with all of them.
    #[track_caller]
    pub fn finish(&self) {
        let failures = self.failures();
        self.forgive();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// Accepts all failures, for a test that expects them. Dropping the agent then does not panic.
    pub fn forgive(&self) {
        self.state().is_forgiven = true;
    }

    fn state(&self) -> MutexGuard<'_, A2aScriptState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &Value) -> Responses {
        let mut state = self.state();
        let params = &request["params"];
        let id = params["id"].as_str().unwrap_or_default();
        // Error codes of the protocol: -32001 task not found, -32002 task not cancelable, -32004
        // unsupported operation.
        match request["method"].as_str().unwrap_or_default() {
            "SendMessage" => state.message(&params["message"], false),
            "SendStreamingMessage" => state.message(&params["message"], true),
            "GetTask" => match state.tasks.get_mut(id) {
                Some(task) => {
                    // A poll returns the current state and advances the task, so the next poll sees
                    // the outcome.
                    let seen = task.seen.clone();
                    task.advance();
                    result(seen)
                }
                None => error(-32001, "there is no such task"),
            },
            "SubscribeToTask" => match state.tasks.get_mut(id) {
                Some(task) if has_ended(&task.seen) => error(-32004, "the task has ended"),
                Some(task) => {
                    let first = json!({"task": task.seen});
                    task.advance();
                    match has_ended(&task.seen) {
                        true => Box::pin(stream::iter(
                            [first, json!({"task": task.seen})].map(|of| json!({"result": of})),
                        )),
                        // The task does not end, so the subscription stays open.
                        false => Box::pin(
                            stream::iter([json!({"result": first})]).chain(stream::pending()),
                        ),
                    }
                }
                None => error(-32001, "there is no such task"),
            },
            "CancelTask" => match state.tasks.get_mut(id) {
                Some(task) if has_ended(&task.seen) => error(-32002, "the task has ended"),
                Some(task) => {
                    task.seen["status"] = json!({"state": "TASK_STATE_CANCELED"});
                    task.outcome = None;
                    let seen = task.seen.clone();
                    state.cancelled.push(id.to_owned());
                    result(seen)
                }
                None => error(-32001, "there is no such task"),
            },
            "ListTasks" => {
                let tasks: Vec<Value> =
                    state.tasks.values().map(|task| task.seen.clone()).collect();
                let most = tasks.len();
                result(
                    json!({"tasks": tasks, "nextPageToken": "", "pageSize": most, "totalSize": most}),
                )
            }
            method if method.contains("TaskPushNotificationConfig") => {
                state.push_config(method, params)
            }
            other => {
                state.failures.push(format!("the script has no answer to `{other}`"));
                error(-32601, "there is no such method")
            }
        }
    }
}

impl std::fmt::Debug for ScriptedA2a {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedA2a")
            .field("messages", &self.messages().len())
            .finish_non_exhaustive()
    }
}

impl Task {
    /// Moves the task to its next state.
    fn advance(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            self.seen = outcome;
        }
    }
}

impl A2aScriptState {
    fn message(&mut self, message: &Value, streams: bool) -> Responses {
        self.messages.push(message.clone());
        let texts = message["parts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|part| part["text"].as_str());
        let text: String = texts.collect();
        let Some(turn) = self.turns.pop_front() else {
            return self.failed(format!("a message was sent, and no turn is left: {text}"));
        };
        if let Some(expected) = turn.text.as_ref().filter(|expected| **expected != text) {
            return self.failed(format!(
                "a message of other words was sent; expected: {expected}; sent: {text}"
            ));
        }
        let (state, says, part) = match turn.does {
            Does::Silence => return Box::pin(stream::pending()),
            Does::HangUp => return Box::pin(stream::empty()),
            Does::Error(code, message) => return error(code, &message),
            Does::Message(text) => {
                let id = format!("message-{}", self.messages.len());
                return result(json!({"message": said(&id, &text)}));
            }
            Does::Task { state, says, result } => (state, says, result),
        };
        // A message may continue only a task that has asked a question.
        let id = match message["taskId"].as_str() {
            None => format!("task-{}", self.tasks.len() + 1),
            Some(id) => {
                let task = self
                    .tasks
                    .get(id)
                    .filter(|task| task.seen["status"]["state"] == "TASK_STATE_INPUT_REQUIRED");
                if task.is_none() {
                    return self.failed(format!(
                        "a message answers the task `{id}`, which asks nothing: {text}"
                    ));
                }
                id.to_owned()
            }
        };
        let context = message["contextId"]
            .as_str()
            .map_or_else(|| format!("context-of-{id}"), ToOwned::to_owned);
        let task = |status: Value, part: Option<Value>| {
            let mut task = Map::new();
            task.insert("id".to_owned(), id.as_str().into());
            task.insert("contextId".to_owned(), context.as_str().into());
            task.insert("status".to_owned(), status);
            task.extend(part.map(|part| {
                ("artifacts".to_owned(), json!([{"artifactId": "result", "parts": [part]}]))
            }));
            Value::from(task)
        };
        let mut status = json!({"state": state});
        if let Some(says) = says {
            status["message"] = said(&format!("{id}-{}", self.messages.len()), &says);
        }
        let outcome = task(status, part);
        let working = task(json!({"state": "TASK_STATE_WORKING"}), None);
        // If this response does not contain the outcome, the next poll or subscription does.
        let kept = match turn.works_first && (turn.breaks_off || !streams) {
            true => Task { seen: working.clone(), outcome: Some(outcome.clone()) },
            false => Task { seen: outcome.clone(), outcome: None },
        };
        let shows: Vec<Value> = match (streams, turn.works_first, turn.breaks_off) {
            (true, true, false) => vec![working, outcome],
            (_, true, _) => vec![working],
            (_, false, _) => vec![outcome],
        };
        // The stream of a working task stays open until the client cancels the task or disconnects.
        let never_ends = streams && state == "TASK_STATE_WORKING";
        let shown = stream::iter(shows.into_iter().map(|task| json!({"result": {"task": task}})));
        self.tasks.insert(id, kept);
        if never_ends { Box::pin(shown.chain(stream::pending())) } else { Box::pin(shown) }
    }

    /// Handles the methods for push configurations. No notification is sent.
    fn push_config(&mut self, method: &str, params: &Value) -> Responses {
        let task = params["taskId"].as_str().unwrap_or_default().to_owned();
        if !self.tasks.contains_key(&task) {
            return error(-32001, "there is no such task");
        }
        let id = params["id"].as_str().unwrap_or(&task).to_owned();
        let place = (task.clone(), id.clone());
        match method {
            "CreateTaskPushNotificationConfig" => {
                let mut config = params.clone();
                config["id"] = id.into();
                self.configs.insert(place, config.clone());
                result(config)
            }
            "GetTaskPushNotificationConfig" => match self.configs.get(&place) {
                Some(config) => result(config.clone()),
                None => error(-32001, "there is no such push configuration"),
            },
            "ListTaskPushNotificationConfigs" => {
                let its = self.configs.iter().filter(|((of, _), _)| *of == task);
                result(json!({"configs": its.map(|(_, config)| config).collect::<Vec<_>>()}))
            }
            _ => {
                self.configs.remove(&place);
                result(json!({}))
            }
        }
    }

    fn failed(&mut self, problem: String) -> Responses {
        self.failures.push(problem.clone());
        error(-32603, &problem)
    }

    fn all_failures(&self) -> Vec<String> {
        let left = self.turns.len();
        let unused = (left > 0).then(|| format!("{left} turns were never asked for"));
        self.failures.iter().cloned().chain(unused).collect()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let failures = state.all_failures();
        // A second panic during unwinding would abort the process.
        if !state.is_forgiven && !failures.is_empty() && !std::thread::panicking() {
            panic_when_dropped(&failures.join("\n"), state.failures.is_empty());
        }
    }
}

fn has_ended(task: &Value) -> bool {
    !matches!(
        task["status"]["state"].as_str(),
        Some("TASK_STATE_WORKING" | "TASK_STATE_INPUT_REQUIRED")
    )
}

fn said(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_AGENT", "parts": [{"text": text}]})
}

fn result(result: Value) -> Responses {
    Box::pin(stream::iter([json!({"result": result})]))
}

fn error(code: i32, message: &str) -> Responses {
    Box::pin(stream::iter([json!({"error": {"code": code, "message": message}})]))
}
