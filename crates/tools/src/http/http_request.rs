//! `HttpRequest`: the tool `http_request`, which sends requests to web servers.
//!
//! `http_target.rs` checks the address of a request. This module sends it, follows redirects hop by
//! hop, and reads the answer within limits. It does not retry.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use agentflow_http::{AddressGuard, secret_header};
use reqwest::header::{
    CONTENT_LANGUAGE, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
    LINK, LOCATION, RETRY_AFTER,
};
use reqwest::{Method, Response, StatusCode, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http_exchange::{body_of, is_own_header, may_be_plain, send, without_key};
use super::http_target::{Targets, host_of, may_have_key};
use agentflow_core::message::ToolStatus;
use agentflow_core::model::Secret;
use agentflow_core::tool::{Effects, FnTool, ToolError, ToolPolicy};

const DEFAULT_MAX_BYTES: usize = 1 << 20;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_MAX_REDIRECTS: usize = 5;

/// Response headers that are shown to the model.
const SHOWN: [HeaderName; 8] =
    [CONTENT_TYPE, CONTENT_LANGUAGE, DATE, ETAG, LAST_MODIFIED, LINK, LOCATION, RETRY_AFTER];

/// Builder of the tool `http_request`, which sends a request to a web server and returns the
/// answer.
///
/// The arguments are `{"url": .., "method": .., "headers": .., "body": ..}`. A body that is not a
/// string is sent as JSON. The answer is `{"url", "status", "headers", "body"}`: the address after
/// redirects, the HTTP status (errors included), selected headers, and the body as JSON if the
/// server declares it as JSON, otherwise as UTF-8 text.
///
/// A third party may have told the model what to request, for example in text that the model has
/// read. Therefore:
///
/// - **Addresses**: Only addresses of the public internet are connected to, and those that a
///   [guard](Self::guard) allows; `networks` in a configuration adds more. A refusal tells the
///   model that the program does not allow the address, and the log explains how to allow it. The
///   host of each hop is resolved once. The tool checks all its addresses and connects only to
///   these. It does not use proxies of the environment.
/// - **Methods and hosts**: Only GET and HEAD are used, unless other [methods](Self::methods) are
///   listed. [Hosts](Self::hosts) can be restricted too.
/// - **Keys** are set for [one host](Self::secret_header). They are sent only to that host and only
///   over TLS, and are masked in answers. Neither events nor models see them.
/// - **Certificates** are checked against the authorities that the platform trusts, or against
///   those [set for the host](Self::root_certificate).
/// - **Redirects** are checked and counted like the first request. A redirect from TLS to plain
///   HTTP is an error. On a redirect to another host, the caller's headers are dropped, and methods
///   other than GET and HEAD are refused.
/// - **Limits**: Bodies are not compressed and are read up to a limit. The time limit covers the
///   whole call.
///
/// The effects are `read`, or `write` if a method other than GET and HEAD is allowed. Cancelling a
/// call closes its connection.
///
/// ```
/// use agentflow::model::Secret;
/// use agentflow::{Runtime, tools};
///
/// let request = tools::HttpRequest::new()
///     .hosts(["api.example.org", "*.example.com"])
///     .secret_header("api.example.org", "authorization", Secret::new("Bearer ..."));
/// let runtime = Runtime::builder().tools(request.tool()).build();
/// ```
#[derive(Clone)]
#[doc(alias = "HttpTool")]
pub struct HttpRequest {
    pub(crate) targets: Targets,
    methods: Vec<Method>,
    secrets: Vec<SecretHeader>,
    max_bytes: usize,
    pub(crate) timeout: Duration,
    max_redirects: usize,
}

/// A secret header for one host.
#[derive(Clone)]
struct SecretHeader {
    host: String,
    name: String,
    value: Secret,
}

impl Default for HttpRequest {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpRequest {
    /// Creates the defaults: GET and HEAD, any host of the public internet, no keys, 1 MiB, 30 s, 5
    /// redirects.
    pub fn new() -> Self {
        Self {
            targets: Targets::default(),
            methods: vec![Method::GET, Method::HEAD],
            secrets: Vec::new(),
            max_bytes: DEFAULT_MAX_BYTES,
            timeout: DEFAULT_TIMEOUT,
            max_redirects: DEFAULT_MAX_REDIRECTS,
        }
    }

    /// Sets the hosts that may be requested. Default: all hosts.
    ///
    /// An entry is a name such as `api.example.org`, a pattern such as `*.example.org` for all
    /// subdomains, or an IP address. With a port, as in `api.example.org:8443`, only that port is
    /// allowed. The address guard applies in addition. If an entry has a different form, such as a
    /// URL, an agent with the tool is not [built](agentflow_core::Error::Build).
    #[must_use]
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.targets.name_hosts(hosts);
        self
    }

    /// Sets the allowed methods, such as `GET` and `POST`. Default: GET and HEAD. Invalid method
    /// names are ignored.
    #[must_use]
    pub fn methods<'m>(mut self, methods: impl IntoIterator<Item = &'m str>) -> Self {
        self.methods = methods
            .into_iter()
            .filter_map(|name| Method::from_bytes(name.as_bytes()).ok())
            .collect();
        self
    }

    /// Adds a header that is sent to one host over TLS, such as a key. The host is written as in
    /// [`hosts`](Self::hosts).
    ///
    /// Without a port, the header is sent only to the default port of the scheme. A request to that
    /// host is refused if the caller sets the same header. To an address that the
    /// [guard](Self::guard) had to allow, the header is also sent without TLS.
    #[must_use]
    pub fn secret_header(
        mut self,
        host: impl Into<String>,
        name: impl Into<String>,
        value: Secret,
    ) -> Self {
        let host = self.targets.read_host(host.into());
        self.secrets.push(SecretHeader { host, name: name.into(), value });
        self
    }

    /// Sets the guard for the addresses of connections. Default: addresses of the public internet.
    ///
    /// ```
    /// use agentflow::tools::{AddressGuard, HttpRequest};
    /// use std::net::{IpAddr, Ipv4Addr};
    ///
    /// // This machine, and a private network.
    /// let guard = AddressGuard::default().allow(Ipv4Addr::LOCALHOST.into(), 32).allow(IpAddr::from([10, 1, 0, 0]), 16);
    /// let request = HttpRequest::new().guard(guard);
    /// ```
    #[must_use]
    pub fn guard(mut self, guard: AddressGuard) -> Self {
        self.targets.guard = guard;
        self
    }

    /// Sets the certificate authorities of a host as PEM text, instead of those that the platform
    /// trusts. Use it for a server with a private certificate. The host is written as in
    /// [`hosts`](Self::hosts).
    ///
    /// # Errors
    /// The text contains no certificate, or a certificate that cannot be parsed.
    pub fn root_certificate(
        mut self,
        host: impl Into<String>,
        pem: impl AsRef<[u8]>,
    ) -> io::Result<Self> {
        self.targets.trust(host.into(), pem.as_ref())?;
        Ok(self)
    }

    /// Sets the function that resolves host names, instead of the operating system. The guard
    /// checks its results.
    #[must_use]
    pub fn resolver<F, Fut>(mut self, resolve: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.targets.resolver = Some(Arc::new(move |host| Box::pin(resolve(host))));
        self
    }

    /// Sets the maximum size of a body in bytes. Default: 1 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the time limit of a call, including all redirects. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of redirects. Default: 5. With 0, a redirect response is returned as
    /// the answer.
    #[must_use]
    pub fn max_redirects(mut self, count: usize) -> Self {
        self.max_redirects = count;
        self
    }

    /// Creates the tool.
    pub fn tool(&self) -> FnTool {
        let methods = self.methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
        let hosts = match &self.targets.hosts {
            Some(hosts) => format!(" Hosts: {}.", hosts.join(", ")),
            None => String::new(),
        };
        let about = format!(
            "Requests an address of the web and gives the answer: status, headers, and body as JSON or text. Methods: \
             {methods}.{hosts}"
        );
        // GET and HEAD are safe methods (RFC 9110), so only other methods make the tool write.
        let only_reads =
            self.methods.iter().all(|method| *method == Method::GET || *method == Method::HEAD);
        let effects = if only_reads { Effects::Read } else { Effects::Write };
        let request = Arc::new(self.clone());
        let tool = FnTool::new("http_request", about, move |_cx, asked: RequestArguments| {
            let request = Arc::clone(&request);
            async move {
                let answered = tokio::time::timeout(request.timeout, request.answer(asked)).await;
                let late = |_| {
                    let problem = format!("the call did not end within {:?}", request.timeout);
                    Err(ToolError::with_status(ToolStatus::Timeout, problem))
                };
                answered.unwrap_or_else(late).map_err(|error| request.without_secrets(&error))
            }
        });
        tool.policy(ToolPolicy::default().effects(effects)).unusable(self.targets.problem())
    }

    async fn answer(&self, asked: RequestArguments) -> Result<HttpAnswer, ToolError> {
        let mut method = self.method(asked.method.as_deref())?;
        let mut url = self.targets.url(&asked.url, None)?;
        let mut headers = self.headers(&asked.headers)?;
        let mut body = asked.body.map(|body| match body {
            Value::String(text) => text,
            other => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                other.to_string()
            }
        });
        if body.is_some() && (method == Method::GET || method == Method::HEAD) {
            return Err(ToolError::new(format!(
                "a {method} has no body; leave it out, or use another method"
            )));
        }
        for hop in 0.. {
            let response = self.send(&url, &method, &headers, body.as_deref()).await?;
            let Some(next) = self.redirect(&response, &url, hop)? else {
                return self.read(url, response).await;
            };
            // Like browsers: the redirect is requested with GET, unless status 307 or 308 demands
            // that the request is repeated.
            let status = response.status();
            let repeats =
                matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            if !repeats
                && method != Method::HEAD
                && (status == StatusCode::SEE_OTHER || method == Method::POST)
            {
                (method, body) = (Method::GET, None);
                headers.remove(CONTENT_TYPE);
            }
            // Another host must not receive the caller's headers or a request with effects.
            if host_of(&next) != host_of(&url)
                || next.port_or_known_default() != url.port_or_known_default()
            {
                if method != Method::GET && method != Method::HEAD {
                    let host = host_of(&next);
                    let problem = format!(
                        "the server sends the request on to `{host}`, which it was not meant for"
                    );
                    return Err(ToolError::new(format!(
                        "{problem}; request `{next}` itself if it should be"
                    )));
                }
                headers.clear();
            }
            url = next;
        }
        Err(ToolError::new("the request was not answered"))
    }

    fn method(&self, name: Option<&str>) -> Result<Method, ToolError> {
        let name = name.unwrap_or("GET").to_ascii_uppercase();
        let found = self.methods.iter().find(|method| method.as_str() == name);
        found.cloned().ok_or_else(|| {
            let all = self.methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
            ToolError::new(format!("the method `{name}` is not used; there are: {all}"))
        })
    }

    fn headers(&self, given: &BTreeMap<String, String>) -> Result<HeaderMap, ToolError> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let named: HeaderName = name
                .parse()
                .map_err(|_| ToolError::new(format!("`{name}` is not the name of a header")))?;
            if is_own_header(&named) {
                return Err(ToolError::new(format!(
                    "the header `{name}` is not set by a caller; leave it out"
                )));
            }
            let value = HeaderValue::from_str(value).map_err(|_| {
                ToolError::new(format!("the value of the header `{name}` cannot be sent"))
            })?;
            headers.insert(named, value);
        }
        Ok(headers)
    }

    pub(crate) async fn send(
        &self,
        url: &Url,
        method: &Method,
        headers: &HeaderMap,
        body: Option<&str>,
    ) -> Result<Response, ToolError> {
        let addresses = self.targets.addresses(url).await?;
        let may_be_plain = may_be_plain(&addresses);
        let mut all = headers.clone();
        let host = host_of(url);
        for SecretHeader { name, value, .. } in
            self.secrets.iter().filter(|secret| may_have_key(url, &secret.host))
        {
            let (named, value) = secret_header(name, value.expose()).map_err(ToolError::new)?;
            // The caller must not replace the key.
            if headers.contains_key(&named) {
                return Err(ToolError::new(format!(
                    "the header `{name}` of `{host}` is set already; leave it out"
                )));
            }
            if url.scheme() != "https" && !may_be_plain {
                let problem =
                    format!("`{host}` is requested with a key, which is sent over `https:` alone");
                return Err(ToolError::new(problem));
            }
            all.insert(named, value);
        }
        send(&self.targets, url, &addresses, method, all, body).await.map_err(|unsent| unsent.error)
    }

    /// Returns the address to which an answer redirects, or `None` if it is the final answer.
    fn redirect(
        &self,
        response: &Response,
        from: &Url,
        hop: usize,
    ) -> Result<Option<Url>, ToolError> {
        let followed = [301, 302, 303, 307, 308].contains(&response.status().as_u16())
            && self.max_redirects > 0;
        let Some(location) = response.headers().get(LOCATION).filter(|_| followed) else {
            return Ok(None);
        };
        if hop == self.max_redirects {
            let problem = format!(
                "there are more than {hop} redirects, the last one from `{}`",
                host_of(from)
            );
            return Err(ToolError::new(problem));
        }
        let location = std::str::from_utf8(location.as_bytes())
            .map_err(|_| ToolError::new("the server redirects to an address that is not a text"))?;
        // The target of a redirect passes the same checks as the first address.
        let next = self.targets.url(location, Some(from))?;
        match from.scheme() == "https" && next.scheme() == "http" {
            true => Err(ToolError::new(format!(
                "the server redirects from TLS to none, at `{}`",
                host_of(&next)
            ))),
            false => Ok(Some(next)),
        }
    }

    async fn read(&self, url: Url, mut response: Response) -> Result<HttpAnswer, ToolError> {
        let status = response.status().as_u16();
        let shown = SHOWN.iter().filter_map(|name| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some((name.as_str().to_owned(), self.masked(value)))
        });
        let headers: BTreeMap<String, String> = shown.collect();
        let read = body_of(&mut response, self.max_bytes).await?;
        let kind = headers.get("content-type").map(String::as_str).unwrap_or_default();
        let text = String::from_utf8(read).map_err(|_| {
            ToolError::new(format!(
                "the answer is not text of UTF-8, but `{kind}`, with the status {status}"
            ))
        })?;
        let text = self.masked(&text);
        let body = match kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json")) {
            // A server may declare JSON wrongly; the model still gets the text.
            true => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            false => Value::String(text),
        };
        Ok(HttpAnswer { url: self.masked(url.as_str()), status, headers, body })
    }

    /// Masks the keys in a string, which a server may have sent back.
    fn masked(&self, text: &str) -> String {
        self.secrets
            .iter()
            .fold(text.to_owned(), |text, secret| without_key(&text, secret.value.expose()))
    }

    fn without_secrets(&self, error: &ToolError) -> ToolError {
        error.with_texts(|text| self.masked(text))
    }
}

/// Does not print keys.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { targets, methods, secrets: _, max_bytes, timeout, max_redirects } = self;
        f.debug_struct("HttpRequest")
            .field("hosts", &targets.hosts)
            .field("guard", &targets.guard)
            .field("methods", methods)
            .field("max_bytes", max_bytes)
            .field("timeout", timeout)
            .field("max_redirects", max_redirects)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize, JsonSchema)]
struct RequestArguments {
    /// The address, such as `https://example.org/a?b=c`.
    url: String,
    /// The method; default `GET`.
    method: Option<String>,
    /// Headers of the request by their names.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body: a text is sent as it is, anything else as JSON.
    body: Option<Value>,
}

#[derive(Serialize, JsonSchema)]
struct HttpAnswer {
    /// The address that answered, after redirects.
    url: String,
    /// The status of HTTP.
    status: u16,
    headers: BTreeMap<String, String>,
    /// JSON or a text.
    body: Value,
}
