//! `GraphqlTool`: a tool that sends one fixed operation to a GraphQL service, described as data. `graphql_document.rs` reads the
//! operation, `api_exchange.rs` makes the call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::schema_check::SchemaCheck;
use agentflow_schema::text::{did_you_mean, head, nearest};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::api_access::ApiAccess;
use super::api_description::ApiAuth;
use super::api_error::ApiToolError;
use super::api_exchange::ApiRequest;
use super::api_request::{check_headers, check_name};
use super::description_form::{form_of, value_of};
use super::graphql_document::Operation;
use super::json_path::BoundedPath;
use super::url_template::UrlTemplate;
use crate::message::ToolStatus;
use crate::tool::{Effects, FnTool, ToolDefinition, ToolError, ToolPolicy};

/// The most bytes of a description.
const MOST_BYTES: usize = 256 << 10;
/// The most errors of an answer that are shown, and the most bytes of each.
const SHOWN: (usize, usize) = (5, 300);

/// A tool that sends one operation to a GraphQL service: the document is fixed, the variables are the arguments.
///
/// ```
/// use agentflow::tools::{ApiAuth, GraphqlTool};
/// use agentflow::Runtime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let document = "query ($owner: String!, $first: Int = 10) {
///     repository(owner: $owner) { issues(first: $first) { nodes { title } } }
/// }";
/// let issues = GraphqlTool::new("issues", "Lists issues.", "https://api.example.org/graphql", document)
///     .auth(ApiAuth::Bearer { secret: "TRACKER_KEY".to_owned() })
///     .answer("$.repository.issues.nodes[*].title");
/// let runtime = Runtime::builder().tools(issues.tool()?).build();
/// # Ok(())
/// # }
/// ```
///
/// - **Arguments** are the variables, with schemas of their types: `Int`, `Float`, `String`, `Boolean`, `ID`, and lists. A type
///   that only the service knows takes anything, unless [`variable`](Self::variable) says its schema. A variable that is not
///   `null`, and has no default, has to be given. Nothing of an argument becomes part of the document.
/// - **The answer** is `data`, or what [`answer`](Self::answer) finds in it. An answer with `errors` is an error with their
///   messages, whatever is in `data`.
/// - **Effects**: a query reads; a mutation writes, unless it is [`idempotent`](Self::idempotent). Subscriptions are refused.
/// - **Addresses, keys, limits and retries** are those of [`ApiTool`](super::ApiTool).
///
/// As text for [`read`](Self::read) its fields are `name`, `description`, `url`, `query`, `variables`, `headers`, `auth`,
/// `answer` and `idempotent`.
#[derive(Clone)]
pub struct GraphqlTool {
    described: Described,
    access: ApiAccess,
    /// Somebody else may have written it.
    is_read: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    description: String,
    url: String,
    query: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    variables: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auth: Option<ApiAuth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(default)]
    idempotent: bool,
}

impl GraphqlTool {
    /// A tool by its name, what it does in words for the model, the address of the service, and the document with its one
    /// operation.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        url: impl Into<String>,
        query: impl Into<String>,
    ) -> Self {
        let described = Described {
            name: name.into(),
            description: description.into(),
            url: url.into(),
            query: query.into(),
            variables: BTreeMap::new(),
            headers: BTreeMap::new(),
            auth: None,
            answer: None,
            idempotent: false,
        };
        Self { described, access: ApiAccess::new(), is_read: false }
    }

    /// Reads a description: JSON, or with the feature `documents` YAML, of at most 256 KiB.
    ///
    /// # Errors
    /// All that is wrong with the form. What is wrong with what it says is reported by [`tool`](Self::tool).
    pub fn read(text: &str) -> Result<Self, ApiToolError> {
        let failed = |problems| ApiToolError::new("the tool of this description", problems);
        let described = form_of(value_of(text, MOST_BYTES).map_err(failed)?).map_err(failed)?;
        Ok(Self { described, access: ApiAccess::new(), is_read: true })
    }

    /// Sets the JSON Schema of a variable, in place of the one that its type gives.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, schema: Value) -> Self {
        self.described.variables.insert(name.into(), schema);
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

    /// Sets a JSONPath query (RFC 9535) of what is given of `data`.
    #[must_use]
    pub fn answer(mut self, path: impl Into<String>) -> Self {
        self.described.answer = Some(path.into());
        self
    }

    /// Says that making the mutation twice is the same as making it once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.described.idempotent = true;
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
        let mut problems: Vec<String> = self.access.targets.problem().into_iter().collect();
        let described = &self.described;
        check_name(&described.name, &described.description, &mut problems);
        check_headers(&described.headers, &[], described.auth.as_ref(), &mut problems);
        let template = UrlTemplate::parse(&described.url).and_then(|template| match template.names() {
            [] => template.filled(|_| None),
            [name, ..] => Err(format!("the url has the placeholder `{{{name}}}`; a GraphQL service has one address")),
        });
        let url = template.and_then(|url| match self.access.targets.url(url.as_str(), None) {
            Ok(url) => Ok(url),
            Err(error) => Err(error.message().to_owned()),
        });
        let url = url.map_err(|problem| problems.push(problem)).ok();
        if let Some(url) = url.as_ref().filter(|_| self.is_read && described.auth.is_some()) {
            problems.extend(self.access.check_keys(url).err());
        }
        self.access.check_client(described.auth.as_ref(), self.is_read, &mut problems);
        let answer = described.answer.as_deref().and_then(|path| {
            BoundedPath::parse(path).map_err(|problem| problems.push(format!("`answer`: {problem}"))).ok()
        });
        let operation =
            Operation::read(&described.query).map_err(|problem| problems.push(format!("`query`: {problem}")));
        if let Ok(operation) = &operation {
            let names = || operation.variables.iter().map(|variable| &*variable.name);
            for (name, schema) in &described.variables {
                if !names().any(|one| one == name) {
                    let near = did_you_mean(nearest(name, names()));
                    problems.push(format!("the query has no variable `{name}`{near}"));
                } else if let Err(problem) = SchemaCheck::tolerant(schema) {
                    problems.push(format!("the schema of `{name}`: {problem}"));
                }
            }
        }
        let (Some(url), Ok(operation), true) = (url, operation, problems.is_empty()) else {
            return Err(ApiToolError::new(format!("the tool `{}`", described.name), problems));
        };
        let repeatable = !operation.is_mutation || described.idempotent;
        let effects = if operation.is_mutation { Effects::Write } else { Effects::Read };
        let mut policy = ToolPolicy::default().effects(effects);
        if operation.is_mutation && described.idempotent {
            policy = policy.idempotent();
        }
        let schema = self.schema(&operation);
        let definition = ToolDefinition::new(&*described.name, &*described.description, schema).policy(policy);
        let call = Arc::new(Call {
            url,
            headers: headers(&described.headers),
            query: described.query.clone(),
            operation: operation.name,
            auth: described.auth.clone(),
            answer,
            repeatable,
            access: self.access.clone(),
        });
        Ok(FnTool::dynamic(definition, move |_cx, arguments: Value| {
            let call = Arc::clone(&call);
            async move { call.access.within_time(call.made(&arguments)).await }
        }))
    }

    fn schema(&self, operation: &Operation) -> Value {
        let schema = |name: &str, of_type: &Value| self.described.variables.get(name).unwrap_or(of_type).clone();
        let all = &operation.variables;
        let properties: Map<String, Value> =
            all.iter().map(|one| (one.name.clone(), schema(&one.name, &one.schema))).collect();
        let required: Vec<&str> = all.iter().filter(|one| one.required).map(|one| &*one.name).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

/// Headers that were checked.
fn headers(given: &BTreeMap<String, String>) -> HeaderMap {
    let read = given
        .iter()
        .filter_map(|(name, value)| Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?)));
    let mut headers: HeaderMap = read.collect();
    let json = HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, json.clone());
    // The other one is that of GraphQL over HTTP, which says more of errors.
    let both = HeaderValue::from_static("application/graphql-response+json, application/json;q=0.9");
    headers.entry(ACCEPT).or_insert(both);
    headers
}

/// What a call needs.
struct Call {
    url: reqwest::Url,
    headers: HeaderMap,
    query: String,
    operation: Option<String>,
    auth: Option<ApiAuth>,
    answer: Option<BoundedPath>,
    repeatable: bool,
    access: ApiAccess,
}

impl Call {
    async fn made(&self, variables: &Value) -> Result<Value, ToolError> {
        let deadline = Instant::now() + self.access.timeout;
        let mut keys = self.access.keys(self.auth.as_ref()).await?;
        let mut body = json!({"query": self.query, "variables": variables});
        if let Some(name) = &self.operation {
            body["operationName"] = name.as_str().into();
        }
        let request = ApiRequest {
            method: Method::POST,
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: Some(body.to_string()),
            repeatable: self.repeatable,
            ignores_body: false,
        };
        let mut answer = self.access.exchange(&request, &keys, self.access.max_bytes, deadline).await;
        let is_refused = answer.as_ref().is_err_and(|error| error.status() == ToolStatus::Unauthorized);
        if is_refused && self.access.forget_token(self.auth.as_ref(), &keys).await {
            keys = self.access.keys(self.auth.as_ref()).await?;
            answer = self.access.exchange(&request, &keys, self.access.max_bytes, deadline).await;
        }
        let answer = answer.map_err(|error| keys.without_key(&error))?;
        if let Some(errors) = answer.value["errors"].as_array().filter(|errors| !errors.is_empty()) {
            return Err(ToolError::new(said(errors)));
        }
        match (answer.value.get("data"), &self.answer) {
            (None | Some(Value::Null), _) => Err(ToolError::new("the answer has neither `data` nor `errors`")),
            (Some(data), Some(path)) => path.find(data),
            (Some(data), None) => Ok(data.clone()),
        }
    }
}

/// The messages of errors.
fn said(errors: &[Value]) -> String {
    let messages = errors.iter().take(SHOWN.0).map(|error| {
        let message = error["message"].as_str().unwrap_or("an error without a message");
        match error["path"].as_array() {
            Some(path) if !path.is_empty() => {
                let path: Vec<String> =
                    path.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), ToOwned::to_owned)).collect();
                format!("{} (at `{}`)", head(message, SHOWN.1), head(&path.join("."), SHOWN.1))
            }
            _ => head(message, SHOWN.1).to_owned(),
        }
    });
    let messages = messages.collect::<Vec<_>>().join("; ");
    match errors.len().saturating_sub(SHOWN.0) {
        0 => format!("the service answered with errors: {messages}"),
        more => format!("the service answered with errors: {messages}; and {more} more"),
    }
}

/// The description; what may be reached is the host's and not part of it.
impl Serialize for GraphqlTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.described.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GraphqlTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { described: Described::deserialize(deserializer)?, access: ApiAccess::new(), is_read: true })
    }
}

impl fmt::Debug for GraphqlTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphqlTool").field("described", &self.described).field("access", &self.access).finish()
    }
}
