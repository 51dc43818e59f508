//! The operations that a client can request, with their parameters. Both bindings are parsed
//! strictly into the same types.

use std::time::SystemTime;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::fault::Fault;
use crate::a2a::{A2aErrorCode, A2aMessage, A2aRole, A2aTaskState};

/// Maximum number of parts of a message.
const MOST_PARTS: usize = 1024;
/// Maximum length of an id, in bytes.
pub(super) const MOST_ID: usize = 256;

/// A requested operation with its parameters.
#[derive(Debug)]
pub(super) enum Asked {
    Send {
        params: Box<SendParams>,
        streams: bool,
    },
    Get(TaskParams),
    List(ListParams),
    Cancel(TaskParams),
    Subscribe(TaskParams),
    /// An operation on push configurations. Its parameters are parsed only if the server supports
    /// push notifications.
    Push(PushMethod, Value),
    ExtendedCard,
}

/// An operation on push configurations.
#[derive(Clone, Copy, Debug)]
pub(super) enum PushMethod {
    Create,
    Get,
    List,
    Delete,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SendParams {
    tenant: Option<String>,
    pub(super) message: A2aMessage,
    #[serde(default)]
    pub(super) configuration: Option<Configuration>,
    /// Additional fields of the request. They must be an object and are not used.
    #[serde(default)]
    #[expect(dead_code, reason = "its form is checked")]
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Configuration {
    pub(super) accepted_output_modes: Option<Vec<String>>,
    pub(super) history_length: Option<u32>,
    pub(super) return_immediately: Option<bool>,
    pub(super) task_push_notification_config: Option<Value>,
    /// Name of the field above in an earlier protocol version.
    pub(super) push_notification_config: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskParams {
    tenant: Option<String>,
    pub(super) id: String,
    pub(super) history_length: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListParams {
    tenant: Option<String>,
    pub(super) context_id: Option<String>,
    pub(super) status: Option<A2aTaskState>,
    pub(super) page_size: Option<u32>,
    pub(super) page_token: Option<String>,
    pub(super) history_length: Option<u32>,
    #[serde(deserialize_with = "time")]
    pub(super) status_timestamp_after: Option<SystemTime>,
    pub(super) include_artifacts: Option<bool>,
}

impl Asked {
    /// Parses the operation of a JSON-RPC method.
    pub(super) fn of_method(method: &str, params: Value) -> Result<Self, Fault> {
        Ok(match method {
            "SendMessage" => Self::send(params, false)?,
            "SendStreamingMessage" => Self::send(params, true)?,
            "GetTask" => Self::Get(task(params)?),
            "ListTasks" => Self::list(params)?,
            "CancelTask" => Self::Cancel(task(params)?),
            "SubscribeToTask" => Self::Subscribe(task(params)?),
            "CreateTaskPushNotificationConfig" => Self::Push(PushMethod::Create, params),
            "GetTaskPushNotificationConfig" => Self::Push(PushMethod::Get, params),
            "ListTaskPushNotificationConfigs" => Self::Push(PushMethod::List, params),
            "DeleteTaskPushNotificationConfig" => Self::Push(PushMethod::Delete, params),
            "GetExtendedAgentCard" => Self::ExtendedCard,
            _ => {
                let method = agentflow_schema::text::head(method, 128);
                let problem =
                    format!("there is no method `{method}` in version 1.0 of the protocol");
                return Err(Fault::new(A2aErrorCode::MethodNotFound, problem));
            }
        })
    }

    pub(super) fn send(params: Value, streams: bool) -> Result<Self, Fault> {
        let params: SendParams = read(params)?;
        check_no_tenant(params.tenant.as_deref())?;
        let message = &params.message;
        id("message.messageId", &message.message_id)?;
        message.task_id.iter().try_for_each(|task| id("message.taskId", task))?;
        message.context_id.iter().try_for_each(|context| id("message.contextId", context))?;
        if message.role != A2aRole::User {
            return Err(Fault::params(
                "message.role: a client sends messages of the role `ROLE_USER`",
            ));
        }
        if message.parts.is_empty() || message.parts.len() > MOST_PARTS {
            return Err(Fault::params(format!(
                "message.parts: a message has 1 to {MOST_PARTS} parts"
            )));
        }
        let settings = params.configuration.as_ref();
        let modes = settings.and_then(|of| of.accepted_output_modes.as_deref()).unwrap_or_default();
        // Media types may have parameters and wildcards.
        let is_written = |mode: &String| {
            let kind = mode.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            matches!(
                kind.as_str(),
                "text/plain" | "text/*" | "application/json" | "application/*" | "*/*"
            )
        };
        if !modes.is_empty() && !modes.iter().any(is_written) {
            return Err(Fault::new(
                A2aErrorCode::ContentTypeNotSupported,
                "this server writes `text/plain` and `application/json`, and the client accepts neither",
            ));
        }
        Ok(Self::Send { params: Box::new(params), streams })
    }

    pub(super) fn list(params: Value) -> Result<Self, Fault> {
        let params: ListParams = read(params)?;
        check_no_tenant(params.tenant.as_deref())?;
        if params.page_size.is_some_and(|size| !(1..=100).contains(&size)) {
            return Err(Fault::params("pageSize: a page has 1 to 100 tasks"));
        }
        Ok(Self::List(params))
    }
}

pub(super) fn task(params: Value) -> Result<TaskParams, Fault> {
    let params: TaskParams = read(params)?;
    check_no_tenant(params.tenant.as_deref())?;
    id("id", &params.id)?;
    Ok(params)
}

pub(super) fn read<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    // Serde would read an array as the fields in their order.
    if !params.is_object() {
        return Err(Fault::params("the parameters are a JSON object"));
    }
    serde_path_to_error::deserialize(params).map_err(|error| Fault::params(error.to_string()))
}

/// Reads a time in the format RFC 3339.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SystemTime>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let wrong = |_| D::Error::custom("a time is as `2026-01-31T10:30:00Z`");
    humantime::parse_rfc3339(&text).map(Some).map_err(wrong)
}

pub(super) fn id(field: &str, id: &str) -> Result<(), Fault> {
    match (1..=MOST_ID).contains(&id.len()) {
        true => Ok(()),
        false => Err(Fault::params(format!("{field}: an id has 1 to {MOST_ID} bytes"))),
    }
}

pub(super) fn check_no_tenant(tenant: Option<&str>) -> Result<(), Fault> {
    match tenant.filter(|tenant| !tenant.is_empty()) {
        None => Ok(()),
        Some(_) => Err(Fault::params("tenant: this server has no tenants; leave it out")),
    }
}
