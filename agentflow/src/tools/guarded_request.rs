//! One request to an address that somebody else has chosen, under a guard, and its whole answer within a limit. It follows no
//! redirect, uses no proxy and repeats nothing.

use reqwest::header::HeaderMap;
use reqwest::{Method, Url};

use super::address_guard::AddressGuard;
use super::http_exchange::{body_of, send};
use super::http_target::Targets;
use crate::tool::ToolError;

/// The status and the body of the answer. The caller has a time limit.
///
/// # Errors
/// When the address is refused, nobody answers, or the body has more than `max_bytes`. Nothing of what is sent is in it.
pub(crate) async fn guarded_request(
    guard: &AddressGuard,
    method: &Method,
    url: &Url,
    headers: HeaderMap,
    body: Option<&str>,
    max_bytes: usize,
) -> Result<(u16, Vec<u8>), ToolError> {
    let targets = Targets::within(guard.clone());
    let url = targets.url(url.as_str(), None)?;
    let addresses = targets.addresses(&url).await?;
    let sent = send(&targets, &url, &addresses, method, headers, body).await;
    let mut response = sent.map_err(|unsent| unsent.error)?;
    let read = body_of(&mut response, max_bytes).await?;
    Ok((response.status().as_u16(), read))
}
