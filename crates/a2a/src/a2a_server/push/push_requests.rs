//! Handles requests about push configurations. Parameters are parsed strictly. Responses never
//! contain a token or credentials.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::asked_operation::{PushMethod, check_no_tenant, id, read};
use super::super::fault::Fault;
use super::super::served_settings::Shared;
use super::super::shown_task::record_of;
use super::kept_configs::StoredPushConfig;
use super::notifier::{MOST_CONFIGS, Push};
use crate::a2a::{A2aErrorCode, A2aPushAuthentication, A2aPushConfig, A2aPushConfigs};
use agentflow_core::Caller;
use agentflow_core::event::RunId;

/// Maximum size of a token, and of credentials, in bytes.
const MOST_SECRET: usize = 4 << 10;

/// A configuration with the additional parameter `tenant`.
#[derive(Deserialize)]
struct CreateParams {
    tenant: Option<String>,
    #[serde(flatten)]
    config: A2aPushConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigParams {
    tenant: Option<String>,
    task_id: String,
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListParams {
    tenant: Option<String>,
    task_id: String,
    page_size: Option<u32>,
    page_token: Option<String>,
}

/// Executes an operation on push configurations for a caller.
pub(in super::super) async fn execute(
    shared: &Arc<Shared>,
    push: &Push,
    caller: &Caller,
    skill: Option<&str>,
    (method, params): (PushMethod, Value),
) -> Result<Value, Fault> {
    match method {
        PushMethod::Create => {
            let config = checked_config(push, params)?;
            let task = config.task_id.clone().unwrap_or_default();
            id("taskId", &task)?;
            let run = record_of(shared, caller, skill, &task).await?.run_id;
            Ok(json!(create(shared, caller, run, config).await?))
        }
        PushMethod::Get => {
            let (run, id) = find_config(shared, caller, skill, params).await?;
            let kept =
                push.kept.for_task(&run).await.map_err(|error| Fault::internal(&error.into()))?;
            let found = kept.into_iter().find(|kept| kept.id() == id).ok_or_else(|| {
                Fault::new(
                    A2aErrorCode::TaskNotFound,
                    "the task has no push configuration of this id",
                )
            })?;
            Ok(json!(shown(found.config)))
        }
        PushMethod::List => {
            let params: ListParams = read(params)?;
            check_no_tenant(params.tenant.as_deref())?;
            id("taskId", &params.task_id)?;
            if params.page_size.is_some_and(|size| !(1..=100).contains(&size)) {
                return Err(Fault::params("pageSize: a page has 1 to 100 configurations"));
            }
            let run = record_of(shared, caller, skill, &params.task_id).await?.run_id;
            let mut kept =
                push.kept.for_task(&run).await.map_err(|error| Fault::internal(&error.into()))?;
            kept.retain(|kept| params.page_token.as_deref().is_none_or(|last| kept.id() > last));
            let mut page = A2aPushConfigs::default();
            let size = params.page_size.map_or(MOST_CONFIGS, |size| size as usize);
            if kept.len() > size {
                kept.truncate(size);
                page.next_page_token =
                    kept.last().map(|kept| kept.id().to_owned()).unwrap_or_default();
            }
            page.configs = kept.into_iter().map(|kept| shown(kept.config)).collect();
            Ok(json!(page))
        }
        PushMethod::Delete => {
            let (run, id) = find_config(shared, caller, skill, params).await?;
            push.remove(&run, &id).await.map_err(|error| Fault::internal(&error.into()))?;
            Ok(json!({}))
        }
    }
}

/// Extracts the task and the id from a request for one configuration. Fails if the task does not
/// belong to the caller.
async fn find_config(
    shared: &Shared,
    caller: &Caller,
    skill: Option<&str>,
    params: Value,
) -> Result<(RunId, String), Fault> {
    let params: ConfigParams = read(params)?;
    check_no_tenant(params.tenant.as_deref())?;
    id("taskId", &params.task_id)?;
    id("id", &params.id)?;
    Ok((record_of(shared, caller, skill, &params.task_id).await?.run_id, params.id))
}

/// Parses and checks a configuration.
///
/// # Errors
/// `InvalidParams` if the form is invalid, the address is never notified, or the token cannot be
/// sent.
pub(in super::super) fn checked_config(push: &Push, config: Value) -> Result<A2aPushConfig, Fault> {
    let CreateParams { tenant, config } = read(config)?;
    check_no_tenant(tenant.as_deref())?;
    config.id.iter().try_for_each(|of| id("id", of))?;
    notification_headers(&config)?;
    let has_key = config.token.is_some() || config.authentication.is_some();
    push.request
        .refuses(&config.url, has_key)
        .map_err(|error| Fault::params(format!("url: {error}")))?;
    Ok(config)
}

/// Stores a configuration of a task. Returns it without secrets.
pub(in super::super) async fn create(
    shared: &Arc<Shared>,
    caller: &Caller,
    run: RunId,
    mut config: A2aPushConfig,
) -> Result<A2aPushConfig, Fault> {
    // The default id is the same for each attempt, so a message that is sent twice creates one
    // configuration.
    let id = config.id.get_or_insert_with(|| run.to_string()).clone();
    config.task_id = Some(run.to_string());
    let answer = shown(config.clone());
    let kept = StoredPushConfig { config, approves: caller.may_approve(), is_done: false };
    let (shared, caller) = (Arc::clone(shared), caller.name().to_owned());
    // A spawned task completes even if the client disconnects, so a stored configuration is also
    // followed.
    let kept = tokio::spawn(async move {
        let Some(push) = &shared.push else { return Ok(()) };
        push.keep(&run, &id, kept, &caller).await
    });
    match kept.await {
        Ok(Ok(())) => Ok(answer),
        Ok(Err(fault)) => Err(fault),
        Err(error) => {
            tracing::error!(%error, "a push configuration could not be kept");
            Err(Fault::new(
                A2aErrorCode::Internal,
                "the server could not do this; its log says why",
            ))
        }
    }
}

/// Returns the additional headers of the notifications of a configuration.
///
/// # Errors
/// `InvalidParams` if a token or credentials cannot be sent in a header.
pub(super) fn notification_headers(
    config: &A2aPushConfig,
) -> Result<Vec<(HeaderName, HeaderValue)>, Fault> {
    let secret = |field: &str, text: &str| {
        let value = HeaderValue::from_str(text).ok().filter(|_| text.len() <= MOST_SECRET);
        value.map_or_else(
            || {
                Err(Fault::params(format!(
                    "{field}: it is sent in a header, of at most {MOST_SECRET} bytes"
                )))
            },
            |mut value| {
                // Hides the secret in the `Debug` output of requests.
                value.set_sensitive(true);
                Ok(value)
            },
        )
    };
    let mut headers = Vec::new();
    if let Some(token) = &config.token {
        headers
            .push((HeaderName::from_static("x-a2a-notification-token"), secret("token", token)?));
    }
    if let Some(A2aPushAuthentication { scheme, credentials }) = &config.authentication {
        let is_scheme =
            scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+".contains(&byte));
        if !is_scheme {
            return Err(Fault::params(
                "authentication.scheme: it is a scheme of HTTP, such as `Bearer`",
            ));
        }
        let credentials =
            credentials.as_ref().map_or_else(String::new, |credentials| format!(" {credentials}"));
        let value = secret("authentication.credentials", &format!("{scheme}{credentials}"))?;
        headers.push((AUTHORIZATION, value));
    }
    Ok(headers)
}

/// Removes token and credentials from a configuration.
fn shown(mut config: A2aPushConfig) -> A2aPushConfig {
    config.token = None;
    config.authentication.iter_mut().for_each(|of| of.credentials = None);
    config
}
