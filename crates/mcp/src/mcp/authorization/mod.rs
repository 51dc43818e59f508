//! OAuth 2.1 logins to MCP servers at an address, as the Model Context Protocol defines them.
//!
//! [`McpAuthorization`] has the program's settings. [`Authorizer`] manages the login of one server:
//! it supplies the access token for each request, renews it, and makes a new login when the server
//! refuses one. To make a login, `discovery` finds the authorization server, `client_identity`
//! selects or registers the client, `browser_login` and `loopback_redirect` obtain the
//! authorization code of a person, and `token_endpoint` exchanges it for tokens. [`McpLogins`] is
//! the interface of stores; [`McpLoginFolder`] stores logins in files.

mod auth_requests;
mod authorizer;
mod browser_login;
mod challenge;
mod client_identity;
mod discovery;
mod kept_login;
mod login_folder;
mod login_making;
mod loopback_redirect;
mod mcp_authorization;
mod token_endpoint;

pub use self::auth_requests::check_login_address;
pub(super) use self::authorizer::Authorizer;
pub use self::kept_login::McpLogins;
pub use self::login_folder::McpLoginFolder;
pub use self::mcp_authorization::McpAuthorization;
