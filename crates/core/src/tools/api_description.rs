//! The description of a tool that calls a service over HTTP, as data: what it is called by, what is sent, what of the answer is
//! given. It checks and sends nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A tool that calls one operation of a service, as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiDescription {
    pub(super) name: String,
    pub(super) description: String,
    #[serde(default = "get")]
    pub(super) method: String,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) parameters: BTreeMap<String, ApiParameter>,
    /// Headers that are always sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) auth: Option<ApiAuth>,
    /// A JSONPath of what is given of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paging: Option<Paging>,
    #[serde(default = "ten", skip_serializing_if = "is_ten")]
    pub(super) max_pages: usize,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) idempotent: bool,
    /// A header that says the step's key, for services that take one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<String>,
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

/// An argument of a tool and where a request has it.
///
/// As data it is `{in: query, name: .., schema: .., description: .., required: ..}`, of which only `in` must be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiParameter {
    #[serde(rename = "in")]
    pub(super) place: ParameterPlace,
    /// The name in the request, where it is not that of the argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(default = "text", skip_serializing_if = "is_text")]
    pub(super) schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub(super) required: bool,
}

/// Where a request has an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParameterPlace {
    /// In the path, in the place of `{name}`: encoded, so that it stays in its place.
    Path,
    /// In the query; of a list each value.
    Query,
    /// A header.
    Header,
    /// A field of the body, which is a JSON object.
    Field,
    /// The whole body, as JSON.
    Body,
}

impl ParameterPlace {
    pub(super) fn word(self) -> &'static str {
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
    /// A text that has to be given, under the name of the argument.
    pub fn new(place: ParameterPlace) -> Self {
        Self { place, name: None, schema: text(), description: None, required: true }
    }

    /// Sets the JSON Schema that the argument has to fit. Default: a text.
    #[must_use]
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Says what it is, for the model.
    #[must_use]
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the name in the request, where it differs from that of the argument.
    #[must_use]
    pub fn sent_as(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// It may be left out.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// The name in the request.
    pub(super) fn sent<'a>(&'a self, argument: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(argument)
    }
}

/// How a service is shown who calls: a key by the name under which the program has it, an environment variable unless
/// [`ApiAccess`](super::ApiAccess) says otherwise. The key itself is not part of a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ApiAuth {
    /// The header `authorization: Bearer KEY`.
    Bearer {
        /// The name of the key.
        secret: String,
    },
    /// A header that is the key.
    Header {
        /// The header, such as `x-api-key`.
        name: String,
        /// The name of the key.
        secret: String,
    },
    /// A parameter of the query that is the key.
    Query {
        /// The parameter.
        name: String,
        /// The name of the key.
        secret: String,
    },
    /// The header `authorization: Bearer TOKEN` with an access token of OAuth 2.0. The token is requested from the token
    /// endpoint when it is first needed, and again when it ends or the service refuses it.
    Oauth2 {
        /// The address of the token endpoint.
        token_url: String,
        /// The id of the client.
        client_id: String,
        /// The name of the client's secret.
        secret: String,
        /// Scopes. Default: those that the server gives without a word.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scopes: Vec<String>,
        /// The name of a refresh token, for a service that a person has given access to. Default: the client itself is given
        /// access (client credentials).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refresh_token: Option<String>,
    },
    /// The header `authorization: Basic ..` of a user and a password.
    Basic {
        /// The user.
        user: String,
        /// The name of the password.
        secret: String,
    },
}

impl ApiAuth {
    pub(super) fn secret(&self) -> &str {
        match self {
            Self::Bearer { secret }
            | Self::Header { secret, .. }
            | Self::Query { secret, .. }
            | Self::Oauth2 { secret, .. }
            | Self::Basic { secret, .. } => secret,
        }
    }

    /// The header that it takes.
    pub(super) fn header(&self) -> Option<&str> {
        match self {
            Self::Bearer { .. } | Self::Basic { .. } | Self::Oauth2 { .. } => Some("authorization"),
            Self::Header { name, .. } => Some(name),
            Self::Query { .. } => None,
        }
    }
}

/// How the pages of a list are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Paging {
    /// The next page is at the link with `rel="next"` of the header `link` (RFC 8288).
    LinkHeader,
    /// The next page is at an address in the answer.
    NextUrl {
        /// A JSONPath of the address; nothing or `null` there ends the list.
        at: String,
    },
    /// The next page is asked for with a value of the answer.
    Cursor {
        /// A JSONPath of the value; nothing, `null` or an empty text there ends the list.
        at: String,
        /// The parameter of the query that has the value.
        parameter: String,
    },
    /// Pages are numbered; one without items ends the list.
    Page {
        /// The parameter of the query that has the number.
        parameter: String,
        /// The number of the first page; 1 unless it is said.
        #[serde(default = "one")]
        first: u64,
    },
    /// Pages begin after so many items; one without items ends the list.
    Offset {
        /// The parameter of the query that has the number of items before the page.
        parameter: String,
    },
}

impl Paging {
    /// The parameter of the query that it sets.
    pub(super) fn parameter(&self) -> Option<&str> {
        match self {
            Self::Cursor { parameter, .. } | Self::Page { parameter, .. } | Self::Offset { parameter } => {
                Some(parameter)
            }
            Self::LinkHeader | Self::NextUrl { .. } => None,
        }
    }

    /// Where an answer says which page is next.
    pub(super) fn at(&self) -> Option<&str> {
        match self {
            Self::NextUrl { at } | Self::Cursor { at, .. } => Some(at),
            _ => None,
        }
    }
}
