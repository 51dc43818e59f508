//! An MCP server that requires a login, and its authorization server, both handwritten on loopback.
//! They behave correctly except where a test overrides an answer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use agentflow::Runtime;
use agentflow::mcp::{McpAuthorization, McpClient, McpClientBuilder};
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::raw_http::{Request, full, request};

/// A request to one of the two servers.
pub(crate) struct Asked {
    /// Method and path without the query, such as `GET /path`.
    pub(crate) line: String,
    pub(crate) request: Request,
}

impl Asked {
    /// Returns a form field.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        field(&self.request.body, name)
    }

    pub(crate) fn has_header(&self, line: &str) -> bool {
        self.request.head.lines().any(|of| of.eq_ignore_ascii_case(line))
    }

    fn token(&self) -> Option<String> {
        let line = self
            .request
            .head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with("authorization: bearer "))?;
        Some(line["authorization: bearer ".len()..].to_owned())
    }
}

/// Returns a field of a form or a query, with the decoding that the tests need.
pub(crate) fn field(form: &str, name: &str) -> Option<String> {
    let value = form.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let mut out = Vec::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

/// State of both servers.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) lines: Vec<String>,
    /// Valid access tokens with the scopes of each.
    pub(crate) tokens: Vec<(String, BTreeSet<String>)>,
    refresh_tokens: BTreeSet<String>,
    refreshed: usize,
    /// Addresses that the person was sent to.
    pub(crate) visits: Vec<String>,
    given: usize,
    challenge: String,
}

type Answers = Arc<dyn Fn(&Asked, &LoginSite) -> Option<String> + Send + Sync>;

/// Both servers.
#[derive(Clone)]
pub(crate) struct LoginSite {
    pub(crate) server: String,
    pub(crate) issuer: String,
    pub(crate) seen: Arc<Mutex<Seen>>,
    /// Lifetime in seconds of a token from a person's login. A renewed token lasts one hour.
    pub(crate) lasts: Value,
    answers: Answers,
}

impl LoginSite {
    pub(crate) async fn new(
        answers: impl Fn(&Asked, &LoginSite) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::lasting(json!(3600), answers).await
    }

    /// Starts the servers. `answers` returns a whole response that overrides the correct one; an
    /// empty one is silence.
    pub(crate) async fn lasting(
        lasts: Value,
        answers: impl Fn(&Asked, &LoginSite) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listeners = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let site = Self {
            server: address(&listeners.0),
            issuer: address(&listeners.1),
            seen: Arc::default(),
            lasts,
            answers: Arc::new(answers),
        };
        for listener in [listeners.0, listeners.1] {
            let site = site.clone();
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let site = site.clone();
                    tokio::spawn(async move {
                        while let Some(request) = request(&mut stream).await {
                            let mut words = request.head.split(' ');
                            let (method, target) = (
                                words.next().unwrap_or_default(),
                                words.next().unwrap_or_default(),
                            );
                            let line = format!(
                                "{method} {}",
                                target.split('?').next().unwrap_or_default()
                            );
                            let asked = Asked { line, request };
                            site.seen().lines.push(asked.line.clone());
                            let response =
                                (site.answers)(&asked, &site).unwrap_or_else(|| site.usual(&asked));
                            if response.is_empty() {
                                std::future::pending::<()>().await;
                            }
                            if stream.write_all(response.as_bytes()).await.is_err() {
                                return;
                            }
                        }
                    });
                }
            });
        }
        site
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Returns how often a person was sent to the authorization server.
    pub(crate) fn visits(&self) -> usize {
        self.seen().visits.len()
    }

    /// Returns how often a token renewal was requested.
    pub(crate) fn refreshed(&self) -> usize {
        self.seen().refreshed
    }

    /// Returns how often this request was received.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.seen().lines.iter().filter(|of| *of == line).count()
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.server)
    }

    pub(crate) fn resource(&self) -> Value {
        json!({"resource": self.url(), "authorization_servers": [self.issuer]})
    }

    pub(crate) fn metadata(&self) -> Value {
        let issuer = &self.issuer;
        json!({
            "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize?of=it"),
            "token_endpoint": format!("{issuer}/token"), "registration_endpoint": format!("{issuer}/register"),
            "revocation_endpoint": format!("{issuer}/revoke"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    /// Invalidates the access tokens, but not the refresh tokens.
    pub(crate) fn forget_tokens(&self) {
        self.seen().tokens.clear();
    }

    pub(crate) fn forget_refresh_tokens(&self) {
        self.seen().refresh_tokens.clear();
    }

    /// Builds the MCP server's response to a client without a login.
    pub(crate) fn unauthorized(&self, more: &str) -> String {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.server);
        format!(
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"{metadata}\"{more}\r\ncontent-length: 0\r\n\r\n"
        )
    }

    pub(crate) fn usual(&self, asked: &Asked) -> String {
        let json_of = |value: Value| full("200 OK", "application/json", &value.to_string());
        match asked.line.as_str() {
            "GET /.well-known/oauth-protected-resource/mcp" => json_of(self.resource()),
            "GET /.well-known/oauth-authorization-server" => json_of(self.metadata()),
            "POST /register" => {
                json_of(json!({"client_id": "registered", "token_endpoint_auth_method": "none"}))
            }
            "POST /token" => match self.tokens(asked) {
                refused if refused["error"].is_string() => {
                    full("400 Bad Request", "application/json", &refused.to_string())
                }
                given => json_of(given),
            },
            "POST /revoke" => full("200 OK", "text/plain", ""),
            "POST /mcp" => {
                let is_known = asked
                    .token()
                    .is_some_and(|token| self.seen().tokens.iter().any(|(of, _)| *of == token));
                match is_known {
                    true => tools(&asked.request),
                    false => self.unauthorized(""),
                }
            }
            _ => full("404 Not Found", "text/plain", ""),
        }
    }

    /// Issues tokens.
    pub(crate) fn tokens(&self, asked: &Asked) -> Value {
        let is_renewal = asked.field("grant_type").as_deref() == Some("refresh_token");
        let scopes = self.seen().challenge.split(' ').map(str::to_owned).collect();
        let mut seen = self.seen();
        if is_renewal {
            seen.refreshed += 1;
            // Each refresh token can be used once.
            if !seen.refresh_tokens.remove(&asked.field("refresh_token").unwrap_or_default()) {
                return json!({"error": "invalid_grant"});
            }
        }
        seen.given += 1;
        let given = seen.given;
        seen.tokens.push((format!("access-token-{given}"), scopes));
        seen.refresh_tokens.insert(format!("refresh-token-{given}"));
        let lasts = if is_renewal { json!(3600) } else { self.lasts.clone() };
        json!({
            "access_token": format!("access-token-{given}"), "token_type": "Bearer", "expires_in": lasts,
            "refresh_token": format!("refresh-token-{given}"),
        })
    }

    /// Simulates a person who agrees at once.
    pub(crate) fn person(&self) -> McpAuthorization {
        let site = self.clone();
        self.visited(move |url| site.redirected(url))
    }

    /// Simulates a person whose browser returns the given redirect.
    pub(crate) fn visited(
        &self,
        back: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> McpAuthorization {
        let site = self.clone();
        McpAuthorization::browser("http://127.0.0.1:1/callback", move |url| {
            let back = back(&url);
            site.seen().visits.push(url);
            async move { Ok::<_, String>(back) }
        })
    }

    /// Returns the redirect of the browser after a login at this address.
    pub(crate) fn redirected(&self, url: &str) -> String {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let state = field(query, "state").unwrap_or_default();
        self.seen().challenge = field(query, "scope").unwrap_or_default();
        format!("http://127.0.0.1:1/callback?code=code-of-login&state={state}&iss={}", self.issuer)
    }

    pub(crate) fn client(&self, authorization: McpAuthorization) -> McpClient {
        self.builder(authorization).build().unwrap()
    }

    pub(crate) fn builder(&self, authorization: McpAuthorization) -> McpClientBuilder {
        McpClient::http("far", self.url()).authorization(authorization)
    }
}

/// Answers an authenticated client of the MCP server.
pub(crate) fn tools(request: &Request) -> String {
    let tool = json!({"name": "work", "inputSchema": {"type": "object"}});
    let answer = match request.method() {
        "initialize" => request.answer(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"},
        })),
        "tools/list" => request.answer(json!({"tools": [tool]})),
        "tools/call" => request.answer(json!({"content": [{"type": "text", "text": "done"}]})),
        method if method.starts_with("notifications/") => return full("202 Accepted", "text/plain", ""),
        _ => json!({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32601, "message": "unknown"}}),
    };
    full("200 OK", "application/json", &answer.to_string())
}

/// Calls the server's tool.
pub(crate) async fn work(client: &McpClient) -> ToolResult {
    let call = ToolCall::new("c", "mcp.far.work", "{}");
    match Runtime::builder().toolset(client.clone()).build().invoke(&call, &[]).await {
        Ok(result) => result,
        Err(error) => ToolResult::new(&call, ToolStatus::Error, error.to_string()),
    }
}
