//! Implements `ScriptedMcp`, an in-process server of the Model Context Protocol that answers from a
//! script and collects mismatches. Only the server is replaced.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentflow::__private::watch_errors;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::Notify;

use crate::run_error::panic_when_dropped;
use crate::scripted_mcp_answer::McpAnswer;

/// A server of the Model Context Protocol with tools and the answers to their calls, in order. It
/// may also have resources and prompts with their own answers. Clones share the script: give
/// [`connect`](Self::connect) of one clone to a client and keep another.
///
/// A script fails on a tool call when no answer is left or the next answer is for another tool, in
/// the same way on reads of resources and requests for prompts, on a message that the protocol does
/// not have, and on an unused answer. [`finish`](Self::finish) panics with all failures, and so
/// does dropping the last clone.
///
/// The server speaks protocol revision 2025-11-25, with a handshake, or
/// [2026-07-28](Self::without_handshake).
///
/// ```
/// use agentflow_testing::{McpAnswer, ScriptedMcp};
/// use serde_json::json;
///
/// let server = ScriptedMcp::new([ScriptedMcp::tool("add", json!({"a": {"type": "integer"}}))])
///     .answers([("add", McpAnswer::text("3"))]);
/// let connection = server.connect();
/// # drop(connection);
/// // McpClient::in_memory("sums", { let server = server.clone(); move || server.connect() })
/// # let failures = server.failures();
/// # assert_eq!(failures, ["1 answers were never asked for, the next one for `add`"]);
/// # server.forgive();
/// ```
#[derive(Clone)]
pub struct ScriptedMcp(Arc<Script>);

struct Script {
    state: Mutex<ScriptState>,
    has_handshake: bool,
    page: usize,
    changed: Notify,
}

type Answering = Box<dyn Fn(&str, &Value) -> McpAnswer + Send + Sync>;

#[derive(Default)]
struct ScriptState {
    /// Answers all calls, if no answers are scripted.
    answering: Option<Answering>,
    tools: Vec<Value>,
    answers: VecDeque<(String, McpAnswer)>,
    calls: Vec<(String, Value)>,
    resources: Option<Vec<Value>>,
    templates: Vec<Value>,
    reads: Vec<String>,
    answers_to_reads: VecDeque<(String, McpAnswer)>,
    prompts: Option<Vec<Value>>,
    prompted: Vec<(String, Value)>,
    answers_to_prompts: VecDeque<(String, McpAnswer)>,
    /// Time to live of a list, in milliseconds.
    fresh_for: u64,
    /// Number of requests for each list.
    listed: HashMap<String, usize>,
    /// Answers that follow open questions, by the request state that the client sends back or the
    /// id of the question.
    asked: HashMap<String, ScriptedQuestion>,
    questions: usize,
    answered: Vec<Value>,
    connections: usize,
    cancelled: usize,
    failures: Vec<String>,
    is_forgiven: bool,
}

/// A question that is open, or that was answered on a connection that was lost.
#[derive(Clone)]
struct ScriptedQuestion {
    /// Id of the call that asks, and its progress token.
    call: (Value, Value),
    then: McpAnswer,
}

impl ScriptedMcp {
    /// Creates a server with these tools, each in the form of `tools/list`.
    pub fn new(tools: impl IntoIterator<Item = Value>) -> Self {
        watch_errors();
        let state = ScriptState { tools: tools.into_iter().collect(), ..ScriptState::default() };
        Self(Arc::new(Script {
            state: Mutex::new(state),
            has_handshake: true,
            page: usize::MAX,
            changed: Notify::new(),
        }))
    }

    /// Creates a server with these tools that computes the answer to every call from the name of
    /// the tool and the arguments.
    pub fn from_fn(
        tools: impl IntoIterator<Item = Value>,
        answer: impl Fn(&str, &Value) -> McpAnswer + Send + Sync + 'static,
    ) -> Self {
        let server = Self::new(tools);
        server.state().answering = Some(Box::new(answer));
        server
    }

    /// Returns the definition of a tool with these properties as optional arguments.
    pub fn tool(name: &str, properties: Value) -> Value {
        let schema = json!({"type": "object", "properties": properties});
        json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema})
    }

    /// Lists these resources, each in the form of `resources/list`.
    #[must_use]
    pub fn resources(self, resources: impl IntoIterator<Item = Value>) -> Self {
        self.state().resources = Some(resources.into_iter().collect());
        self
    }

    /// Lists these resource templates, each in the form of `resources/templates/list`.
    #[must_use]
    pub fn resource_templates(self, templates: impl IntoIterator<Item = Value>) -> Self {
        self.state().templates = templates.into_iter().collect();
        self.state().resources.get_or_insert_default();
        self
    }

    /// Lists these prompts, each in the form of `prompts/list`.
    #[must_use]
    pub fn prompts(self, prompts: impl IntoIterator<Item = Value>) -> Self {
        self.state().prompts = Some(prompts.into_iter().collect());
        self
    }

    /// Adds answers to reads of resources, each with the URI of the resource.
    #[must_use]
    pub fn answers_reads<'a>(
        self,
        answers: impl IntoIterator<Item = (&'a str, McpAnswer)>,
    ) -> Self {
        self.state()
            .answers_to_reads
            .extend(answers.into_iter().map(|(uri, answer)| (uri.to_owned(), answer)));
        self.state().resources.get_or_insert_default();
        self
    }

    /// Adds answers to requests for prompts, each with the name of the prompt.
    #[must_use]
    pub fn answers_prompts<'a>(
        self,
        answers: impl IntoIterator<Item = (&'a str, McpAnswer)>,
    ) -> Self {
        self.state()
            .answers_to_prompts
            .extend(answers.into_iter().map(|(name, answer)| (name.to_owned(), answer)));
        self.state().prompts.get_or_insert_default();
        self
    }

    /// Sets the time to live of its lists (`ttlMs`). Default: zero. Only revision 2026-07-28 has
    /// this field.
    #[must_use]
    pub fn lists_count_for(self, time: Duration) -> Self {
        self.state().fresh_for = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Speaks revision 2026-07-28, which has no handshake.
    ///
    /// # Panics
    /// If the server has been cloned.
    #[must_use]
    pub fn without_handshake(mut self) -> Self {
        Arc::get_mut(&mut self.0).expect("said before it is cloned").has_handshake = false;
        self
    }

    /// Sets the page size of the lists of tools, resources and prompts. Default: no paging.
    ///
    /// # Panics
    /// If the server has been cloned.
    #[must_use]
    pub fn paged(mut self, tools: usize) -> Self {
        Arc::get_mut(&mut self.0).expect("said before it is cloned").page = tools.max(1);
        self
    }

    /// Adds answers to tool calls, each with the name of the tool.
    #[must_use]
    pub fn answers<'a>(self, answers: impl IntoIterator<Item = (&'a str, McpAnswer)>) -> Self {
        self.state()
            .answers
            .extend(answers.into_iter().map(|(tool, answer)| (tool.to_owned(), answer)));
        self
    }

    /// Returns a connection to the server, which handles it in a separate task. Outside of a tokio
    /// runtime, the connection is closed.
    pub fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 << 10);
        self.state().connections += 1;
        // Without a runtime, the other end is dropped, so the client sees a closed connection.
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::spawn(Arc::clone(&self.0).serve(far));
        }
        near
    }

    /// Returns the tool calls so far, with names and arguments. A call that continues with the
    /// answer to a question is not counted again.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.state().calls.clone()
    }

    /// Returns the URIs of the resources that were read so far.
    pub fn reads(&self) -> Vec<String> {
        self.state().reads.clone()
    }

    /// Returns the prompts that were requested so far, with names and arguments.
    pub fn prompted(&self) -> Vec<(String, Value)> {
        self.state().prompted.clone()
    }

    /// Returns how often a list was requested, such as `resources/list`. Each page counts.
    pub fn listed(&self, request: &str) -> usize {
        self.state().listed.get(request).copied().unwrap_or_default()
    }

    /// Returns the client's answers to questions so far, such as
    /// `{"action": "accept", "content": {"seat": "window"}}`.
    pub fn answered(&self) -> Vec<Value> {
        self.state().answered.clone()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// Returns the number of requests that the client has cancelled.
    pub fn cancelled(&self) -> usize {
        self.state().cancelled
    }

    /// Waits until `so_far` returns `true`. It is evaluated at once and after each message from a
    /// client. There is no time limit; see [`within`](crate::within()).
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn wait_until(&self, so_far: impl Fn(&Self) -> bool) {
        loop {
            // Register for changes before the check, so that no change is missed.
            let changed = self.0.changed.notified();
            if so_far(self) {
                return;
            }
            changed.await;
        }
    }

    /// Returns the mismatches so far, and the number of unused answers.
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

    /// Accepts all failures, for a test that expects them. Dropping the server then does not panic.
    pub fn forgive(&self) {
        self.state().is_forgiven = true;
    }

    fn state(&self) -> MutexGuard<'_, ScriptState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ScriptedMcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedMcp").field("calls", &self.calls().len()).finish_non_exhaustive()
    }
}

impl ScriptState {
    fn all_failures(&self) -> Vec<String> {
        let queues = [&self.answers, &self.answers_to_reads, &self.answers_to_prompts].into_iter();
        let left = queues.filter_map(|answers| {
            let (of, _) = answers.front()?;
            Some(format!("{} answers were never asked for, the next one for `{of}`", answers.len()))
        });
        self.failures.iter().cloned().chain(left).collect()
    }

    /// Returns the key and the items of a list, by the method that requests it.
    fn list(&self, request: &str) -> Option<(&'static str, &[Value])> {
        match request {
            "tools/list" => Some(("tools", &self.tools)),
            "resources/list" => Some(("resources", self.resources.as_deref()?)),
            "resources/templates/list" => {
                self.resources.as_ref().map(|_| ("resourceTemplates", &*self.templates))
            }
            "prompts/list" => Some(("prompts", self.prompts.as_deref()?)),
            _ => None,
        }
    }

    /// Returns the next answer to a call, a read or a prompt request with this name.
    fn due(&mut self, method: &str, name: &str, params: &Value) -> Result<McpAnswer, String> {
        let (what, due) = match method {
            "resources/read" => {
                self.reads.push(name.to_owned());
                ("read", self.answers_to_reads.pop_front())
            }
            "prompts/get" => {
                self.prompted.push((name.to_owned(), params["arguments"].clone()));
                ("asked for as a prompt", self.answers_to_prompts.pop_front())
            }
            _ => {
                self.calls.push((name.to_owned(), params["arguments"].clone()));
                let answer = self
                    .answering
                    .as_ref()
                    .map(|answer| (name.to_owned(), answer(name, &params["arguments"])));
                ("called", answer.or_else(|| self.answers.pop_front()))
            }
        };
        match due {
            Some((of, answer)) if of == name => Ok(answer),
            other => {
                let due = other
                    .map_or("no answer is left".to_owned(), |(of, _)| format!("`{of}` was due"));
                let problem = format!("`{name}` was {what}, and {due}");
                self.failures.push(problem.clone());
                Err(problem)
            }
        }
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

impl Script {
    async fn serve(self: Arc<Self>, stream: DuplexStream) {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        let mut listener = None;
        while let Ok(Some(line)) = lines.next_line().await {
            let done = match serde_json::from_str::<Value>(&line) {
                Ok(message) => self.message(&message, &mut listener),
                Err(error) => {
                    self.failed(format!("this is not a message: {error}: {line}"));
                    Some(Vec::new())
                }
            };
            // After the message was handled, so that `wait_until` sees its effect.
            self.changed.notify_waiters();
            let Some(bytes) = done else { return };
            if write.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }

    fn failed(&self, failure: String) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failures.push(failure);
    }

    /// Returns the bytes to send after a message; `None` closes the connection. `listener` is the
    /// id of the request that subscribed to changes.
    fn message(&self, message: &Value, listener: &mut Option<Value>) -> Option<Vec<u8>> {
        let (method, id) = (message["method"].as_str().unwrap_or_default(), message["id"].clone());
        let result = |result: Value| {
            Some(line(&json!({"jsonrpc": "2.0", "id": id, "result": self.add_result_type(result)})))
        };
        let error = |code: i32, message: &str| {
            Some(line(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
            ))
        };
        let about = json!({"name": "scripted", "version": "1"});
        let capabilities = self.capabilities();
        match method {
            "initialize" if self.has_handshake => result(
                json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}),
            ),
            "server/discover" if !self.has_handshake => result(json!({
                "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": about},
            })),
            // Each revision has one of these two methods; the other one is unknown to it.
            "initialize" | "server/discover" => error(-32601, "there is no such method"),
            "notifications/initialized" => Some(Vec::new()),
            "notifications/cancelled" => {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).cancelled += 1;
                Some(Vec::new())
            }
            "ping" => result(json!({})),
            "subscriptions/listen" if !self.has_handshake => {
                // Change notifications refer to the subscription by the id of this request.
                *listener = Some(id.clone());
                let params = json!({
                    "notifications": message["params"]["notifications"],
                    "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                });
                let method = "notifications/subscriptions/acknowledged";
                Some(line(&json!({"jsonrpc": "2.0", "method": method, "params": params})))
            }
            // A message without a method is the response to an elicitation, which has a string as
            // its id.
            "" if id.is_string() => self.answer_to_question(message, listener.as_ref()),
            "tools/call" | "resources/read" | "prompts/get" => {
                let params = &message["params"];
                let key = if method == "resources/read" { "uri" } else { "name" };
                let name = params[key].as_str().unwrap_or_default();
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                // A repeated call with the answer to its question is not counted as another call.
                if let Some(token) = params["requestState"].as_str() {
                    return self.continued(&mut state, (token, &id), params, listener.as_ref());
                }
                match state.due(method, name, params) {
                    Ok(answer) => self.answer(
                        &mut state,
                        answer,
                        &id,
                        &params["_meta"]["progressToken"],
                        listener.as_ref(),
                    ),
                    Err(problem) => error(-32603, &problem),
                }
            }
            _ if method.ends_with("/list") => match self.page(method, &message["params"]["cursor"])
            {
                Some(page) => result(page),
                None => error(-32601, "there is no such method"),
            },
            _ => {
                self.failed(format!("the script has no answer to `{method}`"));
                error(-32601, "there is no such method")
            }
        }
    }

    fn capabilities(&self) -> Value {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut capabilities = json!({"tools": {"listChanged": true}});
        for (what, has) in
            [("resources", state.resources.is_some()), ("prompts", state.prompts.is_some())]
        {
            if has {
                capabilities[what] = json!({"listChanged": true});
            }
        }
        capabilities
    }

    /// Returns a page of a list.
    fn page(&self, request: &str, cursor: &Value) -> Option<Value> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state.listed.entry(request.to_owned()).or_default() += 1;
        let (what, all) = state.list(request)?;
        // The cursor is the index of the first item of the page.
        let from: usize =
            cursor.as_str().and_then(|at| at.parse().ok()).unwrap_or(0).min(all.len());
        let to = from.saturating_add(self.page).min(all.len());
        let next = (to < all.len()).then(|| to.to_string());
        let mut page = json!({what: all[from..to], "nextCursor": next});
        if !self.has_handshake {
            page["ttlMs"] = state.fresh_for.into();
            page["cacheScope"] = "private".into();
        }
        Some(page)
    }

    /// Returns a notification that a list has changed.
    fn changed(what: &str, listener: Option<&Value>) -> Vec<u8> {
        let mut said =
            json!({"jsonrpc": "2.0", "method": format!("notifications/{what}/list_changed")});
        if let Some(listener) = listener {
            said["params"] = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": listener}});
        }
        line(&said)
    }

    /// Handles a repeated call with the answer to its question (revision 2026-07-28).
    fn continued(
        &self,
        state: &mut ScriptState,
        (token, id): (&str, &Value),
        params: &Value,
        listener: Option<&Value>,
    ) -> Option<Vec<u8>> {
        let answer = &params["inputResponses"]["asked"];
        // The question is kept, because a client may repeat the call on a new connection.
        let Some(asked) = state.asked.get(token).filter(|_| answer["action"].is_string()).cloned()
        else {
            let problem = format!("a call continues with what was never asked: {params}");
            state.failures.push(problem.clone());
            return Some(line(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": problem}}),
            ));
        };
        state.answered.push(answer.clone());
        self.answer(state, asked.then, id, &params["_meta"]["progressToken"], listener)
    }

    /// Handles the client's response to a question on the same connection (revision 2025-11-25).
    fn answer_to_question(&self, message: &Value, listener: Option<&Value>) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let question = message["id"].as_str().unwrap_or_default();
        let Some(ScriptedQuestion { call: (id, token), then }) = state.asked.remove(question)
        else {
            state.failures.push(format!("this answers nothing that was asked: {message}"));
            return Some(Vec::new());
        };
        let answer =
            if message["result"].is_object() { &message["result"] } else { &message["error"] };
        state.answered.push(answer.clone());
        self.answer(&mut state, then, &id, &token, listener)
    }

    fn answer(
        &self,
        state: &mut ScriptState,
        answer: McpAnswer,
        id: &Value,
        token: &Value,
        listener: Option<&Value>,
    ) -> Option<Vec<u8>> {
        match answer {
            McpAnswer::Result(result) => Some(line(
                &json!({"jsonrpc": "2.0", "id": id, "result": self.add_result_type(result)}),
            )),
            McpAnswer::Error(code, message) => Some(line(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
            )),
            McpAnswer::Raw(bytes) => Some(bytes),
            McpAnswer::Silence => Some(Vec::new()),
            McpAnswer::HangUp => None,
            McpAnswer::Progress(words, then) => {
                let mut bytes = Vec::new();
                for mut word in words {
                    word["progressToken"] = token.clone();
                    bytes.extend(line(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": word})));
                }
                bytes.extend(self.answer(state, *then, id, token, listener)?);
                Some(bytes)
            }
            McpAnswer::Asks(params, then) => {
                state.questions += 1;
                let question = format!("asked-{}", state.questions);
                state.asked.insert(
                    question.clone(),
                    ScriptedQuestion { call: (id.clone(), token.clone()), then: *then },
                );
                let request = json!({"method": "elicitation/create", "params": params});
                // Revision 2025-11-25 sends a request to the client. Revision 2026-07-28 returns
                // the question as the result of the call.
                Some(line(&match self.has_handshake {
                    true => {
                        json!({"jsonrpc": "2.0", "id": question, "method": request["method"], "params": params})
                    }
                    false => json!({"jsonrpc": "2.0", "id": id, "result": {
                        "resultType": "input_required", "inputRequests": {"asked": request}, "requestState": question,
                    }}),
                }))
            }
            McpAnswer::NewTools(tools, then) => {
                state.tools = tools;
                self.after(Self::changed("tools", listener), state, *then, (id, token), listener)
            }
            McpAnswer::NewResources(resources, then) => {
                state.resources = Some(resources);
                self.after(
                    Self::changed("resources", listener),
                    state,
                    *then,
                    (id, token),
                    listener,
                )
            }
            McpAnswer::NewPrompts(prompts, then) => {
                state.prompts = Some(prompts);
                self.after(Self::changed("prompts", listener), state, *then, (id, token), listener)
            }
        }
    }

    /// Returns these bytes followed by the answer.
    fn after(
        &self,
        mut bytes: Vec<u8>,
        state: &mut ScriptState,
        then: McpAnswer,
        (id, token): (&Value, &Value),
        listener: Option<&Value>,
    ) -> Option<Vec<u8>> {
        bytes.extend(self.answer(state, then, id, token, listener)?);
        Some(bytes)
    }

    /// Adds the `resultType` that results of revision 2026-07-28 need.
    fn add_result_type(&self, mut result: Value) -> Value {
        if !self.has_handshake
            && let Value::Object(result) = &mut result
        {
            result.entry("resultType").or_insert_with(|| "complete".into());
        }
        result
    }
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
