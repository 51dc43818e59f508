//! One request to addresses that were checked, and its answer within a limit. It chooses no address, follows no redirect and
//! retries nothing.

use std::net::SocketAddr;
use std::time::Duration;

use agentflow_http::{AddressGuard, innermost_cause, pinned_client};
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Method, Response, Url};

use super::http_target::{Targets, host_of};
use crate::mask;
use crate::message::ToolStatus;
use crate::tool::ToolError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A key that is shorter stands in too many texts to be masked in them.
const SHORTEST_KEY: usize = 6;

/// Headers that a caller must not set: they describe the connection and its message, claim an identity of this machine or a
/// proxy, or override the method or the path that were checked.
const OWN: [&str; 23] = [
    "accept-encoding",
    "cf-connecting-ip",
    "client-ip",
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "metadata",
    "metadata-flavor",
    "te",
    "trailer",
    "transfer-encoding",
    "true-client-ip",
    "upgrade",
    "via",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-http-method",
    "x-method-override",
    "x-real-ip",
    "x-rewrite-url",
];

/// Prefixes of further such headers.
const OWN_FAMILIES: [&str; 5] = ["proxy-", "x-aws-ec2-", "x-forwarded", "x-http-method-override", "x-original-"];

/// Whether a header is not for a caller to set.
pub(super) fn is_own_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    OWN.contains(&name) || OWN_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether a key may be sent to these addresses without TLS: the guard had to allow each of them.
pub(super) fn may_be_plain(addresses: &[SocketAddr]) -> bool {
    let public = AddressGuard::default();
    addresses.iter().all(|address| !public.allows(address.ip()))
}

/// Why a request has no answer.
pub(super) struct Unsent {
    pub(super) error: ToolError,
    /// Whether the server cannot have got the request: no connection was made.
    #[cfg(feature = "tool-api")]
    pub(super) unconnected: bool,
}

/// Sends a request and waits for the head of its answer.
pub(super) async fn send(
    targets: &Targets,
    url: &Url,
    addresses: &[SocketAddr],
    method: &Method,
    headers: HeaderMap,
    body: Option<&str>,
) -> Result<Response, Unsent> {
    let host = host_of(url);
    let client = pinned_client(url, addresses, CONNECT_TIMEOUT, targets.roots_of(url)).map_err(|error| Unsent {
        error: ToolError::new(error.to_string()),
        #[cfg(feature = "tool-api")]
        unconnected: false,
    })?;
    let request = client.request(method.clone(), url.clone()).headers(headers);
    let request = match body {
        Some(body) => request.body(body.to_owned()),
        None => request,
    };
    request.send().await.map_err(|error| Unsent {
        error: ToolError::new(format!("`{host}` did not answer: {}", innermost_cause(&error))),
        #[cfg(feature = "tool-api")]
        unconnected: error.is_connect(),
    })
}

/// The body of an answer, of at most so many bytes.
pub(super) async fn body_of(response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, ToolError> {
    let mut read = Vec::new();
    let cut = |error: &reqwest::Error| ToolError::new(format!("the answer broke off: {}", innermost_cause(error)));
    while let Some(chunk) = response.chunk().await.map_err(|error| cut(&error))? {
        if read.len() + chunk.len() > max_bytes {
            let problem = format!("the answer has more than {max_bytes} bytes; ask for less");
            return Err(ToolError::with_status(ToolStatus::OutputTooLarge, problem));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// A text without a key, which a server may send back, also without the word before it.
pub(super) fn without_key(text: &str, key: &str) -> String {
    let values = [Some(key), key.split_once(' ').map(|(_, key)| key)];
    let values = values.into_iter().flatten().filter(|value| value.len() >= SHORTEST_KEY);
    values.fold(text.to_owned(), |text, value| mask::without(&text, value, "***").unwrap_or(text))
}
