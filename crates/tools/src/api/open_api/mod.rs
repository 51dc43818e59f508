//! `OpenApi`: tools from an OpenAPI 3.1 document, by operation id. Calls nothing.
//!
//! [`OpenApi::read`] parses the document and checks its version. [`OpenApi::tool`] converts one
//! operation to the description of an [`ApiTool`]: `operation.rs` converts its parameters and its
//! body to arguments, `schema.rs` resolves references, and `older_schema.rs` converts keywords of
//! earlier versions. Required parts that a tool cannot send are rejected by name, all at once.

mod older_schema;
mod operation;
mod schema;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::text::known_names;
use serde_json::Value;

use self::operation::{body, parameters};
use self::schema::resolved;
use crate::api::api_access::ApiAccess;
use crate::api::api_description::{ApiAuth, ApiDescription};
use crate::api::api_error::ApiToolError;
use crate::api::api_request::CheckedApi;
use crate::api::api_tool::ApiTool;
use crate::api::description_form::value_of;

/// Maximum size of a document in bytes.
const MOST_BYTES: usize = 4 << 20;
/// Maximum number of operations of a document.
const MOST_OPERATIONS: usize = 2_000;
/// Maximum length of a tool's name.
const LONGEST_NAME: usize = 64;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The operations of an OpenAPI 3.1 document. Each one can be turned into a tool by its
/// `operationId`.
///
/// ```
/// use agentflow::tools::OpenApi;
/// use agentflow::Runtime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r##"{"openapi": "3.1.0", "paths": {"/pets": {"get": {
///     "operationId": "listPets", "summary": "Lists the pets.", "security": [{"key": []}],
///     "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}}]
/// }}}, "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "x-api-key"}}}}"##;
/// let api = OpenApi::read(text)?.base_url("https://pets.example.org/v1").key("key", "PETS_KEY");
/// let pets = api.tool("listPets")?.answer("$[*].name");
/// let runtime = Runtime::builder().tools(pets.tool()?).build();
/// # Ok(())
/// # }
/// ```
///
/// - **Addresses**: The program chooses the address, not the document: by
///   [`base_url`](Self::base_url), or by [hosts](ApiAccess::hosts) that contain one of the
///   document's `servers`. All requests stay below that address. A path with a segment `.` or `..`
///   is rejected, also in encoded form, and so is a next page at another address.
/// - **Supported** are parameters in the path, the query and headers in the default style. A
///   request body becomes the argument `body`: JSON, including media types such as
///   `application/merge-patch+json`, a URL-encoded form (`application/x-www-form-urlencoded`), or a
///   multipart form (`multipart/form-data`), in which a string with a `contentMediaType` is a file.
///   A `$ref` within the document is merged with the keywords next to it. Keywords of older
///   schemas, such as `nullable` and `exclusiveMinimum: true`, are converted. Security schemes are
///   used with a [key](Self::key). A recursive schema becomes a definition in the tool's schema.
///   The tool's name is the operation id, with `_` for characters that names cannot contain; its
///   description is the summary and description of the operation.
/// - **Omitted** are optional parameters that a tool cannot send: other styles, cookies, objects,
///   lists in headers, and optional form fields in another style.
/// - **Rejected** with an explanation are required parameters of these kinds, other kinds of
///   bodies, several security schemes at once, and references out of the document. Response schemas
///   are not read.
/// - **Limits**: A document has at most 4 MiB and 2,000 operations. A schema has at most 5,000
///   parts after its references are resolved.
#[derive(Clone)]
pub struct OpenApi {
    document: Arc<Value>,
    base: Option<String>,
    keys: BTreeMap<String, SchemeKey>,
    access: ApiAccess,
}

/// The key for a security scheme, by name.
#[derive(Clone, Debug)]
struct SchemeKey {
    secret: String,
    /// User name of a password.
    user: Option<String>,
}

/// An operation and its place in the document.
struct LocatedOperation<'d> {
    path: &'d str,
    method: &'static str,
    item: &'d Value,
    operation: &'d Value,
}

impl OpenApi {
    /// Reads a document: JSON, or YAML with the feature `documents`.
    ///
    /// # Errors
    /// The document cannot be parsed, is too large, is not OpenAPI 3.1, or has no operation with an
    /// id.
    pub fn read(text: &str) -> Result<Self, ApiToolError> {
        let failed = |problems| ApiToolError::new("the tools of this document", problems);
        let document = value_of(text, MOST_BYTES).map_err(failed)?;
        let version = match (document["openapi"].as_str(), document["swagger"].as_str()) {
            (Some(version), _) | (None, Some(version)) => version,
            _ => {
                return Err(failed(vec!["it has no `openapi`; write `openapi: 3.1.0`".to_owned()]));
            }
        };
        // OpenAPI 3.0 has another schema dialect.
        if version != "3.1" && !version.starts_with("3.1.") {
            let version = agentflow_schema::text::head(version, 20);
            let problem = format!(
                "it is of OpenAPI `{version}`, and 3.1 is read; convert it, since its schemas differ"
            );
            return Err(failed(vec![problem]));
        }
        let api = Self {
            document: Arc::new(document),
            base: None,
            keys: BTreeMap::new(),
            access: ApiAccess::new(),
        };
        let count = api.operations().map_err(|problem| failed(vec![problem]))?.len();
        match count {
            0 => Err(failed(vec!["it has no operation with an `operationId`".to_owned()])),
            _ if count > MOST_OPERATIONS => Err(failed(vec![format!(
                "it has {count} operations, and at most {MOST_OPERATIONS} are read"
            )])),
            _ => Ok(api),
        }
    }

    /// Sets the address to which the document's paths are appended, instead of its `servers`.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base = Some(url.into());
        self
    }

    /// Sets the name of the key for a security scheme of the document, as in [`ApiAuth`]. The
    /// scheme has the type `apiKey`, `http` with `bearer`, `oauth2` or `openIdConnect`. For the
    /// last two, the key is a token that the program has obtained.
    #[must_use]
    pub fn key(mut self, scheme: impl Into<String>, secret: impl Into<String>) -> Self {
        self.keys.insert(scheme.into(), SchemeKey { secret: secret.into(), user: None });
        self
    }

    /// Sets the user and the name of the password for a security scheme of the type `http` with
    /// `basic`.
    #[must_use]
    pub fn password(
        mut self,
        scheme: impl Into<String>,
        user: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        self.keys
            .insert(scheme.into(), SchemeKey { secret: secret.into(), user: Some(user.into()) });
        self
    }

    /// Sets the allowed addresses and the keys for tools that are created afterwards.
    #[must_use]
    pub fn access(mut self, access: ApiAccess) -> Self {
        self.access = access;
        self
    }

    /// Returns the operation ids in the order of the paths.
    pub fn operation_ids(&self) -> Vec<&str> {
        let all = self.operations().unwrap_or_default();
        all.iter().filter_map(|one| one.operation["operationId"].as_str()).collect()
    }

    /// Returns the tool for the operation with this `operationId`.
    ///
    /// # Errors
    /// The document has no such operation (the nearest id is suggested), or parts of the operation
    /// are not supported (all are listed).
    pub fn tool(&self, operation_id: &str) -> Result<ApiTool, ApiToolError> {
        let failed = |problems| {
            ApiToolError::new(format!("the tool of the operation `{operation_id}`"), problems)
        };
        let all = self.operations().map_err(|problem| failed(vec![problem]))?;
        let mut of_id = all.iter().filter(|one| one.operation["operationId"] == operation_id);
        let Some(found) = of_id.next() else {
            let ids: Vec<String> =
                self.operation_ids().into_iter().map(ToOwned::to_owned).collect();
            let near =
                agentflow_schema::text::nearest(operation_id, ids.iter().map(String::as_str));
            let hint = known_names("operation", near, &ids);
            return Err(failed(vec![format!("the document has no such operation{hint}")]));
        };
        if of_id.next().is_some() {
            return Err(failed(vec!["the document has two operations of this id".to_owned()]));
        }
        let mut problems = Vec::new();
        // Without the slash, the path would become part of the host name.
        if !found.path.starts_with('/') {
            problems.push(format!(
                "the path `{}` does not begin with `/`",
                agentflow_schema::text::head(found.path, 200)
            ));
        }
        let mut arguments =
            parameters(&self.document, &[found.item, found.operation], &mut problems);
        let media_type = body(&self.document, found.operation, &mut arguments, &mut problems);
        let auth = self.auth(found).map_err(|problem| problems.push(problem)).ok().flatten();
        let base = self.base(found).map_err(|problem| problems.push(problem)).unwrap_or_default();
        if !problems.is_empty() {
            return Err(failed(problems));
        }
        let about: Vec<&str> = ["summary", "description"]
            .iter()
            .filter_map(|name| found.operation[*name].as_str())
            .map(str::trim)
            .collect();
        let about = match &about[..] {
            [] => format!("{} {}", found.method.to_ascii_uppercase(), found.path),
            some => some.join("\n\n"),
        };
        let described = ApiDescription {
            name: tool_name(operation_id),
            description: about,
            method: found.method.to_ascii_uppercase(),
            url: format!("{}{}", base.trim_end_matches('/'), found.path),
            parameters: arguments,
            headers: media_type.into_iter().map(|kind| ("content-type".to_owned(), kind)).collect(),
            auth,
            answer: None,
            paging: None,
            max_pages: 10,
            idempotent: false,
            idempotency_key: None,
        };
        let checked = CheckedApi::new(described.clone()).map_err(failed)?;
        // The program wrote the base URL, so the key may be sent to its port.
        if self.base.is_none() && described.auth.is_some() {
            self.access
                .check_keys(checked.template.base())
                .map_err(|problem| failed(vec![problem]))?;
        }
        Ok(ApiTool::below(path_of(&base), described, self.access.clone()))
    }

    fn operations(&self) -> Result<Vec<LocatedOperation<'_>>, String> {
        let paths = self.document["paths"].as_object();
        let mut all = Vec::new();
        for (path, item) in paths.into_iter().flatten() {
            let item =
                resolved(&self.document, item).map_err(|problem| format!("`{path}`: {problem}"))?;
            for method in METHODS {
                if let Some(operation) =
                    item.get(method).filter(|one| one["operationId"].is_string())
                {
                    all.push(LocatedOperation { path, method, item, operation });
                }
            }
        }
        Ok(all)
    }

    /// Returns the credentials of an operation: the first alternative of the document for which a
    /// key is set.
    fn auth(&self, found: &LocatedOperation<'_>) -> Result<Option<ApiAuth>, String> {
        let ways =
            found.operation["security"].as_array().or_else(|| self.document["security"].as_array());
        let Some(ways) = ways.filter(|ways| !ways.is_empty()) else { return Ok(None) };
        let mut problem = None;
        for way in ways.iter().filter_map(Value::as_object) {
            match &way.keys().collect::<Vec<_>>()[..] {
                [] => return Ok(None),
                [scheme] => match self.keys.get(*scheme) {
                    Some(key) => return self.auth_for_scheme(scheme, key).map(Some),
                    None => {
                        let said = format!(
                            "it needs a key of the scheme `{scheme}`; name it with `key({scheme:?}, ..)`"
                        );
                        problem.get_or_insert(said);
                    }
                },
                several => {
                    let names = several
                        .iter()
                        .map(|name| format!("`{name}`"))
                        .collect::<Vec<_>>()
                        .join(" and ");
                    problem
                        .get_or_insert(format!("it needs {names} at once, and one scheme is used"));
                }
            }
        }
        // An empty alternative means that no credentials are required.
        match ways.iter().any(|way| way.as_object().is_some_and(serde_json::Map::is_empty)) {
            true => Ok(None),
            false => {
                Err(problem.unwrap_or_else(|| "its `security` is not a list of schemes".to_owned()))
            }
        }
    }

    fn auth_for_scheme(&self, name: &str, key: &SchemeKey) -> Result<ApiAuth, String> {
        let schemes = &self.document["components"]["securitySchemes"];
        let scheme = schemes
            .get(name)
            .ok_or_else(|| format!("the document has no security scheme `{name}`"))?;
        let scheme = resolved(&self.document, scheme)?;
        let secret = key.secret.clone();
        let text = |field: &str| scheme[field].as_str().unwrap_or_default();
        let of_header = scheme["name"].as_str().map(ToOwned::to_owned);
        match (
            text("type"),
            text("in"),
            &*text("scheme").to_ascii_lowercase(),
            of_header,
            &key.user,
        ) {
            ("apiKey", "header", _, Some(name), None) => Ok(ApiAuth::Header { name, secret }),
            ("apiKey", "query", _, Some(name), None) => Ok(ApiAuth::Query { name, secret }),
            ("http", _, "bearer", _, None) | ("oauth2" | "openIdConnect", _, _, _, None) => {
                Ok(ApiAuth::Bearer { secret })
            }
            ("http", _, "basic", _, Some(user)) => {
                Ok(ApiAuth::Basic { user: user.clone(), secret })
            }
            ("http", _, "basic", _, None) => Err(format!(
                "the scheme `{name}` has a user and a password; name them with `password({name:?}, ..)`"
            )),
            (_, _, _, _, Some(_)) => Err(format!(
                "the scheme `{name}` has no user; name its key with `key({name:?}, ..)`"
            )),
            (kind, place, _, _, None) => Err(format!(
                "the scheme `{name}` is of the type `{kind}` {place}, which is not used"
            )),
        }
    }

    /// Returns the address to which a path is appended.
    fn base(&self, found: &LocatedOperation<'_>) -> Result<String, String> {
        if let Some(base) = &self.base {
            return match base.contains(['?', '#', '{']) {
                true => Err(format!("the base `{base}` has more than a host and a path")),
                false => Ok(base.clone()),
            };
        }
        let of = [found.operation, found.item, &*self.document];
        let servers = of
            .iter()
            .find_map(|one| one["servers"].as_array().filter(|servers| !servers.is_empty()));
        let urls: Vec<String> = servers.into_iter().flatten().filter_map(server).collect();
        let is_allowed = |url: &&String| self.access.targets.url(url, None).is_ok();
        let allowed =
            self.access.targets.hosts.is_some().then(|| urls.iter().find(is_allowed)).flatten();
        allowed.cloned().ok_or_else(|| {
            let said = match &urls[..] {
                [] => "the document says no server".to_owned(),
                [url, ..] => format!(
                    "the document says the server `{}`",
                    agentflow_schema::text::head(url, 200)
                ),
            };
            format!("{said}; give `base_url(..)`, or allow its host with `ApiAccess::hosts`")
        })
    }
}

/// Returns the address of a server, with the default values of its variables.
fn server(server: &Value) -> Option<String> {
    let mut url = server["url"].as_str()?.to_owned();
    for (name, variable) in server["variables"].as_object().into_iter().flatten() {
        url = url.replace(&format!("{{{name}}}"), variable["default"].as_str()?);
    }
    Some(url)
}

/// Returns the path of an address with a final `/`.
fn path_of(base: &str) -> String {
    let url = base.parse::<reqwest::Url>().ok();
    format!("{}/", url.as_ref().map_or("", reqwest::Url::path).trim_end_matches('/'))
}

/// Returns a tool name that every provider accepts.
fn tool_name(operation_id: &str) -> String {
    let letters = operation_id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' });
    letters.take(LONGEST_NAME).collect()
}

impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApi")
            .field("operations", &self.operation_ids().len())
            .field("base", &self.base)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}
