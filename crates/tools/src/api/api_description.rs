//! The description of an HTTP tool as data: its name, its request, and the part of the answer that
//! it returns. This module neither checks nor sends requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The description of a tool that calls one operation of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiDescription {
    pub(crate) name: String,
    pub(crate) description: String,
    #[serde(default = "get")]
    pub(crate) method: String,
    pub(crate) url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) parameters: BTreeMap<String, ApiParameter>,
    /// Headers that are always sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auth: Option<ApiAuth>,
    /// JSONPath of the part of an answer that is returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paging: Option<Paging>,
    #[serde(default = "ten", skip_serializing_if = "is_ten")]
    pub(crate) max_pages: usize,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) idempotent: bool,
    /// Header that carries the step's idempotency key, for services that support one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
}

fn get() -> String {
    "GET".to_owned()
}

fn ten() -> usize {
    10
}

fn yes() -> bool {
    true
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_ten(pages: &usize) -> bool {
    *pages == ten()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_true(value: &bool) -> bool {
    *value
}

fn text() -> Value {
    json!({"type": "string"})
}

fn is_text(schema: &Value) -> bool {
    *schema == text()
}

/// An argument of a tool and its place in the request.
///
/// As data it is `{in: query, name: .., schema: .., description: .., required: ..}`. Only `in` is
/// required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiParameter {
    #[serde(rename = "in")]
    pub(crate) place: ParameterPlace,
    /// Name in the request, if it differs from the argument's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default = "text", skip_serializing_if = "is_text")]
    pub(crate) schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub(crate) required: bool,
}

/// The place of an argument in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParameterPlace {
    /// A part of the path, at `{name}`. It is encoded, so that it cannot change other parts of the
    /// path.
    Path,
    /// A query parameter. A list adds one parameter for each value.
    Query,
    /// A header.
    Header,
    /// A field of the body, which is a JSON object.
    Field,
    /// The whole body, as JSON.
    Body,
}

impl ParameterPlace {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Field => "field",
            Self::Body => "body",
        }
    }
}

impl ApiParameter {
    /// Creates a required string argument with the same name in the request.
    pub fn new(place: ParameterPlace) -> Self {
        Self { place, name: None, schema: text(), description: None, required: true }
    }

    /// Sets the JSON Schema of the argument. Default: a string.
    #[must_use]
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Sets the description for the model.
    #[must_use]
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the name in the request, if it differs from the argument's name.
    #[must_use]
    pub fn sent_as(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Makes the argument optional.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// Returns the name in the request.
    pub(crate) fn sent<'a>(&'a self, argument: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(argument)
    }
}

/// The credentials of a request. A key is referenced by its name in the program, and is not part of
/// a description. By default the name is an environment variable; see
/// [`ApiAccess`](super::ApiAccess).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ApiAuth {
    /// The header `authorization: Bearer KEY`.
    Bearer {
        /// Name of the key.
        secret: String,
    },
    /// A header whose value is the key.
    Header {
        /// Name of the header, such as `x-api-key`.
        name: String,
        /// Name of the key.
        secret: String,
    },
    /// A query parameter whose value is the key.
    Query {
        /// Name of the parameter.
        name: String,
        /// Name of the key.
        secret: String,
    },
    /// The header `authorization: Bearer TOKEN` with an OAuth 2.0 access token. The token is
    /// requested from the token endpoint when it is first needed, and again when it expires or the
    /// service rejects it.
    Oauth2 {
        /// Address of the token endpoint.
        token_url: String,
        /// Id of the client.
        client_id: String,
        /// Name of the client's secret.
        secret: String,
        /// Requested scopes. Default: the scopes that the server grants without a request.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scopes: Vec<String>,
        /// Name of a refresh token, for a service to which a person has granted access. Default:
        /// the client itself has access (client credentials).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refresh_token: Option<String>,
    },
    /// The header `authorization: Basic ..` with a user and a password.
    Basic {
        /// User name.
        user: String,
        /// Name of the password.
        secret: String,
    },
}

impl ApiAuth {
    pub(crate) fn secret(&self) -> &str {
        match self {
            Self::Bearer { secret }
            | Self::Header { secret, .. }
            | Self::Query { secret, .. }
            | Self::Oauth2 { secret, .. }
            | Self::Basic { secret, .. } => secret,
        }
    }

    /// Returns the header that the credentials use.
    pub(crate) fn header(&self) -> Option<&str> {
        match self {
            Self::Bearer { .. } | Self::Basic { .. } | Self::Oauth2 { .. } => Some("authorization"),
            Self::Header { name, .. } => Some(name),
            Self::Query { .. } => None,
        }
    }
}

/// The way in which the pages of a list are requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Paging {
    /// The next page is the link with `rel="next"` in the header `link` (RFC 8288).
    LinkHeader,
    /// The answer contains the address of the next page.
    NextUrl {
        /// JSONPath of the address. No match or `null` ends the list.
        at: String,
    },
    /// The answer contains a cursor, which is sent to request the next page.
    Cursor {
        /// JSONPath of the cursor. No match, `null` or an empty text ends the list.
        at: String,
        /// Query parameter for the cursor.
        parameter: String,
    },
    /// Pages are numbered. A page without items ends the list.
    Page {
        /// Query parameter for the page number.
        parameter: String,
        /// Number of the first page. Default: 1.
        #[serde(default = "one")]
        first: u64,
    },
    /// Pages are requested by the number of preceding items. A page without items ends the list.
    Offset {
        /// Query parameter for the number of items before the page.
        parameter: String,
    },
}

impl Paging {
    /// Returns the query parameter that paging sets.
    pub(crate) fn parameter(&self) -> Option<&str> {
        match self {
            Self::Cursor { parameter, .. }
            | Self::Page { parameter, .. }
            | Self::Offset { parameter } => Some(parameter),
            Self::LinkHeader | Self::NextUrl { .. } => None,
        }
    }

    /// Returns the JSONPath of the next page in an answer.
    pub(crate) fn at(&self) -> Option<&str> {
        match self {
            Self::NextUrl { at } | Self::Cursor { at, .. } => Some(at),
            _ => None,
        }
    }
}
