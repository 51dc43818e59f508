//! Tools that call described services: REST operations, GraphQL operations and OpenAPI documents.
//!
//! An [`ApiTool`], a [`GraphqlTool`] or an operation of an [`OpenApi`] document is checked when it is read
//! (`api_request`). A call fills in the arguments, adds the keys of its [`ApiAccess`], sends the
//! request (`api_exchange`) and follows further pages (`api_paging`). [`Alert`] sends one request to a webhook.

mod alert;
mod api_access;
mod api_description;
mod api_error;
mod api_exchange;
mod api_paging;
mod api_request;
mod api_tool;
mod body_encoding;
#[cfg(feature = "documents")]
mod described_tools;
mod description_form;
mod graphql_document;
mod graphql_tool;
mod oauth_access;
mod open_api;
mod url_template;

pub use self::alert::Alert;
pub use self::api_access::ApiAccess;
pub use self::api_description::{ApiAuth, ApiParameter, Paging, ParameterPlace};
pub use self::api_error::ApiToolError;
pub use self::api_tool::ApiTool;
#[cfg(feature = "documents")]
pub use self::described_tools::{MOST_BYTES as MOST_DESCRIBED_BYTES, described_tools};
pub use self::graphql_tool::GraphqlTool;
pub use self::open_api::OpenApi;
