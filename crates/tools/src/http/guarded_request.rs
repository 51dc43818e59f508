//! Requests to addresses that a server or a document chose, under an address guard. There are no
//! redirects, proxies or retries.

#[cfg(feature = "http")]
use std::time::Duration;

use agentflow_http::AddressGuard;
use reqwest::Url;

use super::http_target::Targets;
use agentflow_core::tool::ToolError;

/// Sends a request and returns the status and the body. The caller applies the time limit.
///
/// # Errors
/// The address is refused, the server does not answer, or the body is larger than `max_bytes`.
/// Errors contain no part of the request's headers or body.
#[cfg(feature = "http")]
pub async fn guarded_request(
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

/// Creates a client for requests to one URL. The host is resolved now, and the client connects only
/// to these addresses. The caller applies the time limit.
///
/// # Errors
/// The URL cannot be requested, its host has no address, or the guard refuses one of the addresses.
/// In the last case the message ends with `not_allowed`.
#[cfg(feature = "http")]
pub async fn guarded_client(
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
