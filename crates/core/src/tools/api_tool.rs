//! `ApiTool`: a tool that calls one operation of a service over HTTP, described as data. `api_request.rs` makes the requests,
//! `api_exchange.rs` the calls, `api_paging.rs` finds the pages.

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
use crate::message::ToolStatus;
use crate::tool::{Effects, FnTool, ToolDefinition, ToolError, ToolPolicy};

/// The most bytes of a description.
const MOST_BYTES: usize = 256 << 10;

/// A tool that calls one operation of a service over HTTP, described as data: in Rust, or as YAML or JSON.
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
/// The same as text, for [`read`](Self::read); JSON is read always, YAML with the feature `documents`:
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
/// // It names a key, so the program says where keys may go.
/// assert!(issues.tool().is_err());
/// assert!(issues.access(ApiAccess::new().hosts(["api.example.org"])).tool().is_ok());
/// # }
/// ```
///
/// - **What the arguments reach.** Host, scheme, port and the parts of the path are those of the description. A value in the path
///   is encoded whole; one that would lead out of its place, or is empty, is refused. Names of headers and fields are fixed.
/// - **Where it connects** is the host's to say, by [`ApiAccess`]: to addresses of the public internet unless it says more. A
///   redirect is an error, and so is a next page at another server.
/// - **Keys** are named and not written ([`ApiAuth`]). They are sent over TLS alone, but for addresses that the guard had to
///   allow, and masked in what comes back; no event, error or log has them.
/// - **The answer** is the JSON of the body, or its text, or what [`answer`](Self::answer) finds in it. With [pages](Self::paging)
///   it is `{"items": [..], "more": false}`; `more` says that there were more pages than [`max_pages`](Self::max_pages).
/// - **Errors** have the status and the beginning of the body: 400 and 422 count as arguments that do not fit, 401 and 403 as
///   [`ToolStatus::Unauthorized`], 408 and 504 as a time-out. What may pass is [retried](ApiAccess::max_retries).
/// - **Effects**: GET and HEAD read. Others write, so a call that a crash interrupted is not made again, unless it is
///   [`idempotent`](Self::idempotent) or has an [`idempotency_key`](Self::idempotency_key).
#[derive(Clone)]
#[doc(alias = "ExternalAPITool")]
#[doc(alias = "HttpApiTool")]
pub struct ApiTool {
    described: ApiDescription,
    access: ApiAccess,
    /// Somebody else may have written it.
    is_read: bool,
    /// Path prefix of all requests, also those of next pages.
    base_path: Option<String>,
}

impl ApiTool {
    /// A tool by its name, what it does in words for the model, and the method and the address that it calls. The path may have
    /// placeholders such as `{owner}`, each with a [parameter](Self::parameter).
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

    /// Reads a description: JSON, or with the feature `documents` YAML, of at most 256 KiB. Its fields are `name`,
    /// `description`, `method` (default `GET`), `url`, `parameters`, `headers`, `auth`, `answer`, `paging`, `max_pages`,
    /// `idempotent` and `idempotency_key`.
    ///
    /// # Errors
    /// All that is wrong with the form. What is wrong with what it says is reported by [`tool`](Self::tool).
    pub fn read(text: &str) -> Result<Self, ApiToolError> {
        let failed = |problems| ApiToolError::new("the tool of this description", problems);
        let value = value_of(text, MOST_BYTES).map_err(failed)?;
        let described = form_of(value).map_err(failed)?;
        Ok(Self { described, access: ApiAccess::new(), is_read: true, base_path: None })
    }

    /// Creates a tool whose requests stay below a path, which ends with `/`.
    pub(super) fn below(base_path: String, described: ApiDescription, access: ApiAccess) -> Self {
        Self { described, access, is_read: false, base_path: Some(base_path) }
    }

    /// Adds an argument.
    #[must_use]
    pub fn parameter(mut self, argument: impl Into<String>, parameter: ApiParameter) -> Self {
        self.described.parameters.insert(argument.into(), parameter);
        self
    }

    /// Adds a header that is always sent. It is not for keys: a description may be shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.described.headers.insert(name.into(), value.into());
        self
    }

    /// Sets how the service is shown who calls.
    #[must_use]
    pub fn auth(mut self, auth: ApiAuth) -> Self {
        self.described.auth = Some(auth);
        self
    }

    /// Sets a JSONPath query (RFC 9535) of what is given of an answer: one match is the answer itself, several are a list, none
    /// is `null`. With pages it finds the items of each.
    #[must_use]
    pub fn answer(mut self, path: impl Into<String>) -> Self {
        self.described.answer = Some(path.into());
        self
    }

    /// Has all pages of a list be read, one after another.
    #[must_use]
    pub fn paging(mut self, paging: Paging) -> Self {
        self.described.paging = Some(paging);
        self
    }

    /// Sets the most pages that one call reads; default 10.
    #[must_use]
    pub fn max_pages(mut self, pages: usize) -> Self {
        self.described.max_pages = pages;
        self
    }

    /// Says that making the call twice is the same as making it once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.described.idempotent = true;
        self
    }

    /// Sends a key that stays the same however often the step is started again, in a header such as `idempotency-key`. The
    /// tool counts as idempotent then.
    #[must_use]
    pub fn idempotency_key(mut self, header: impl Into<String>) -> Self {
        self.described.idempotency_key = Some(header.into());
        self
    }

    /// Sets what may be reached, and with which keys.
    #[must_use]
    pub fn access(mut self, access: ApiAccess) -> Self {
        self.access = access;
        self
    }

    /// The tool.
    ///
    /// # Errors
    /// All that is wrong with the description.
    pub fn tool(&self) -> Result<FnTool, ApiToolError> {
        let described = self.described.clone();
        let failed = |problems| ApiToolError::new(format!("the tool `{}`", self.described.name), problems);
        let checked = CheckedApi::new(described).map_err(failed)?;
        if let Some(problem) = self.access.targets.problem() {
            return Err(failed(vec![problem]));
        }
        let base = self.access.targets.url(checked.template.base().as_str(), None);
        let base = base.map_err(|error| failed(vec![error.message().to_owned()]))?;
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
        let definition = ToolDefinition::new(&*self.described.name, &*self.described.description, checked.schema());
        let call = Arc::new(Call { checked, access: self.access.clone(), base_path: self.base_path.clone() });
        Ok(FnTool::dynamic(definition.policy(policy), move |cx, arguments: Value| {
            let call = Arc::clone(&call);
            async move { call.access.within_time(call.made(&arguments, &cx.idempotency_key())).await }
        }))
    }
}

/// What a call needs.
struct Call {
    checked: CheckedApi,
    access: ApiAccess,
    base_path: Option<String>,
}

impl Call {
    async fn made(&self, arguments: &Value, step_key: &str) -> Result<Value, ToolError> {
        let auth = self.checked.described.auth.as_ref();
        let mut keys = self.access.keys(auth).await?;
        let mut made = self.with_keys(arguments, step_key, &keys).await;
        let is_refused = made.as_ref().is_err_and(|error| error.status() == ToolStatus::Unauthorized);
        // A refused call was not made. A token may have been revoked before its end.
        if is_refused && self.access.forget_token(auth, &keys).await {
            keys = self.access.keys(auth).await?;
            made = self.with_keys(arguments, step_key, &keys).await;
        }
        made.map_err(|error| keys.without_key(&error))
    }

    async fn with_keys(&self, arguments: &Value, step_key: &str, keys: &Keys) -> Result<Value, ToolError> {
        let deadline = Instant::now() + self.access.timeout;
        let mut request = self.checked.request(arguments, step_key)?;
        let Some(paging) = &self.checked.described.paging else {
            let answer = self.access.exchange(&request, keys, self.access.max_bytes, deadline).await?;
            return self.found(&answer.value);
        };
        let first = request.url.clone();
        let (next, base_path) = (self.checked.next.as_ref(), self.base_path.as_deref());
        let mut pages = Pages { paging, next, first, base_path, count: 0, items: 0 };
        let (mut all, mut left) = (Vec::new(), self.access.max_bytes);
        request.url = pages.begin();
        loop {
            let answer = self.access.exchange(&request, keys, left, deadline).await.map_err(|error| {
                let is_size = error.status() == ToolStatus::OutputTooLarge && pages.count > 0;
                let problem =
                    format!("the pages have more than {} bytes together; ask for less", self.access.max_bytes);
                if is_size { ToolError::with_status(ToolStatus::OutputTooLarge, problem) } else { error }
            })?;
            let items = self.items(&answer.value)?;
            left = left.saturating_sub(answer.bytes);
            pages.count += 1;
            pages.items += items.len() as u64;
            let next = pages.after(&request.url, &answer.headers, &answer.value, items.len())?;
            all.extend(items);
            let Some(next) = next else { return Ok(json!({"items": all, "more": false})) };
            if pages.count >= self.checked.described.max_pages as u64 {
                return Ok(json!({"items": all, "more": true}));
            }
            request.url = next;
        }
    }

    /// The items of a page.
    fn items(&self, page: &Value) -> Result<Vec<Value>, ToolError> {
        if page.is_string() {
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

    /// What is given of an answer.
    fn found(&self, answer: &Value) -> Result<Value, ToolError> {
        match (&self.checked.answer, answer) {
            (None, answer) => Ok(answer.clone()),
            (Some(_), Value::String(text)) => {
                let shown = agentflow_schema::text::head(text.trim(), 100);
                Err(ToolError::new(format!("the answer is not JSON, but a text that begins with `{shown}`")))
            }
            (Some(path), answer) => path.find(answer),
        }
    }
}

impl ApiAccess {
    /// What a call gives within its time.
    pub(super) async fn within_time<T>(
        &self,
        call: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        tokio::time::timeout(self.timeout, call).await.unwrap_or_else(|_| {
            let problem = format!("the call did not end within {:?}", self.timeout);
            Err(ToolError::with_status(ToolStatus::Timeout, problem))
        })
    }
}

/// The description; what may be reached is the host's and not part of it.
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
        f.debug_struct("ApiTool").field("described", &self.described).field("access", &self.access).finish()
    }
}
