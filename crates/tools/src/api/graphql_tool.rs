//! `GraphqlTool`: a tool that sends one fixed operation to a GraphQL service and is described as
//! data.
//!
//! `graphql_document.rs` reads the operation, and `api_exchange.rs` sends the request.

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
use super::url_template::UrlTemplate;
use crate::json_path::BoundedPath;
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::{Effects, FnTool, ToolDefinition, ToolError, ToolPolicy};

/// Maximum size of a description in bytes.
const MOST_BYTES: usize = 256 << 10;
/// Maximum number of errors of an answer that are shown, and maximum bytes of each.
const SHOWN: (usize, usize) = (5, 300);

/// A tool that sends one operation to a GraphQL service. The document is fixed, and the arguments
/// are its variables.
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
/// - **Arguments** are the variables, with schemas for the types `Int`, `Float`, `String`,
///   `Boolean`, `ID` and lists. A type that the service defines accepts any value, unless
///   [`variable`](Self::variable) sets its schema. A non-null variable without a default is
///   required. Arguments never become part of the document.
/// - **The answer** is `data`, or the part of it that [`answer`](Self::answer) selects. If the
///   response has `errors`, the call fails with their messages, even if it has `data` too.
/// - **Effects**: a query reads. A mutation writes; declare it [`idempotent`](Self::idempotent) if
///   it may be repeated. Subscriptions are rejected.
/// - **Addresses, keys, limits and retries** work as for [`ApiTool`](super::ApiTool).
///
/// The text form for [`read`](Self::read) has the fields `name`, `description`, `url`, `query`,
/// `variables`, `headers`, `auth`, `answer` and `idempotent`.
#[derive(Clone)]
pub struct GraphqlTool {
    described: GraphqlDescription,
    access: ApiAccess,
    /// `true` if the description was read as data, so that its author may be untrusted.
    is_read: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphqlDescription {
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
    /// Creates a tool from its name, its description for the model, the address of the service, and
    /// a document with one operation.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        url: impl Into<String>,
        query: impl Into<String>,
    ) -> Self {
        let described = GraphqlDescription {
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

    /// Reads a description of at most 256 KiB: JSON, or YAML with the feature `documents`.
    ///
    /// # Errors
    /// All mistakes in the form of the text. Mistakes in its content are reported by
    /// [`tool`](Self::tool).
    pub fn read(text: &str) -> Result<Self, ApiToolError> {
        let failed = |problems| ApiToolError::new("the tool of this description", problems);
        let described = form_of(value_of(text, MOST_BYTES).map_err(failed)?).map_err(failed)?;
        Ok(Self { described, access: ApiAccess::new(), is_read: true })
    }

    /// Sets the JSON Schema of a variable, instead of the schema of its type.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, schema: Value) -> Self {
        self.described.variables.insert(name.into(), schema);
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

    /// Sets the JSONPath query (RFC 9535) that selects the returned part of `data`.
    #[must_use]
    pub fn answer(mut self, path: impl Into<String>) -> Self {
        self.described.answer = Some(path.into());
        self
    }

    /// Declares that repeating the mutation has the same effect as making it once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.described.idempotent = true;
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
        let mut problems: Vec<String> = self.access.targets.problem().into_iter().collect();
        let described = &self.described;
        check_name(&described.name, &described.description, &mut problems);
        check_headers(&described.headers, &[], described.auth.as_ref(), &mut problems);
        let template =
            UrlTemplate::parse(&described.url).and_then(|template| match template.names() {
                [] => template.filled(|_| None),
                [name, ..] => Err(format!(
                    "the url has the placeholder `{{{name}}}`; a GraphQL service has one address"
                )),
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
            BoundedPath::parse(path)
                .map_err(|problem| problems.push(format!("`answer`: {problem}")))
                .ok()
        });
        let operation = Operation::read(&described.query)
            .map_err(|problem| problems.push(format!("`query`: {problem}")));
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
        // Queries have no side effects (GraphQL specification).
        let repeatable = !operation.is_mutation || described.idempotent;
        let effects = if operation.is_mutation { Effects::Write } else { Effects::Read };
        let mut policy = ToolPolicy::default().effects(effects);
        if operation.is_mutation && described.idempotent {
            policy = policy.idempotent();
        }
        let schema = self.schema(&operation);
        let definition =
            ToolDefinition::new(&*described.name, &*described.description, schema).policy(policy);
        let call = Arc::new(GraphqlCall {
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
        let schema = |name: &str, of_type: &Value| {
            self.described.variables.get(name).unwrap_or(of_type).clone()
        };
        let all = &operation.variables;
        let properties: Map<String, Value> =
            all.iter().map(|one| (one.name.clone(), schema(&one.name, &one.schema))).collect();
        let required: Vec<&str> =
            all.iter().filter(|one| one.required).map(|one| &*one.name).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

/// Converts headers that were checked.
fn headers(given: &BTreeMap<String, String>) -> HeaderMap {
    let read = given.iter().filter_map(|(name, value)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
    });
    let mut headers: HeaderMap = read.collect();
    let json = HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, json.clone());
    // `application/graphql-response+json` is the media type of the GraphQL over HTTP specification.
    // It describes errors more precisely.
    let both =
        HeaderValue::from_static("application/graphql-response+json, application/json;q=0.9");
    headers.entry(ACCEPT).or_insert(both);
    headers
}

/// The state that a call needs.
struct GraphqlCall {
    url: reqwest::Url,
    headers: HeaderMap,
    query: String,
    operation: Option<String>,
    auth: Option<ApiAuth>,
    answer: Option<BoundedPath>,
    repeatable: bool,
    access: ApiAccess,
}

impl GraphqlCall {
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
        let mut answer =
            self.access.exchange(&request, &keys, self.access.max_bytes, deadline).await;
        let is_refused =
            answer.as_ref().is_err_and(|error| error.status() == ToolStatus::Unauthorized);
        // The service rejected the call, so it had no effect. An OAuth token may have been revoked:
        // try once with a new one.
        if is_refused && self.access.forget_token(self.auth.as_ref(), &keys).await {
            keys = self.access.keys(self.auth.as_ref()).await?;
            answer = self.access.exchange(&request, &keys, self.access.max_bytes, deadline).await;
        }
        let answer = answer.map_err(|error| keys.without_key(&error))?;
        // A GraphQL service may answer 200 even if the operation failed.
        if let Some(errors) = answer.value["errors"].as_array().filter(|errors| !errors.is_empty())
        {
            return Err(ToolError::new(said(errors)));
        }
        match (answer.value.get("data"), &self.answer) {
            (None | Some(Value::Null), _) => {
                Err(ToolError::new("the answer has neither `data` nor `errors`"))
            }
            (Some(data), Some(path)) => path.find(data),
            (Some(data), None) => Ok(data.clone()),
        }
    }
}

/// Joins the messages of GraphQL errors.
fn said(errors: &[Value]) -> String {
    let messages = errors.iter().take(SHOWN.0).map(|error| {
        let message = error["message"].as_str().unwrap_or("an error without a message");
        match error["path"].as_array() {
            Some(path) if !path.is_empty() => {
                let path: Vec<String> = path
                    .iter()
                    .map(|part| part.as_str().map_or_else(|| part.to_string(), ToOwned::to_owned))
                    .collect();
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

/// Serializes the description without the access settings.
impl Serialize for GraphqlTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.described.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GraphqlTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            described: GraphqlDescription::deserialize(deserializer)?,
            access: ApiAccess::new(),
            is_read: true,
        })
    }
}

impl fmt::Debug for GraphqlTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphqlTool")
            .field("described", &self.described)
            .field("access", &self.access)
            .finish()
    }
}
