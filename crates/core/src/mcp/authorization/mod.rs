//! Logging in to servers at an address, by OAuth 2.1 as the Model Context Protocol has it: who may ask a person, where logins
//! are kept, and what is sent to an authorization server. It knows no tool and no run.

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

pub(crate) use self::auth_requests::can_be_logged_in_to;
pub(super) use self::authorizer::Authorizer;
pub use self::kept_login::McpLogins;
pub use self::login_folder::McpLoginFolder;
pub use self::mcp_authorization::McpAuthorization;
