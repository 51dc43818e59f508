//! HTTP requests to the servers that take part in a login. They are allowed only over TLS or within
//! this machine, do not follow redirects, and have limits for time and bytes. Errors never contain
//! request bodies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use agentflow_schema::strict;
use agentflow_schema::text::head;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;

use agentflow_core::model::Secret;
use agentflow_tools::__private::guarded_request;
use agentflow_tools::AddressGuard;

/// Maximum time for one request.
const LONGEST: Duration = Duration::from_secs(15);
/// Maximum number of bytes of a response.
const MOST_BYTES: usize = 256 << 10;
/// Maximum number of bytes of an address.
const LONGEST_ADDRESS: usize = 4 << 10;

/// Rules for the addresses and requests of one login.
pub(super) struct AuthRequests {
    /// The MCP server that the program has named. Requests to its origin are not guarded.
    server: Url,
    guard: AddressGuard,
    /// `true` if the server is on this machine. Then addresses on this machine are allowed without
    /// TLS.
    is_local: bool,
}

/// A response.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Parses the body as JSON. The error contains no values of the body.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, String> {
        let text = std::str::from_utf8(&self.body).map_err(|_| "it is not a text".to_owned())?;
        // Parsers disagree about repeated keys, so they are refused.
        strict::check(text).map_err(|_| "it is not JSON, or has a key twice".to_owned())?;
        serde_json::from_str(text)
            .map_err(|_| "it is not of the form that the standard says".to_owned())
    }
}

impl AuthRequests {
    pub(super) fn new(server: Url, guard: AddressGuard) -> Self {
        let is_local = is_loopback(&server);
        let guard = match is_local {
            // A server on this machine may use an authorization server on this machine.
            true => {
                guard.allow(Ipv4Addr::LOCALHOST.into(), 8).allow(Ipv6Addr::LOCALHOST.into(), 128)
            }
            false => guard,
        };
        Self { server, guard, is_local }
    }

    /// Parses an address and checks that it may be requested or shown to a person. It must have
    /// TLS, unless the server and the address are both on this machine.
    pub(super) fn address(&self, text: &str) -> Result<Url, String> {
        if text.len() > LONGEST_ADDRESS {
            return Err(format!("an address has over {LONGEST_ADDRESS} bytes"));
        }
        let shown = head(text, 200);
        let url: Url =
            text.parse().map_err(|error| format!("`{shown}` is not an address: {error}"))?;
        let is_of_server = url.origin() == self.server.origin();
        match url.scheme() {
            "https" => {}
            "http" if self.is_local && is_loopback(&url) => {}
            _ => return Err(format!("`{shown}` is not used: it must begin with `https://`")),
        }
        if !url.username().is_empty()
            || url.password().is_some()
            || url.fragment().is_some()
            || !url.has_host()
        {
            return Err(format!(
                "`{shown}` is not used: an address has a host, and no user, password or fragment"
            ));
        }
        // The guard checks host names at the time of the request. IP addresses are checked here as
        // well, because a person must not be sent to a forbidden address.
        let host = url.host_str().unwrap_or_default();
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) if !is_of_server && !self.guard.allows(address) => Err(format!(
                "`{shown}` is not used: {address} is not an address of the public internet; a program allows others with \
                 `McpAuthorization::guard`"
            )),
            _ => Ok(url),
        }
    }

    pub(super) async fn get(&self, url: &Url) -> Result<Reply, String> {
        self.sent(&Method::GET, url, HeaderMap::new(), None).await
    }

    pub(super) async fn post(
        &self,
        url: &Url,
        kind: &'static str,
        key: Option<Secret>,
        body: String,
    ) -> Result<Reply, String> {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(key.expose())
                .map_err(|_| "the client's secret cannot be sent")?;
            // A sensitive header is not shown in debug output.
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        self.sent(&Method::POST, url, headers, Some(&body)).await
    }

    async fn sent(
        &self,
        method: &Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Option<&str>,
    ) -> Result<Reply, String> {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let answered = async {
            if url.origin() == self.server.origin() {
                return self.of_server(method, url, headers, body).await;
            }
            let (status, body) =
                guarded_request(&self.guard, method, url, headers, body, MOST_BYTES)
                    .await
                    .map_err(|error| error.to_string())?;
            Ok(Reply { status, body })
        };
        let host = url.host_str().unwrap_or_default();
        let late = |_| Err(format!("`{host}` did not answer within {LONGEST:?}"));
        tokio::time::timeout(LONGEST, answered).await.unwrap_or_else(late)
    }

    /// Sends a request to the MCP server's own origin, with the same rules as its other traffic:
    /// any address is allowed, and the proxy of the environment is used.
    async fn of_server(
        &self,
        method: &Method,
        url: &Url,
        headers: HeaderMap,
        body: Option<&str>,
    ) -> Result<Reply, String> {
        let host = url.host_str().unwrap_or_default();
        let failed =
            |error: reqwest::Error| format!("`{host}` did not answer: {}", error.without_url());
        let client = agentflow_http::client(url, LONGEST).map_err(|error| error.to_string())?;
        let request = client.request(method.clone(), url.clone()).headers(headers);
        let request = body.iter().fold(request, |request, body| request.body((*body).to_owned()));
        let mut response = request.send().await.map_err(failed)?;
        let mut body = Vec::new();
        // The size is checked while reading, because a response need not declare its length.
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            if body.len() + piece.len() > MOST_BYTES {
                return Err(format!("the answer of `{host}` has more than {MOST_BYTES} bytes"));
            }
            body.extend_from_slice(&piece);
        }
        Ok(Reply { status: response.status().as_u16(), body })
    }
}

/// Returns `true` if the address is on this machine. Names below `localhost` do not count, because
/// some systems resolve them over the network.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost",
    }
}

/// Checks that tokens may be sent to a server at this address.
///
/// # Errors
/// Fails if the address has a user or password, or has no TLS and is not on this machine. The text
/// does not show credentials of the address.
pub fn check_login_address(server: &Url) -> Result<(), String> {
    if !server.username().is_empty() || server.password().is_some() {
        return Err(
            "its address has a user or a password, and it has an `authorization`; give one of them"
                .to_owned(),
        );
    }
    if server.scheme() != "https" && !is_loopback(server) {
        let host = server.host_str().unwrap_or_default();
        return Err(format!(
            "tokens are not sent to `{host}` without TLS: its address must begin with `https://`, unless it is `localhost` or \
             an address of this machine in numbers"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::AuthRequests;
    use agentflow_tools::AddressGuard;

    #[test]
    fn addresses_are_those_with_tls_and_those_of_this_machine() {
        let requests =
            |server: &str| AuthRequests::new(server.parse().unwrap(), AddressGuard::default());
        for (server, address, is_used) in [
            ("https://h.example/mcp", "https://login.example/token", true),
            ("https://h.example/mcp", "http://login.example/token", false),
            ("https://h.example/mcp", "http://localhost/token", false),
            ("https://h.example/mcp", "http://h.example/token", false),
            ("http://127.0.0.1:9/mcp", "http://localhost:8/token", true),
            ("http://127.0.0.1:9/mcp", "https://[::1]:8/token", true),
            ("https://h.example/mcp", "https://10.0.0.1/token", false),
            ("https://h.example/mcp", "https://[fe80::1]/token", false),
            ("https://h.example/mcp", "https://0x7f.1/token", false),
            ("http://127.0.0.1:9/mcp", "http://10.0.0.1/token", false),
            ("http://10.0.0.1:9/mcp", "http://10.0.0.1:9/token", false),
            ("http://localhost:9/mcp", "http://evil.localhost/token", false),
            ("http://evil.localhost:9/mcp", "http://evil.localhost:9/token", false),
            ("http://10.0.0.1:9/mcp", "http://10.0.0.1:8/token", false),
            ("https://h.example/mcp", "javascript:alert(1)", false),
            ("https://h.example/mcp", "file:///etc/passwd", false),
            ("https://h.example/mcp", "https://user@login.example/", false),
            ("https://h.example/mcp", "https://login.example/#a", false),
            ("https://h.example/mcp", "/token", false),
        ] {
            assert_eq!(requests(server).address(address).is_ok(), is_used, "{server} {address}");
        }
        let long = format!("https://login.example/{}", "x".repeat(5000));
        assert!(requests("https://h.example").address(&long).is_err());
    }
}
