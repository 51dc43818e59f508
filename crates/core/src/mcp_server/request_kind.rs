//! Which kind of request a client sends: of which era, and over what. It reads nothing else of it.

use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::RequestContext;

/// Whether the client sends its capabilities with each request.
pub(super) fn is_without_handshake(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|of| of >= ProtocolVersion::V_2026_07_28)
}

#[cfg(feature = "mcp-server-http")]
pub(super) fn is_over_http(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<http::request::Parts>().is_some()
}

#[cfg(not(feature = "mcp-server-http"))]
pub(super) fn is_over_http(_: &RequestContext<RoleServer>) -> bool {
    false
}
