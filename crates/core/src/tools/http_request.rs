//! `HttpRequest`: the tool `http_request`, which asks servers of the web. `http_target.rs` says where a request may go; this
//! file sends it, follows redirects hop by hop, and reads the answer within limits. It retries nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use agentflow_http::{AddressGuard, secret_header};
use reqwest::header::{
    CONTENT_LANGUAGE, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, LINK, LOCATION,
    RETRY_AFTER,
};
use reqwest::{Method, Response, StatusCode, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http_exchange::{body_of, is_own_header, may_be_plain, send, without_key};
use super::http_target::{Targets, host_of, may_have_key};
use crate::message::ToolStatus;
use crate::model::Secret;
use crate::tool::{Effects, FnTool, ToolError, ToolPolicy};

const DEFAULT_MAX_BYTES: usize = 1 << 20;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_MAX_REDIRECTS: usize = 5;

/// The headers of an answer that are shown.
const SHOWN: [HeaderName; 8] = [CONTENT_TYPE, CONTENT_LANGUAGE, DATE, ETAG, LAST_MODIFIED, LINK, LOCATION, RETRY_AFTER];

/// Makes the tool `http_request`: a request to a server of the web, and its answer.
///
/// Its arguments are `{"url": .., "method": .., "headers": .., "body": ..}`; a body that is not a text is sent as JSON. The
/// answer is `{"url", "status", "headers", "body"}`: the address after redirects, the status of HTTP whatever it is, the headers
/// that say what the body is and where to read on, and the body, as JSON where the server says so and as text of UTF-8 else.
///
/// Whoever reads what a model asks for must expect that somebody else has told it what to ask. So:
///
/// - Only addresses of the public internet are connected to, or those that a [guard](Self::guard) allows; in a configuration,
///   `networks` names more. A refusal tells the model that the program does not allow the address, and the log has the remedy. Each
///   hop's host is resolved once, and the tool checks all its addresses and connects only to these; it does not use proxies of the
///   environment.
/// - Only the methods GET and HEAD are used, unless others are [named](Self::methods); [hosts](Self::hosts) can be named, too.
/// - Keys are given by the host for [one of its servers](Self::secret_header). They are sent to it alone, over TLS, and are masked
///   in what comes back. No event and no model sees them.
/// - Over TLS a server is known by the authorities that the platform trusts, or by those that are
///   [given for it](Self::root_certificate).
/// - A redirect is a request like the first: checked, counted, never from TLS to none, without the caller's headers once it leads
///   to another host, and never with another method than GET and HEAD there.
/// - Bodies are not compressed and are read up to a limit; the whole call has a time limit, however slowly a server speaks.
///
/// The effects are `read`, or `write` once another method than GET and HEAD is allowed. A call that is cancelled closes its
/// connection.
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
    pub(super) targets: Targets,
    methods: Vec<Method>,
    secrets: Vec<SecretHeader>,
    max_bytes: usize,
    pub(super) timeout: Duration,
    max_redirects: usize,
}

/// A header for one server.
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
    /// With GET and HEAD, to any host of the public internet, without keys.
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

    /// The hosts that are requested: names such as `api.example.org`, `*.example.org` for all below one, and addresses; with a
    /// port, as in `api.example.org:8443`, that port alone. Default: any. The guard counts for them, too. With any other text,
    /// such as an address, an agent with the tool is not [built](crate::Error::Build).
    #[must_use]
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.targets.name_hosts(hosts);
        self
    }

    /// The methods that are used, such as `GET` and `POST`, in place of GET and HEAD. What is not a name of a method is never
    /// asked for.
    #[must_use]
    pub fn methods<'m>(mut self, methods: impl IntoIterator<Item = &'m str>) -> Self {
        self.methods = methods.into_iter().filter_map(|name| Method::from_bytes(name.as_bytes()).ok()).collect();
        self
    }

    /// A header that is sent to one host over TLS, such as a key; the host is written as in [`hosts`](Self::hosts). Without a
    /// port it is sent only to the default port of the scheme. A caller's
    /// own header of that name is refused there. To an address that the [guard](Self::guard) had to allow it is sent without
    /// TLS as well.
    #[must_use]
    pub fn secret_header(mut self, host: impl Into<String>, name: impl Into<String>, value: Secret) -> Self {
        let host = self.targets.read_host(host.into());
        self.secrets.push(SecretHeader { host, name: name.into(), value });
        self
    }

    /// Which addresses are connected to. Default: those of the public internet.
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

    /// The authorities that certificates of a host come from, as PEM text, in place of those that the platform trusts: for a
    /// server with a certificate of its own. The host is written as in [`hosts`](Self::hosts).
    ///
    /// # Errors
    /// When the text has no certificate or one that cannot be read.
    pub fn root_certificate(mut self, host: impl Into<String>, pem: impl AsRef<[u8]>) -> io::Result<Self> {
        self.targets.trust(host.into(), pem.as_ref())?;
        Ok(self)
    }

    /// Finds the addresses of hosts in place of the operating system. What it gives is held against the guard.
    #[must_use]
    pub fn resolver<F, Fut>(mut self, resolve: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.targets.resolver = Some(Arc::new(move |host| Box::pin(resolve(host))));
        self
    }

    /// The most bytes of a body that is read; default 1 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How long a call may take with all its redirects; default 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many redirects are followed; default 5. With 0 the answer that redirects is the answer.
    #[must_use]
    pub fn max_redirects(mut self, count: usize) -> Self {
        self.max_redirects = count;
        self
    }

    /// The tool.
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
        let only_reads = self.methods.iter().all(|method| *method == Method::GET || *method == Method::HEAD);
        let effects = if only_reads { Effects::Read } else { Effects::Write };
        let request = Arc::new(self.clone());
        let tool = FnTool::new("http_request", about, move |_cx, asked: Asked| {
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

    async fn answer(&self, asked: Asked) -> Result<Answer, ToolError> {
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
            return Err(ToolError::new(format!("a {method} has no body; leave it out, or use another method")));
        }
        for hop in 0.. {
            let response = self.send(&url, &method, &headers, body.as_deref()).await?;
            let Some(next) = self.redirect(&response, &url, hop)? else {
                return self.read(url, response).await;
            };
            // As browsers do: what is asked for elsewhere is read there, unless the status says that the request is repeated.
            let status = response.status();
            let repeats = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            if !repeats && method != Method::HEAD && (status == StatusCode::SEE_OTHER || method == Method::POST) {
                (method, body) = (Method::GET, None);
                headers.remove(CONTENT_TYPE);
            }
            if host_of(&next) != host_of(&url) || next.port_or_known_default() != url.port_or_known_default() {
                if method != Method::GET && method != Method::HEAD {
                    let host = host_of(&next);
                    let problem = format!("the server sends the request on to `{host}`, which it was not meant for");
                    return Err(ToolError::new(format!("{problem}; request `{next}` itself if it should be")));
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
            let named: HeaderName =
                name.parse().map_err(|_| ToolError::new(format!("`{name}` is not the name of a header")))?;
            if is_own_header(&named) {
                return Err(ToolError::new(format!("the header `{name}` is not set by a caller; leave it out")));
            }
            let value = HeaderValue::from_str(value)
                .map_err(|_| ToolError::new(format!("the value of the header `{name}` cannot be sent")))?;
            headers.insert(named, value);
        }
        Ok(headers)
    }

    pub(super) async fn send(
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
        for SecretHeader { name, value, .. } in self.secrets.iter().filter(|secret| may_have_key(url, &secret.host)) {
            let (named, value) = secret_header(name, value.expose()).map_err(ToolError::new)?;
            if headers.contains_key(&named) {
                return Err(ToolError::new(format!("the header `{name}` of `{host}` is set already; leave it out")));
            }
            if url.scheme() != "https" && !may_be_plain {
                let problem = format!("`{host}` is requested with a key, which is sent over `https:` alone");
                return Err(ToolError::new(problem));
            }
            all.insert(named, value);
        }
        send(&self.targets, url, &addresses, method, all, body).await.map_err(|unsent| unsent.error)
    }

    /// Where an answer leads to; `None` when it is the answer.
    fn redirect(&self, response: &Response, from: &Url, hop: usize) -> Result<Option<Url>, ToolError> {
        let followed = [301, 302, 303, 307, 308].contains(&response.status().as_u16()) && self.max_redirects > 0;
        let Some(location) = response.headers().get(LOCATION).filter(|_| followed) else { return Ok(None) };
        if hop == self.max_redirects {
            let problem = format!("there are more than {hop} redirects, the last one from `{}`", host_of(from));
            return Err(ToolError::new(problem));
        }
        let location = std::str::from_utf8(location.as_bytes())
            .map_err(|_| ToolError::new("the server redirects to an address that is not a text"))?;
        let next = self.targets.url(location, Some(from))?;
        match from.scheme() == "https" && next.scheme() == "http" {
            true => Err(ToolError::new(format!("the server redirects from TLS to none, at `{}`", host_of(&next)))),
            false => Ok(Some(next)),
        }
    }

    async fn read(&self, url: Url, mut response: Response) -> Result<Answer, ToolError> {
        let status = response.status().as_u16();
        let shown = SHOWN.iter().filter_map(|name| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some((name.as_str().to_owned(), self.masked(value)))
        });
        let headers: BTreeMap<String, String> = shown.collect();
        let read = body_of(&mut response, self.max_bytes).await?;
        let kind = headers.get("content-type").map(String::as_str).unwrap_or_default();
        let text = String::from_utf8(read).map_err(|_| {
            ToolError::new(format!("the answer is not text of UTF-8, but `{kind}`, with the status {status}"))
        })?;
        let text = self.masked(&text);
        let body = match kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json")) {
            true => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            false => Value::String(text),
        };
        Ok(Answer { url: self.masked(url.as_str()), status, headers, body })
    }

    /// A text without the keys, which a server may send back.
    fn masked(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| without_key(&text, secret.value.expose()))
    }

    fn without_secrets(&self, error: &ToolError) -> ToolError {
        error.with_texts(|text| self.masked(text))
    }
}

/// Shows no key.
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
struct Asked {
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
struct Answer {
    /// The address that answered, after redirects.
    url: String,
    /// The status of HTTP.
    status: u16,
    headers: BTreeMap<String, String>,
    /// JSON or a text.
    body: Value,
}
