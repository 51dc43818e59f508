//! Properties of a request: the era of its protocol revision, and its transport.

use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::RequestContext;

/// Returns `true` for the newer era, in which a client sends its capabilities with each request
/// instead of a handshake.
pub(super) fn is_without_handshake(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|of| of >= ProtocolVersion::V_2026_07_28)
}

#[cfg(feature = "server-http")]
pub(super) fn is_over_http(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<http::request::Parts>().is_some()
}

#[cfg(not(feature = "server-http"))]
pub(super) fn is_over_http(_: &RequestContext<RoleServer>) -> bool {
    false
}
