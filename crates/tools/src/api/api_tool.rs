//! `ApiTool`: a tool that calls one operation of an HTTP service and is described as data.
//!
//! `api_request.rs` builds the requests, `api_exchange.rs` sends them, and `api_paging.rs` finds
//! the next pages.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api_access::{ApiAccess, Keys};
use super::api_description::{ApiAuth, ApiDescription, ApiParameter, Paging};
use super::api_error::ApiToolError;
use super::api_paging::Pages;
use super::api_request::CheckedApi;
use super::description_form::{form_of, value_of};
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::{Effects, FnTool, ToolDefinition, ToolError, ToolPolicy};

/// Maximum size of a description in bytes.
const MOST_BYTES: usize = 256 << 10;

/// A tool that calls one operation of an HTTP service. It is described as data: in Rust, or as YAML
/// or JSON.
///
/// ```
/// use agentflow::tools::{ApiAuth, ApiParameter, ApiTool, ParameterPlace};
/// use agentflow::Runtime;
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let issues = ApiTool::new("open_issues", "Lists the open issues of a repository.", "GET",
///                           "https://api.example.org/repos/{owner}/{name}/issues?state=open")
///     .parameter("owner", ApiParameter::new(ParameterPlace::Path))
///     .parameter("name", ApiParameter::new(ParameterPlace::Path))
///     .parameter("labels", ApiParameter::new(ParameterPlace::Query).schema(json!({"type": "array", "items": {"type": "string"}})).optional())
///     .auth(ApiAuth::Bearer { secret: "TRACKER_KEY".to_owned() })
///     .answer("$[*].title");
/// let runtime = Runtime::builder().tools(issues.tool()?).build();
/// # Ok(())
/// # }
/// ```
///
/// The same tool as text for [`read`](Self::read). JSON is always supported, YAML with the feature
/// `documents`:
///
/// ```
/// # #[cfg(feature = "documents")] {
/// use agentflow::tools::{ApiAccess, ApiTool};
///
/// let issues = ApiTool::read("
/// name: open_issues
/// description: Lists the open issues of a repository.
/// url: https://api.example.org/repos/{owner}/{name}/issues?state=open
/// parameters:
///   owner: {in: path}
///   name: {in: path, description: The repository.}
///   labels: {in: query, schema: {type: array, items: {type: string}}, required: false}
/// auth: {kind: bearer, secret: TRACKER_KEY}
/// answer: $[*].title
/// ").unwrap();
/// // The description names a key, so the program must list the hosts that may receive it.
/// assert!(issues.tool().is_err());
/// assert!(issues.access(ApiAccess::new().hosts(["api.example.org"])).tool().is_ok());
/// # }
/// ```
///
/// - **Arguments** cannot change the host, scheme, port or structure of the path. A value in the
///   path is fully encoded. A value that is empty or would leave its path segment is rejected.
///   Names of headers and fields are fixed.
/// - **Addresses** are restricted by [`ApiAccess`]. Default: addresses of the public internet. A
///   redirect is an error, and so is a next page on another server.
/// - **Keys** are referenced by name ([`ApiAuth`]). They are sent only over TLS, except to
///   addresses that the guard had to allow. They are masked in answers, and no event, error or log
///   contains them.
/// - **The answer** is the JSON of the body, or its text, or the part that [`answer`](Self::answer)
///   selects. With [pages](Self::paging) it is `{"items": [..], "more": false}`; `more` is `true`
///   if there are more pages than [`max_pages`](Self::max_pages).
/// - **Errors** contain the status and the beginning of the body. 400 and 422 count as
///   [`ToolStatus::InvalidArguments`], 401 and 403 as [`ToolStatus::Unauthorized`], 408 and 504 as
///   [`ToolStatus::Timeout`]. Transient failures are [retried](ApiAccess::max_retries).
/// - **Effects**: GET and HEAD read. Other methods write: a call that a crash interrupted is not
///   repeated, unless the tool is [`idempotent`](Self::idempotent) or has an
///   [`idempotency_key`](Self::idempotency_key).
#[derive(Clone)]
#[doc(alias = "ExternalAPITool")]
#[doc(alias = "HttpApiTool")]
pub struct ApiTool {
    described: ApiDescription,
    access: ApiAccess,
    /// `true` if the description was read as data, so that its author may be untrusted.
    is_read: bool,
    /// Path prefix of all requests, also those of next pages.
    base_path: Option<String>,
}

impl ApiTool {
    /// Creates a tool from its name, its description for the model, and the method and address that
    /// it calls. The path may contain placeholders such as `{owner}`, each with a
    /// [parameter](Self::parameter).
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        method: impl Into<String>,
        url: impl Into<String>,
    ) -> Self {
        let described = ApiDescription {
            name: name.into(),
            description: description.into(),
            method: method.into(),
            url: url.into(),
            parameters: Default::default(),
            headers: Default::default(),
            auth: None,
            answer: None,
            paging: None,
            max_pages: 10,
            idempotent: false,
            idempotency_key: None,
        };
        Self { described, access: ApiAccess::new(), is_read: false, base_path: None }
    }

    /// Reads a description of at most 256 KiB: JSON, or YAML with the feature `documents`. Its
    /// fields are `name`, `description`, `method` (default `GET`), `url`, `parameters`, `headers`,
    /// `auth`, `answer`, `paging`, `max_pages`, `idempotent` and `idempotency_key`.
    ///
    /// # Errors
    /// All mistakes in the form of the text. Mistakes in its content are reported by
    /// [`tool`](Self::tool).
    pub fn read(text: &str) -> Result<Self, ApiToolError> {
        let failed = |problems| ApiToolError::new("the tool of this description", problems);
        let value = value_of(text, MOST_BYTES).map_err(failed)?;
        let described = form_of(value).map_err(failed)?;
        Ok(Self { described, access: ApiAccess::new(), is_read: true, base_path: None })
    }

    /// Creates a tool whose requests stay below a path, which ends with `/`.
    pub(crate) fn below(base_path: String, described: ApiDescription, access: ApiAccess) -> Self {
        Self { described, access, is_read: false, base_path: Some(base_path) }
    }

    /// Adds an argument.
    #[must_use]
    pub fn parameter(mut self, argument: impl Into<String>, parameter: ApiParameter) -> Self {
        self.described.parameters.insert(argument.into(), parameter);
        self
    }

    /// Adds a header that is always sent. Do not use it for keys, because a description may be
    /// shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.described.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the credentials.
    #[must_use]
    pub fn auth(mut self, auth: ApiAuth) -> Self {
        self.described.auth = Some(auth);
        self
    }

    /// Sets the JSONPath query (RFC 9535) that selects the returned part of an answer. One match is
    /// returned as it is, several matches as a list, and no match as `null`. With pages, it selects
    /// the items of each page.
    #[must_use]
    pub fn answer(mut self, path: impl Into<String>) -> Self {
        self.described.answer = Some(path.into());
        self
    }

    /// Enables paging: all pages of a list are read, one after another.
    #[must_use]
    pub fn paging(mut self, paging: Paging) -> Self {
        self.described.paging = Some(paging);
        self
    }

    /// Sets the maximum number of pages that one call reads. Default: 10.
    #[must_use]
    pub fn max_pages(mut self, pages: usize) -> Self {
        self.described.max_pages = pages;
        self
    }

    /// Declares that repeating the call has the same effect as making it once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.described.idempotent = true;
        self
    }

    /// Sends the step's idempotency key in a header such as `idempotency-key`. The key is the same
    /// for all attempts of the step. The tool then counts as idempotent.
    #[must_use]
    pub fn idempotency_key(mut self, header: impl Into<String>) -> Self {
        self.described.idempotency_key = Some(header.into());
        self
    }

    /// Sets the allowed addresses and the keys.
    #[must_use]
    pub fn access(mut self, access: ApiAccess) -> Self {
        self.access = access;
        self
    }

    /// Checks the description and creates the tool.
    ///
    /// # Errors
    /// All mistakes in the description.
    pub fn tool(&self) -> Result<FnTool, ApiToolError> {
        let described = self.described.clone();
        let failed =
            |problems| ApiToolError::new(format!("the tool `{}`", self.described.name), problems);
        let checked = CheckedApi::new(described).map_err(failed)?;
        if let Some(problem) = self.access.targets.problem() {
            return Err(failed(vec![problem]));
        }
        // An address that is not allowed is reported when the tool is built and not at its first
        // call.
        let base = self.access.targets.url(checked.template.base().as_str(), None);
        let base = base.map_err(|error| failed(vec![error.message().to_owned()]))?;
        // A description from another author must not send a key to an address of its choice.
        if self.is_read && self.described.auth.is_some() {
            self.access.check_keys(&base).map_err(|problem| failed(vec![problem]))?;
        }
        let mut problems = Vec::new();
        self.access.check_client(self.described.auth.as_ref(), self.is_read, &mut problems);
        if !problems.is_empty() {
            return Err(failed(problems));
        }
        let effects = if checked.reads() { Effects::Read } else { Effects::Write };
        let mut policy = ToolPolicy::default().effects(effects);
        if self.described.idempotent || self.described.idempotency_key.is_some() {
            policy = policy.idempotent();
        }
        let definition = ToolDefinition::new(
            &*self.described.name,
            &*self.described.description,
            checked.schema(),
        );
        let call = Arc::new(ApiCall {
            checked,
            access: self.access.clone(),
            base_path: self.base_path.clone(),
        });
        Ok(FnTool::dynamic(definition.policy(policy), move |cx, arguments: Value| {
            let call = Arc::clone(&call);
            async move { call.access.within_time(call.made(&arguments, &cx.idempotency_key())).await }
        }))
    }
}

/// The state that a call needs.
struct ApiCall {
    checked: CheckedApi,
    access: ApiAccess,
    base_path: Option<String>,
}

impl ApiCall {
    async fn made(&self, arguments: &Value, step_key: &str) -> Result<Value, ToolError> {
        let auth = self.checked.described.auth.as_ref();
        let mut keys = self.access.keys(auth).await?;
        let mut made = self.with_keys(arguments, step_key, &keys).await;
        let is_refused =
            made.as_ref().is_err_and(|error| error.status() == ToolStatus::Unauthorized);
        // The service rejected the call, so it had no effect. An OAuth token may have been revoked
        // before it expired: try once with a new one.
        if is_refused && self.access.forget_token(auth, &keys).await {
            keys = self.access.keys(auth).await?;
            made = self.with_keys(arguments, step_key, &keys).await;
        }
        made.map_err(|error| keys.without_key(&error))
    }

    async fn with_keys(
        &self,
        arguments: &Value,
        step_key: &str,
        keys: &Keys,
    ) -> Result<Value, ToolError> {
        let deadline = Instant::now() + self.access.timeout;
        let mut request = self.checked.request(arguments, step_key)?;
        let Some(paging) = &self.checked.described.paging else {
            let answer =
                self.access.exchange(&request, keys, self.access.max_bytes, deadline).await?;
            return self.found(&answer.value);
        };
        let first = request.url.clone();
        let (next, base_path) = (self.checked.next.as_ref(), self.base_path.as_deref());
        let mut pages = Pages { paging, next, first, base_path, count: 0, items: 0 };
        let (mut all, mut left) = (Vec::new(), self.access.max_bytes);
        request.url = pages.begin();
        loop {
            let answer =
                self.access.exchange(&request, keys, left, deadline).await.map_err(|error| {
                    // The limit counts all pages together, so name it instead of the remainder for this
                    // page.
                    let is_size = error.status() == ToolStatus::OutputTooLarge && pages.count > 0;
                    let problem = format!(
                        "the pages have more than {} bytes together; ask for less",
                        self.access.max_bytes
                    );
                    if is_size {
                        ToolError::with_status(ToolStatus::OutputTooLarge, problem)
                    } else {
                        error
                    }
                })?;
            let items = self.items(&answer.value)?;
            left = left.saturating_sub(answer.bytes);
            pages.count += 1;
            pages.items += items.len() as u64;
            let next = pages.after(&request.url, &answer.headers, &answer.value, items.len())?;
            all.extend(items);
            let Some(next) = next else { return Ok(json!({"items": all, "more": false})) };
            // The list has more pages, so the model must know that the answer is incomplete.
            if pages.count >= self.checked.described.max_pages as u64 {
                return Ok(json!({"items": all, "more": true}));
            }
            request.url = next;
        }
    }

    /// Returns the items of a page.
    fn items(&self, page: &Value) -> Result<Vec<Value>, ToolError> {
        if page.is_string() {
            // Fails with a message for answers that are not JSON.
            self.found(page)?;
        }
        let items = match (&self.checked.answer, page) {
            (Some(path), page) => path.items(page)?,
            (None, Value::Array(items)) => Some(items.clone()),
            (None, page) => page.is_null().then(Vec::new),
        };
        items.ok_or_else(|| {
            let problem = "a page has no list of items; let `answer` name where the list is, such as `$.items`";
            ToolError::new(problem)
        })
    }

    /// Returns the selected part of an answer.
    fn found(&self, answer: &Value) -> Result<Value, ToolError> {
        match (&self.checked.answer, answer) {
            (None, answer) => Ok(answer.clone()),
            (Some(_), Value::String(text)) => {
                let shown = agentflow_schema::text::head(text.trim(), 100);
                Err(ToolError::new(format!(
                    "the answer is not JSON, but a text that begins with `{shown}`"
                )))
            }
            (Some(path), answer) => path.find(answer),
        }
    }
}

impl ApiAccess {
    /// Applies the time limit to a call.
    pub(crate) async fn within_time<T>(
        &self,
        call: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        tokio::time::timeout(self.timeout, call).await.unwrap_or_else(|_| {
            let problem = format!("the call did not end within {:?}", self.timeout);
            Err(ToolError::with_status(ToolStatus::Timeout, problem))
        })
    }
}

/// Serializes the description without the access settings.
impl Serialize for ApiTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.described.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ApiTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let described = ApiDescription::deserialize(deserializer)?;
        Ok(Self { described, access: ApiAccess::new(), is_read: true, base_path: None })
    }
}

impl fmt::Debug for ApiTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiTool")
            .field("described", &self.described)
            .field("access", &self.access)
            .finish()
    }
}
