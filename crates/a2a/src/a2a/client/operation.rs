//! The operations of the protocol, and their requests in the bindings JSON-RPC and HTTP+JSON.

use std::time::SystemTime;

use reqwest::{Method, Url};
use serde_json::{Map, Value, json};

use super::super::{A2aMessage, A2aPushConfig, A2aTaskState};

/// Protocol binding of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    JsonRpc,
    HttpJson,
}

impl Binding {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "JSONRPC" => Some(Self::JsonRpc),
            "HTTP+JSON" => Some(Self::HttpJson),
            _ => None,
        }
    }
}

/// An operation with its parameters, independent of the binding.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) is_stream: bool,
    params: Map<String, Value>,
}

/// A filter for a list of tasks. Default: all tasks.
///
/// ```
/// use agentflow::a2a::{A2aTaskQuery, A2aTaskState};
///
/// let query = A2aTaskQuery::default().context("support-3").state(A2aTaskState::Working).page_size(20);
/// # drop(query);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct A2aTaskQuery {
    /// Selects tasks of this conversation.
    pub context: Option<String>,
    /// Selects tasks in this state.
    pub state: Option<A2aTaskState>,
    /// Maximum number of tasks per page, 1 to 100. Default: the server's default.
    pub page_size: Option<u32>,
    /// Token of the page, from
    /// [`A2aTasks::next_page_token`](super::super::A2aTasks::next_page_token).
    pub page_token: Option<String>,
    /// Selects tasks whose state changed after this time.
    pub changed_after: Option<SystemTime>,
    /// Maximum number of messages per task, newest first. Default: the server decides, often none.
    pub history: Option<u32>,
    /// Includes the artifacts of the tasks.
    pub with_artifacts: bool,
}

impl A2aTaskQuery {
    /// Selects tasks of a conversation.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Selects tasks in a state.
    #[must_use]
    pub fn state(mut self, state: A2aTaskState) -> Self {
        self.state = Some(state);
        self
    }

    /// Selects tasks whose state changed after a time.
    #[must_use]
    pub fn changed_after(mut self, time: SystemTime) -> Self {
        self.changed_after = Some(time);
        self
    }

    /// Sets the maximum number of tasks per page.
    #[must_use]
    pub fn page_size(mut self, tasks: u32) -> Self {
        self.page_size = Some(tasks);
        self
    }

    /// Requests the page with this token.
    #[must_use]
    pub fn page(mut self, token: impl Into<String>) -> Self {
        self.page_token = Some(token.into());
        self
    }

    /// Includes the newest messages of each task, at most `messages`.
    #[must_use]
    pub fn history(mut self, messages: u32) -> Self {
        self.history = Some(messages);
        self
    }

    /// Includes the artifacts of the tasks.
    #[must_use]
    pub fn with_artifacts(mut self) -> Self {
        self.with_artifacts = true;
        self
    }
}

/// An HTTP request for an operation.
pub(super) struct OperationRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Value>,
    pub(super) media_type: &'static str,
}

impl Operation {
    /// Creates the operation that sends a message. With `at_once` the server returns as soon as the
    /// task exists.
    pub(super) fn send(message: &A2aMessage, output_modes: &[String], at_once: bool) -> Self {
        let mut configuration = Map::new();
        if !output_modes.is_empty() {
            configuration.insert("acceptedOutputModes".to_owned(), json!(output_modes));
        }
        if at_once {
            configuration.insert("returnImmediately".to_owned(), true.into());
        }
        let mut params = object_fields(json!({"message": message}));
        if !configuration.is_empty() {
            params.insert("configuration".to_owned(), configuration.into());
        }
        Self { name: "SendMessage", is_stream: false, params }
    }

    pub(super) fn stream(message: &A2aMessage, output_modes: &[String]) -> Self {
        Self {
            name: "SendStreamingMessage",
            is_stream: true,
            ..Self::send(message, output_modes, false)
        }
    }

    pub(super) fn get(id: &str, history: Option<u32>) -> Self {
        let mut params = object_fields(json!({"id": id}));
        params.extend(history.map(|length| ("historyLength".to_owned(), length.into())));
        Self { name: "GetTask", is_stream: false, params }
    }

    pub(super) fn cancel(id: &str) -> Self {
        Self { name: "CancelTask", is_stream: false, params: object_fields(json!({"id": id})) }
    }

    pub(super) fn subscribe(id: &str) -> Self {
        Self { name: "SubscribeToTask", is_stream: true, params: object_fields(json!({"id": id})) }
    }

    pub(super) fn list(query: &A2aTaskQuery) -> Self {
        let fields = [
            ("contextId", query.context.as_deref().map(Value::from)),
            ("status", query.state.map(|state| state.as_str().into())),
            ("pageSize", query.page_size.map(Value::from)),
            ("pageToken", query.page_token.as_deref().map(Value::from)),
            (
                "statusTimestampAfter",
                query
                    .changed_after
                    .map(|time| humantime::format_rfc3339_millis(time).to_string().into()),
            ),
            ("historyLength", query.history.map(Value::from)),
            ("includeArtifacts", query.with_artifacts.then_some(true.into())),
        ];
        let params = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        Self { name: "ListTasks", is_stream: false, params }
    }

    /// Creates the operation that registers a push configuration for a task.
    pub(super) fn create_push_config(task: &str, config: &A2aPushConfig) -> Self {
        let mut params = object_fields(json!(config));
        params.insert("taskId".to_owned(), task.into());
        Self { name: "CreateTaskPushNotificationConfig", is_stream: false, params }
    }

    pub(super) fn push_config(task: &str, id: &str) -> Self {
        let params = object_fields(json!({"taskId": task, "id": id}));
        Self { name: "GetTaskPushNotificationConfig", is_stream: false, params }
    }

    pub(super) fn push_configs(task: &str, page: Option<&str>) -> Self {
        let mut params = object_fields(json!({"taskId": task}));
        params.extend(page.map(|page| ("pageToken".to_owned(), page.into())));
        Self { name: "ListTaskPushNotificationConfigs", is_stream: false, params }
    }

    pub(super) fn delete_push_config(task: &str, id: &str) -> Self {
        Self { name: "DeleteTaskPushNotificationConfig", ..Self::push_config(task, id) }
    }

    pub(super) fn extended_card() -> Self {
        Self { name: "GetExtendedAgentCard", is_stream: false, params: Map::new() }
    }

    /// Builds the HTTP request in a binding. `id` is the JSON-RPC id.
    ///
    /// # Errors
    /// A message, if the id of the task or of a configuration cannot be part of a URL.
    pub(super) fn wire(
        &self,
        binding: Binding,
        url: &Url,
        tenant: Option<&str>,
        id: u64,
    ) -> Result<OperationRequest, String> {
        match binding {
            Binding::JsonRpc => {
                let mut params = self.params.clone();
                params.extend(tenant.map(|tenant| ("tenant".to_owned(), tenant.into())));
                let body =
                    json!({"jsonrpc": "2.0", "id": id, "method": self.name, "params": params});
                Ok(OperationRequest {
                    method: Method::POST,
                    url: url.clone(),
                    body: Some(body),
                    media_type: "application/json",
                })
            }
            Binding::HttpJson => self.resource(url, tenant),
        }
    }

    /// Builds a request of the HTTP+JSON binding. Parameters that are not part of the path are sent
    /// in the body of a `POST`, or in the query otherwise.
    fn resource(&self, base: &Url, tenant: Option<&str>) -> Result<OperationRequest, String> {
        let mut params = self.params.clone();
        // The URL parser would drop an empty segment and resolve `.` and `..`, so such an id would
        // change the path.
        let taken = |name: &str, what: &str| match self.params.get(name).and_then(Value::as_str) {
            Some(id) if id.is_empty() || id == "." || id == ".." => {
                Err(format!("`{id}` is not the id of {what}"))
            }
            other => Ok(other.unwrap_or_default().to_owned()),
        };
        let is_push = self.params.contains_key("taskId");
        let task = taken(if is_push { "taskId" } else { "id" }, "a task")?;
        let configs = |more: Option<String>| {
            let first = ["tasks".to_owned(), task.clone(), "pushNotificationConfigs".to_owned()];
            first.into_iter().chain(more).collect::<Vec<_>>()
        };
        let config = || taken("id", "a push configuration");
        let (method, segments) = match self.name {
            // All parameters of a `Create` request are in its body.
            "CreateTaskPushNotificationConfig" => (Method::POST, configs(None)),
            "GetTaskPushNotificationConfig" => (Method::GET, configs(Some(config()?))),
            "ListTaskPushNotificationConfigs" => (Method::GET, configs(None)),
            "DeleteTaskPushNotificationConfig" => (Method::DELETE, configs(Some(config()?))),
            "GetExtendedAgentCard" => (Method::GET, vec!["extendedAgentCard".to_owned()]),
            "SendMessage" => (Method::POST, vec!["message:send".to_owned()]),
            "SendStreamingMessage" => (Method::POST, vec!["message:stream".to_owned()]),
            "GetTask" => (Method::GET, vec!["tasks".to_owned(), task]),
            "CancelTask" => (Method::POST, vec!["tasks".to_owned(), format!("{task}:cancel")]),
            "SubscribeToTask" => {
                (Method::GET, vec!["tasks".to_owned(), format!("{task}:subscribe")])
            }
            _ => (Method::GET, vec!["tasks".to_owned()]),
        };
        // Ids in the path are not repeated elsewhere. `Create` is the exception: its body is the
        // whole configuration.
        if method != Method::POST || !is_push {
            params.remove("id");
            params.remove("taskId");
        }
        let mut url = base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            // In this binding the tenant precedes the resource in the path.
            path.pop_if_empty().extend(tenant).extend(&segments);
        }
        let body = (method == Method::POST).then(|| {
            let mut body = std::mem::take(&mut params);
            body.extend(tenant.map(|tenant| ("tenant".to_owned(), tenant.into())));
            Value::from(body)
        });
        for (name, value) in &params {
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            url.query_pairs_mut().append_pair(name, &text);
        }
        Ok(OperationRequest { method, url, body, media_type: "application/a2a+json" })
    }
}

fn object_fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn wire(operation: &Operation, binding: Binding) -> (String, Option<Value>) {
        let base = Url::parse("https://agents.example/a2a/").unwrap();
        let wire = operation.wire(binding, &base, Some("blue"), 7).unwrap();
        (format!("{} {}", wire.method, wire.url), wire.body)
    }

    #[test]
    fn a_request_in_both_bindings() {
        let message = A2aMessage::user_text("Hello").id("m-1").context("c-1");
        let sent = json!({
            "messageId": "m-1", "contextId": "c-1", "role": "ROLE_USER", "parts": [{"text": "Hello"}],
        });
        let send = Operation::send(&message, &["text/plain".to_owned()], true);
        let configuration =
            json!({"acceptedOutputModes": ["text/plain"], "returnImmediately": true});
        assert_eq!(
            wire(&send, Binding::JsonRpc),
            (
                "POST https://agents.example/a2a/".to_owned(),
                Some(json!({
                    "jsonrpc": "2.0", "id": 7, "method": "SendMessage",
                    "params": {"message": sent, "configuration": configuration, "tenant": "blue"},
                }))
            )
        );
        assert_eq!(
            wire(&send, Binding::HttpJson),
            (
                "POST https://agents.example/a2a/blue/message:send".to_owned(),
                Some(json!({"message": sent, "configuration": configuration, "tenant": "blue"}))
            )
        );
        for (operation, resource) in [
            (
                Operation::stream(&message, &[]),
                "POST https://agents.example/a2a/blue/message:stream",
            ),
            (
                Operation::get("t/1?", Some(3)),
                "GET https://agents.example/a2a/blue/tasks/t%2F1%3F?historyLength=3",
            ),
            (Operation::cancel("t"), "POST https://agents.example/a2a/blue/tasks/t:cancel"),
            (Operation::subscribe("t"), "GET https://agents.example/a2a/blue/tasks/t:subscribe"),
            (
                Operation::list(&A2aTaskQuery::default().changed_after(UNIX_EPOCH)),
                "GET https://agents.example/a2a/blue/tasks?statusTimestampAfter=1970-01-01T00%3A00%3A00.000Z",
            ),
            (
                Operation::list(
                    &A2aTaskQuery::default()
                        .context("a b")
                        .state(A2aTaskState::Working)
                        .page_size(5),
                ),
                "GET https://agents.example/a2a/blue/tasks?contextId=a+b&pageSize=5&status=TASK_STATE_WORKING",
            ),
            (
                Operation::push_config("t", "c/1"),
                "GET https://agents.example/a2a/blue/tasks/t/pushNotificationConfigs/c%2F1",
            ),
            (
                Operation::push_configs("t", Some("p")),
                "GET https://agents.example/a2a/blue/tasks/t/pushNotificationConfigs?pageToken=p",
            ),
            (
                Operation::delete_push_config("t", "c"),
                "DELETE https://agents.example/a2a/blue/tasks/t/pushNotificationConfigs/c",
            ),
            (Operation::extended_card(), "GET https://agents.example/a2a/blue/extendedAgentCard"),
        ] {
            assert_eq!(wire(&operation, Binding::HttpJson).0, resource);
        }
        let config = A2aPushConfig::new("https://c.example/hook")
            .id("c")
            .token("k")
            .authentication("Bearer", "s");
        let params = json!({
            "id": "c", "taskId": "t", "url": "https://c.example/hook", "token": "k", "tenant": "blue",
            "authentication": {"scheme": "Bearer", "credentials": "s"},
        });
        let create = Operation::create_push_config("t", &config);
        assert_eq!(
            wire(&create, Binding::HttpJson),
            (
                "POST https://agents.example/a2a/blue/tasks/t/pushNotificationConfigs".to_owned(),
                Some(params.clone())
            )
        );
        assert_eq!(wire(&create, Binding::JsonRpc).1.unwrap()["params"], params);
    }

    #[test]
    fn an_id_that_would_change_the_path_is_refused() {
        let base = Url::parse("https://agents.example").unwrap();
        for id in ["", ".", ".."] {
            let problem = Operation::get(id, None)
                .wire(Binding::HttpJson, &base, None, 1)
                .map(|wire| wire.url);
            assert_eq!(problem, Err(format!("`{id}` is not the id of a task")));
            let problem = Operation::push_config("t", id)
                .wire(Binding::HttpJson, &base, None, 1)
                .map(|wire| wire.url);
            assert_eq!(problem, Err(format!("`{id}` is not the id of a push configuration")));
        }
    }
}
