//! Starts runs of workflows and agents for the routes that do so.

use std::collections::BTreeMap;
use std::time::Duration;

use agentflow_core::agent::RunRequest;
use agentflow_core::error::Error;
use agentflow_core::run::RunHandle;
use agentflow_core::session::Session;
use agentflow_core::store::StoreErrorKind;
use agentflow_core::value::Encoded;
use agentflow_core::{RunId, runtime::RunRef};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api_error::{ApiError, ApiResult};
use crate::extract::{Acting, JsonResponse};
use crate::idempotency_key::{IdempotencyKey, KeyedRequest};
use crate::resources::{StartedRun, json_value};

/// Maximum time for which a request waits for the end of a run, in milliseconds.
const MAX_WAIT_MS: u64 = 300_000;

/// The body of a request that starts a run of a workflow.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartBody {
    /// The inputs by name. Default: no inputs.
    #[serde(default, alias = "input", alias = "inputs")]
    input_data: Map<String, Value>,
    /// Version of a saved workflow. Default: the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Options of the run.
    #[serde(default)]
    options: StartOptions,
}

/// The body of a request that starts a run of an agent: a message, or arguments.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartAgentBody {
    /// Message to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Arguments of an agent that is a function, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<Map<String, Value>>,
    /// Session that the run continues. A new id starts a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// Options of the run.
    #[serde(default)]
    options: StartOptions,
}

/// Options of the start of a run.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartOptions {
    /// Tags of the run. Default: none.
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// Requests the pieces of model responses, which event streams then contain. Default: `false`.
    #[serde(default)]
    stream: bool,
    /// Compensates completed steps if the run fails or is cancelled. Default: `false`.
    #[serde(default)]
    compensate: bool,
    /// Time limit of the run in milliseconds. Default: none.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Leaves the run to a worker instead of executing it in this process. Only for workflows.
    /// Default: `false`.
    #[serde(default)]
    queued: bool,
    /// Time in milliseconds for which the response waits for the end of the run, at most 300,000.
    /// Default: 0.
    #[serde(default)]
    wait_ms: u64,
}

impl StartOptions {
    fn check(&self) -> ApiResult<()> {
        match self.wait_ms {
            0..=MAX_WAIT_MS => Ok(()),
            wait => {
                let detail = format!("`wait_ms` is {wait}, expected at most {MAX_WAIT_MS}");
                Err(ApiError::unusable(detail).at("/options/wait_ms".to_owned()))
            }
        }
    }

    /// Sets the time for which the response waits.
    pub(super) fn wait(wait: Duration) -> Self {
        Self { wait_ms: u64::try_from(wait.as_millis()).unwrap_or(MAX_WAIT_MS), ..Self::default() }
    }
}

impl StartBody {
    pub(super) fn new(input_data: Map<String, Value>, options: StartOptions) -> Self {
        Self { input_data, version: None, options }
    }
}

/// Starts a run of a workflow.
pub(super) async fn start_workflow(
    acting: &Acting,
    name: &str,
    key: &IdempotencyKey,
    body: StartBody,
) -> ApiResult<JsonResponse<StartedRun>> {
    body.options.check()?;
    let keyed = key.request(&acting.caller, name, &canonical(&body));
    let StartBody { input_data, version, options } = body;
    let mut start = acting.runtime.start_named(name, Value::Object(input_data));
    if let Some(version) = version {
        start = start.version(version);
    }
    for (tag, value) in &options.tags {
        start = start.tag(tag, value);
    }
    if let Some(keyed) = &keyed {
        let (tag, digest) = keyed.tag();
        start = start.run_id(keyed.run.clone()).tag(tag, digest);
    }
    if options.stream {
        start = start.stream();
    }
    if options.compensate {
        start = start.compensate();
    }
    if let Some(limit) = options.timeout_ms {
        start = start.timeout(Duration::from_millis(limit));
    }
    let started = match options.queued {
        true => start.queued().await,
        false => start.await.map(|run| run.run_id().clone()),
    };
    respond(acting, started, keyed.as_ref(), options.wait_ms).await
}

/// Starts a run of an agent.
pub(super) async fn start_agent(
    acting: &Acting,
    name: &str,
    key: &IdempotencyKey,
    body: StartAgentBody,
) -> ApiResult<JsonResponse<StartedRun>> {
    body.options.check()?;
    if body.options.queued {
        let detail = "a run of an agent cannot be queued; start it without `queued`";
        return Err(ApiError::unusable(detail).at("/options/queued".to_owned()));
    }
    let keyed = key.request(&acting.caller, name, &canonical(&body));
    let StartAgentBody { message, arguments, session_id, options } = body;
    let mut request = RunRequest::new(message.clone().unwrap_or_default());
    for (tag, value) in &options.tags {
        request = request.tag(tag, value);
    }
    if let Some(keyed) = &keyed {
        let (tag, digest) = keyed.tag();
        request = request.run_id(keyed.run.clone()).tag(tag, digest);
    }
    if let Some(session) = session_id {
        request = request.session(Session::new(session));
    }
    if options.stream {
        request = request.stream();
    }
    if options.compensate {
        request = request.compensate();
    }
    if let Some(limit) = options.timeout_ms {
        request = request.timeout(Duration::from_millis(limit));
    }
    let started: Result<RunHandle<Encoded>, Error> = match (message, arguments) {
        (Some(_), None) => acting.runtime.start_agent(name, request).await,
        (None, Some(arguments)) => {
            let arguments = Value::Object(arguments).to_string();
            acting.runtime.start_agent_with(name, &arguments, request).await
        }
        _ => {
            let detail = "expected either `message` or `arguments`";
            return Err(ApiError::unusable(detail));
        }
    };
    let started = started.map(|run| run.run_id().clone());
    respond(acting, started, keyed.as_ref(), options.wait_ms).await
}

/// Returns the JSON of a body, with which a repeated request is recognized.
fn canonical(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// Responds with the run that was started, or with the run of an earlier request with the same key.
async fn respond(
    acting: &Acting,
    started: Result<RunId, Error>,
    keyed: Option<&KeyedRequest>,
    wait_ms: u64,
) -> ApiResult<JsonResponse<StartedRun>> {
    let run = match (started, keyed) {
        (Ok(run), _) => run,
        (Err(Error::Store(error)), Some(keyed)) if error.kind() == StoreErrorKind::Exists => {
            keyed.check_repeated(&acting.runtime).await?;
            keyed.run.clone()
        }
        (Err(error), _) => return Err(error.into()),
    };
    let found = acting.runtime.run(&run);
    if wait_ms > 0 {
        // The outcome of the run is part of the response below, also if it is an error.
        let end = tokio::time::timeout(Duration::from_millis(wait_ms), found.output()).await;
        drop(end);
    }
    let record = found.record().await?;
    let mut response = StartedRun::new(&record);
    let status = match record.status.has_ended() {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    if record.status.has_ended() {
        response.output = output(found).await;
    }
    Ok(JsonResponse(status, response))
}

/// Returns the output of a run that has ended successfully.
pub(super) async fn output(run: RunRef<'_>) -> Option<Value> {
    run.output().await.ok().as_ref().map(json_value)
}
