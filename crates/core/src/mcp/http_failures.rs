//! What the failure of a request over HTTP says: that it never arrived, or was refused for want of a login. It sends nothing.

use rmcp::transport::streamable_http_client::StreamableHttpError;

/// A request that the server refused for want of a login, so that it did nothing.
#[cfg_attr(not(feature = "mcp-auth"), allow(dead_code, reason = "nobody logs in"))]
pub(super) struct Refused {
    /// 401, or 403 with scopes that the login lacks.
    pub(super) status: u16,
    /// What the server wants, in the form of the header `WWW-Authenticate`; empty when it does not say.
    pub(super) challenge: String,
}

impl Refused {
    /// What is said of it where nobody logs in.
    pub(super) fn problem(&self) -> String {
        format!(
            "it answered {}: it wants a login or a key; give a key with `bearer`, or a login with `authorization` (feature \
             `mcp-auth`)",
            self.status
        )
    }
}

/// Whether a request was refused for want of a login.
pub(super) fn refused(error: &(dyn std::error::Error + 'static)) -> Option<Refused> {
    let unauthorized = |challenge: &str| Some(Refused { status: 401, challenge: challenge.to_owned() });
    match of_transport(error)? {
        StreamableHttpError::AuthRequired(error) => unauthorized(&error.www_authenticate_header),
        // Without the header there is the status alone.
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 401") => unauthorized(""),
        StreamableHttpError::InsufficientScope(error) => {
            let challenge = &error.www_authenticate_header;
            let is_of_scopes = challenge.contains("insufficient_scope");
            is_of_scopes.then(|| Refused { status: 403, challenge: challenge.clone() })
        }
        _ => None,
    }
}

/// Whether a message cannot have reached the server: there was no connection to it.
pub(super) fn never_arrived(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(of_transport(error), Some(StreamableHttpError::Client(error)) if error.is_connect())
}

/// The failure of the HTTP client itself, which the transport does not name as its cause.
pub(super) fn of_client<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e reqwest::Error> {
    match error.downcast_ref()? {
        StreamableHttpError::Client(error) => Some(error),
        _ => None,
    }
}

/// The failure of a login before a request was sent.
#[cfg(feature = "mcp-auth")]
pub(super) fn without_login(error: &(dyn std::error::Error + 'static)) -> Option<super::mcp_error::McpError> {
    match of_transport(error)? {
        StreamableHttpError::Io(error) => error.get_ref()?.downcast_ref().cloned(),
        _ => None,
    }
}

fn of_transport<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e StreamableHttpError<reqwest::Error>> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}
