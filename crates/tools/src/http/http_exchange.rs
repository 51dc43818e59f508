//! A single HTTP request to addresses that were already checked, and its answer within a size
//! limit. There are no redirects or retries.

use std::net::SocketAddr;
use std::time::Duration;

use agentflow_http::{AddressGuard, innermost_cause, pinned_client};
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Method, Response, Url};

use super::http_target::{Targets, host_of};
use agentflow_core::__private::extension::mask;
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::ToolError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum length of a masked key. Shorter keys occur in too many strings by chance.
const SHORTEST_KEY: usize = 6;

/// Headers that a caller must not set. They describe the connection and its message, claim an
/// identity of this machine or of a proxy, or override the method or path that were checked.
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

/// Prefixes of more such headers.
const OWN_FAMILIES: [&str; 5] =
    ["proxy-", "x-aws-ec2-", "x-forwarded", "x-http-method-override", "x-original-"];

/// Returns `true` if a caller must not set this header.
pub(crate) fn is_own_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    OWN.contains(&name) || OWN_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Returns `true` if a key may be sent to these addresses without TLS. All of them must be
/// non-public addresses, which the guard had to allow.
pub(crate) fn may_be_plain(addresses: &[SocketAddr]) -> bool {
    let public = AddressGuard::default();
    addresses.iter().all(|address| !public.allows(address.ip()))
}

/// A failed request without an answer.
pub(crate) struct SendError {
    pub(crate) error: ToolError,
    /// `true` if no connection was made, so that the server cannot have received the request.
    #[cfg(feature = "api")]
    pub(crate) unconnected: bool,
}

/// Sends a request and waits for the head of its answer.
pub(crate) async fn send(
    targets: &Targets,
    url: &Url,
    addresses: &[SocketAddr],
    method: &Method,
    headers: HeaderMap,
    body: Option<&str>,
) -> Result<Response, SendError> {
    let host = host_of(url);
    let client =
        pinned_client(url, addresses, CONNECT_TIMEOUT, targets.roots_of(url)).map_err(|error| {
            SendError {
                error: ToolError::new(error.to_string()),
                #[cfg(feature = "api")]
                unconnected: false,
            }
        })?;
    let request = client.request(method.clone(), url.clone()).headers(headers);
    let request = match body {
        Some(body) => request.body(body.to_owned()),
        None => request,
    };
    request.send().await.map_err(|error| SendError {
        error: ToolError::new(format!("`{host}` did not answer: {}", innermost_cause(&error))),
        #[cfg(feature = "api")]
        unconnected: error.is_connect(),
    })
}

/// Reads the body of an answer.
pub(crate) async fn body_of(
    response: &mut Response,
    max_bytes: usize,
) -> Result<Vec<u8>, ToolError> {
    let mut read = Vec::new();
    let cut = |error: &reqwest::Error| {
        ToolError::new(format!("the answer broke off: {}", innermost_cause(error)))
    };
    while let Some(chunk) = response.chunk().await.map_err(|error| cut(&error))? {
        // Checked for each chunk: `content-length` may be missing or wrong.
        if read.len() + chunk.len() > max_bytes {
            let problem = format!("the answer has more than {max_bytes} bytes; ask for less");
            return Err(ToolError::with_status(ToolStatus::OutputTooLarge, problem));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// Masks a key in a string, which a server may have sent back. If the key is two words such as
/// `Bearer KEY`, the second word is masked too.
pub(crate) fn without_key(text: &str, key: &str) -> String {
    // A header value may be `Bearer KEY`; a server may repeat only the key.
    let values = [Some(key), key.split_once(' ').map(|(_, key)| key)];
    let values = values.into_iter().flatten().filter(|value| value.len() >= SHORTEST_KEY);
    values.fold(text.to_owned(), |text, value| mask::without(&text, value, "***").unwrap_or(text))
}
