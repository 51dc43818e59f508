//! `ScriptedMcp`: a server of the Model Context Protocol in this process, which answers as a script says and keeps every
//! mismatch. It replaces the server and nothing else.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentflow::__private::watch_errors;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::Notify;

use crate::run_error::panic_when_dropped;
use crate::scripted_mcp_answer::McpAnswer;

/// A server of the Model Context Protocol with tools and with the answers to their calls, in their order; it may have
/// resources and prompts with answers of their own. Clones share one script: give [`connect`](Self::connect) to a client and keep one.
///
/// What fails a script: a call of a tool that no answer is left for, or of another tool than its answer expects; the same of
/// a resource and of a prompt; a message that the protocol does not have; an answer that was never asked for. [`finish`](Self::finish) panics with all of it, and
/// so does dropping the last clone.
///
/// It speaks the revision 2025-11-25, with a handshake, or [2026-07-28](Self::without_handshake).
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
    state: Mutex<State>,
    has_handshake: bool,
    page: usize,
    changed: Notify,
}

type Answering = Box<dyn Fn(&str, &Value) -> McpAnswer + Send + Sync>;

#[derive(Default)]
struct State {
    /// What answers all calls, where no answers are scripted.
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
    /// Milliseconds that a list counts.
    fresh_for: u64,
    /// How often each list was asked for.
    listed: HashMap<String, usize>,
    /// What is answered when a question is: by the state that the client sends back, or the id of the question.
    asked: HashMap<String, Asked>,
    questions: usize,
    answered: Vec<Value>,
    connections: usize,
    cancelled: usize,
    failures: Vec<String>,
    is_forgiven: bool,
}

/// A question that is open, or answered on a connection that was lost.
#[derive(Clone)]
struct Asked {
    /// The call on the connection that asks, and the token of its progress.
    call: (Value, Value),
    then: McpAnswer,
}

impl ScriptedMcp {
    /// A server with these tools, each as `tools/list` gives it.
    pub fn new(tools: impl IntoIterator<Item = Value>) -> Self {
        watch_errors();
        let state = State { tools: tools.into_iter().collect(), ..State::default() };
        Self(Arc::new(Script {
            state: Mutex::new(state),
            has_handshake: true,
            page: usize::MAX,
            changed: Notify::new(),
        }))
    }

    /// A server with these tools that answers every call as the function says: its tool, its arguments.
    pub fn from_fn(
        tools: impl IntoIterator<Item = Value>,
        answer: impl Fn(&str, &Value) -> McpAnswer + Send + Sync + 'static,
    ) -> Self {
        let server = Self::new(tools);
        server.state().answering = Some(Box::new(answer));
        server
    }

    /// A tool whose arguments are these properties, none of them required.
    pub fn tool(name: &str, properties: Value) -> Value {
        let schema = json!({"type": "object", "properties": properties});
        json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema})
    }

    /// Lists these resources, each as `resources/list` gives it.
    #[must_use]
    pub fn resources(self, resources: impl IntoIterator<Item = Value>) -> Self {
        self.state().resources = Some(resources.into_iter().collect());
        self
    }

    /// Lists these templates of resources, each as `resources/templates/list` gives it.
    #[must_use]
    pub fn resource_templates(self, templates: impl IntoIterator<Item = Value>) -> Self {
        self.state().templates = templates.into_iter().collect();
        self.state().resources.get_or_insert_default();
        self
    }

    /// Lists these prompts, each as `prompts/list` gives it.
    #[must_use]
    pub fn prompts(self, prompts: impl IntoIterator<Item = Value>) -> Self {
        self.state().prompts = Some(prompts.into_iter().collect());
        self
    }

    /// Adds answers to reads of resources, each with the address that is read.
    #[must_use]
    pub fn answers_reads<'a>(self, answers: impl IntoIterator<Item = (&'a str, McpAnswer)>) -> Self {
        self.state().answers_to_reads.extend(answers.into_iter().map(|(uri, answer)| (uri.to_owned(), answer)));
        self.state().resources.get_or_insert_default();
        self
    }

    /// Adds answers to requests for prompts, each with the name of the prompt.
    #[must_use]
    pub fn answers_prompts<'a>(self, answers: impl IntoIterator<Item = (&'a str, McpAnswer)>) -> Self {
        self.state().answers_to_prompts.extend(answers.into_iter().map(|(name, answer)| (name.to_owned(), answer)));
        self.state().prompts.get_or_insert_default();
        self
    }

    /// Says that its lists count so long; without it for no time at all. Only the revision 2026-07-28 says so.
    #[must_use]
    pub fn lists_count_for(self, time: Duration) -> Self {
        self.state().fresh_for = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Speaks the revision 2026-07-28, which has no handshake.
    ///
    /// # Panics
    /// When it has been cloned.
    #[must_use]
    pub fn without_handshake(mut self) -> Self {
        Arc::get_mut(&mut self.0).expect("said before it is cloned").has_handshake = false;
        self
    }

    /// Lists so many tools on a page, and so many resources and prompts.
    ///
    /// # Panics
    /// When it has been cloned.
    #[must_use]
    pub fn paged(mut self, tools: usize) -> Self {
        Arc::get_mut(&mut self.0).expect("said before it is cloned").page = tools.max(1);
        self
    }

    /// Adds answers to calls, each with the name of the tool that is called.
    #[must_use]
    pub fn answers<'a>(self, answers: impl IntoIterator<Item = (&'a str, McpAnswer)>) -> Self {
        self.state().answers.extend(answers.into_iter().map(|(tool, answer)| (tool.to_owned(), answer)));
        self
    }

    /// A connection to it; it serves on a task of its own, so this is called within a tokio runtime.
    pub fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 << 10);
        self.state().connections += 1;
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::spawn(Arc::clone(&self.0).serve(far));
        }
        near
    }

    /// The calls of tools so far: their names and arguments. One that continues with the answer to a question is not
    /// another call.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.state().calls.clone()
    }

    /// The addresses that were read so far.
    pub fn reads(&self) -> Vec<String> {
        self.state().reads.clone()
    }

    /// The prompts that were asked for so far: their names and arguments.
    pub fn prompted(&self) -> Vec<(String, Value)> {
        self.state().prompted.clone()
    }

    /// How often a list was asked for, such as `resources/list`; each page counts.
    pub fn listed(&self, request: &str) -> usize {
        self.state().listed.get(request).copied().unwrap_or_default()
    }

    /// What the client has answered to questions so far, such as `{"action": "accept", "content": {"seat": "window"}}`.
    pub fn answered(&self) -> Vec<Value> {
        self.state().answered.clone()
    }

    /// How often it was connected to.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// How many requests the client has cancelled.
    pub fn cancelled(&self) -> usize {
        self.state().cancelled
    }

    /// Waits until `so_far` is true of the script. It is asked whenever a message has arrived.
    pub async fn wait_until(&self, so_far: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if so_far(self) {
                return;
            }
            changed.await;
        }
    }

    /// What was otherwise than the script says.
    pub fn failures(&self) -> Vec<String> {
        self.state().all_failures()
    }

    /// Ends the check of the script.
    ///
    /// # Panics
    /// With everything that was otherwise than scripted.
    #[track_caller]
    pub fn finish(&self) {
        let failures = self.failures();
        self.forgive();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// Says that what failed was wanted.
    pub fn forgive(&self) {
        self.state().is_forgiven = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ScriptedMcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedMcp").field("calls", &self.calls().len()).finish_non_exhaustive()
    }
}

impl State {
    fn all_failures(&self) -> Vec<String> {
        let queues = [&self.answers, &self.answers_to_reads, &self.answers_to_prompts].into_iter();
        let left = queues.filter_map(|answers| {
            let (of, _) = answers.front()?;
            Some(format!("{} answers were never asked for, the next one for `{of}`", answers.len()))
        });
        self.failures.iter().cloned().chain(left).collect()
    }

    /// What the server has, by the name of a list's request.
    fn list(&self, request: &str) -> Option<(&'static str, &[Value])> {
        match request {
            "tools/list" => Some(("tools", &self.tools)),
            "resources/list" => Some(("resources", self.resources.as_deref()?)),
            "resources/templates/list" => self.resources.as_ref().map(|_| ("resourceTemplates", &*self.templates)),
            "prompts/list" => Some(("prompts", self.prompts.as_deref()?)),
            _ => None,
        }
    }

    /// The answer that is due to a request for something of this name.
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
                let answer =
                    self.answering.as_ref().map(|answer| (name.to_owned(), answer(name, &params["arguments"])));
                ("called", answer.or_else(|| self.answers.pop_front()))
            }
        };
        match due {
            Some((of, answer)) if of == name => Ok(answer),
            other => {
                let due = other.map_or("no answer is left".to_owned(), |(of, _)| format!("`{of}` was due"));
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

    /// What is answered to a message; `None` ends the connection. `listener`: the request that hears of changes.
    fn message(&self, message: &Value, listener: &mut Option<Value>) -> Option<Vec<u8>> {
        let (method, id) = (message["method"].as_str().unwrap_or_default(), message["id"].clone());
        let result = |result: Value| Some(line(&json!({"jsonrpc": "2.0", "id": id, "result": self.of_era(result)})));
        let error = |code: i32, message: &str| {
            Some(line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})))
        };
        let about = json!({"name": "scripted", "version": "1"});
        let capabilities = self.capabilities();
        match method {
            "initialize" if self.has_handshake => {
                result(json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}))
            }
            "server/discover" if !self.has_handshake => result(json!({
                "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": about},
            })),
            "initialize" | "server/discover" => error(-32601, "there is no such method"),
            "notifications/initialized" => Some(Vec::new()),
            "notifications/cancelled" => {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).cancelled += 1;
                Some(Vec::new())
            }
            "ping" => result(json!({})),
            "subscriptions/listen" if !self.has_handshake => {
                *listener = Some(id.clone());
                let params = json!({
                    "notifications": message["params"]["notifications"],
                    "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                });
                let method = "notifications/subscriptions/acknowledged";
                Some(line(&json!({"jsonrpc": "2.0", "method": method, "params": params})))
            }
            "" if id.is_string() => self.answer_to_question(message, listener.as_ref()),
            "tools/call" | "resources/read" | "prompts/get" => {
                let params = &message["params"];
                let key = if method == "resources/read" { "uri" } else { "name" };
                let name = params[key].as_str().unwrap_or_default();
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(token) = params["requestState"].as_str() {
                    return self.continued(&mut state, (token, &id), params, listener.as_ref());
                }
                match state.due(method, name, params) {
                    Ok(answer) => {
                        self.answer(&mut state, answer, &id, &params["_meta"]["progressToken"], listener.as_ref())
                    }
                    Err(problem) => error(-32603, &problem),
                }
            }
            _ if method.ends_with("/list") => match self.page(method, &message["params"]["cursor"]) {
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
        for (what, has) in [("resources", state.resources.is_some()), ("prompts", state.prompts.is_some())] {
            if has {
                capabilities[what] = json!({"listChanged": true});
            }
        }
        capabilities
    }

    /// A page of a list.
    fn page(&self, request: &str, cursor: &Value) -> Option<Value> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state.listed.entry(request.to_owned()).or_default() += 1;
        let (what, all) = state.list(request)?;
        let from: usize = cursor.as_str().and_then(|at| at.parse().ok()).unwrap_or(0).min(all.len());
        let to = from.saturating_add(self.page).min(all.len());
        let next = (to < all.len()).then(|| to.to_string());
        let mut page = json!({what: all[from..to], "nextCursor": next});
        if !self.has_handshake {
            page["ttlMs"] = state.fresh_for.into();
            page["cacheScope"] = "private".into();
        }
        Some(page)
    }

    /// A word that a list has changed.
    fn changed(what: &str, listener: Option<&Value>) -> Vec<u8> {
        let mut said = json!({"jsonrpc": "2.0", "method": format!("notifications/{what}/list_changed")});
        if let Some(listener) = listener {
            said["params"] = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": listener}});
        }
        line(&said)
    }

    /// A call continues with the answer to its question.
    fn continued(
        &self,
        state: &mut State,
        (token, id): (&str, &Value),
        params: &Value,
        listener: Option<&Value>,
    ) -> Option<Vec<u8>> {
        let answer = &params["inputResponses"]["asked"];
        let Some(asked) = state.asked.get(token).filter(|_| answer["action"].is_string()).cloned() else {
            let problem = format!("a call continues with what was never asked: {params}");
            state.failures.push(problem.clone());
            return Some(line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": problem}})));
        };
        state.answered.push(answer.clone());
        self.answer(state, asked.then, id, &params["_meta"]["progressToken"], listener)
    }

    /// The client answers a question on the connection that asks it.
    fn answer_to_question(&self, message: &Value, listener: Option<&Value>) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let question = message["id"].as_str().unwrap_or_default();
        let Some(Asked { call: (id, token), then }) = state.asked.remove(question) else {
            state.failures.push(format!("this answers nothing that was asked: {message}"));
            return Some(Vec::new());
        };
        let answer = if message["result"].is_object() { &message["result"] } else { &message["error"] };
        state.answered.push(answer.clone());
        self.answer(&mut state, then, &id, &token, listener)
    }

    fn answer(
        &self,
        state: &mut State,
        answer: McpAnswer,
        id: &Value,
        token: &Value,
        listener: Option<&Value>,
    ) -> Option<Vec<u8>> {
        match answer {
            McpAnswer::Result(result) => {
                Some(line(&json!({"jsonrpc": "2.0", "id": id, "result": self.of_era(result)})))
            }
            McpAnswer::Error(code, message) => {
                Some(line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})))
            }
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
                state.asked.insert(question.clone(), Asked { call: (id.clone(), token.clone()), then: *then });
                let request = json!({"method": "elicitation/create", "params": params});
                Some(line(&match self.has_handshake {
                    true => json!({"jsonrpc": "2.0", "id": question, "method": request["method"], "params": params}),
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
                self.after(Self::changed("resources", listener), state, *then, (id, token), listener)
            }
            McpAnswer::NewPrompts(prompts, then) => {
                state.prompts = Some(prompts);
                self.after(Self::changed("prompts", listener), state, *then, (id, token), listener)
            }
        }
    }

    /// These bytes, and then the answer.
    fn after(
        &self,
        mut bytes: Vec<u8>,
        state: &mut State,
        then: McpAnswer,
        (id, token): (&Value, &Value),
        listener: Option<&Value>,
    ) -> Option<Vec<u8>> {
        bytes.extend(self.answer(state, then, id, token, listener)?);
        Some(bytes)
    }

    /// Results without a handshake say that they are whole.
    fn of_era(&self, mut result: Value) -> Value {
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
