//! Requests to addresses that a server or a document has chosen, under a guard: one request and its whole answer within a limit,
//! or a client for such requests. It follows no redirect, uses no proxy and repeats nothing.

#[cfg(feature = "a2a-client")]
use std::time::Duration;

use agentflow_http::AddressGuard;
use reqwest::Url;

use super::http_target::Targets;
use crate::tool::ToolError;

/// The status and the body of the answer. The caller has a time limit.
///
/// # Errors
/// When the address is refused, nobody answers, or the body has more than `max_bytes`. Nothing of what is sent is in it.
#[cfg(feature = "mcp-auth")]
pub(crate) async fn guarded_request(
    guard: &AddressGuard,
    method: &reqwest::Method,
    url: &Url,
    headers: reqwest::header::HeaderMap,
    body: Option<&str>,
    max_bytes: usize,
) -> Result<(u16, Vec<u8>), ToolError> {
    use super::http_exchange::{body_of, send};

    let targets = Targets::within(guard.clone());
    let url = targets.url(url.as_str(), None)?;
    let remedy = "this program does not allow it; add its network to `McpAuthorization::guard`";
    let addresses = targets.addresses_or(&url, Some(remedy)).await?;
    let sent = send(&targets, &url, &addresses, method, headers, body).await;
    let mut response = sent.map_err(|unsent| unsent.error)?;
    let read = body_of(&mut response, max_bytes).await?;
    Ok((response.status().as_u16(), read))
}

/// Creates a client for requests to one URL. The host is resolved now, and the client connects to these addresses alone. The
/// caller has a time limit.
///
/// # Errors
/// When the URL cannot be requested, its host has no address, or the guard refuses one; then the text ends with `not_allowed`.
#[cfg(feature = "a2a-client")]
pub(crate) async fn guarded_client(
    guard: &AddressGuard,
    url: &Url,
    connect_timeout: Duration,
    not_allowed: &str,
) -> Result<reqwest::Client, ToolError> {
    let targets = Targets::within(guard.clone());
    let url = targets.url(url.as_str(), None)?;
    let addresses = targets.addresses_or(&url, Some(not_allowed)).await?;
    let client = agentflow_http::pinned_client(&url, &addresses, connect_timeout, None);
    client.map_err(|error| ToolError::new(error.to_string()))
}
