//! Classifies failures of HTTP requests: the server wants a login, or the request never reached it.

use rmcp::transport::streamable_http_client::StreamableHttpError;

#[cfg_attr(not(feature = "auth"), allow(dead_code, reason = "nobody logs in"))]
/// A request that the server refused because it wants a login. The server has not executed it.
pub(super) struct Refused {
    /// HTTP status: 401, or 403 if the login lacks scopes.
    pub(super) status: u16,
    /// Value of the header `WWW-Authenticate`, or an empty string if the response has none.
    pub(super) challenge: String,
}

impl Refused {
    /// Returns the error text for a client that cannot log in.
    pub(super) fn problem(&self) -> String {
        format!(
            "it answered {}: it wants a login or a key; give a key with `bearer`, or a login with `authorization` (feature \
             `mcp-auth`)",
            self.status
        )
    }
}

/// Returns the refusal if the server wants a login.
pub(super) fn refused(error: &(dyn std::error::Error + 'static)) -> Option<Refused> {
    let unauthorized =
        |challenge: &str| Some(Refused { status: 401, challenge: challenge.to_owned() });
    match transport_error(error)? {
        StreamableHttpError::AuthRequired(error) => unauthorized(&error.www_authenticate_header),
        // Without the header `WWW-Authenticate`, the library reports only the status.
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 401") => {
            unauthorized("")
        }
        StreamableHttpError::InsufficientScope(error) => {
            let challenge = &error.www_authenticate_header;
            // Other challenges with status 403 cannot be met by a login with more scopes.
            let is_of_scopes = challenge.contains("insufficient_scope");
            is_of_scopes.then(|| Refused { status: 403, challenge: challenge.clone() })
        }
        _ => None,
    }
}

/// Returns `true` if the message cannot have reached the server, because no connection could be
/// opened.
pub(super) fn never_arrived(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(transport_error(error), Some(StreamableHttpError::Client(error)) if error.is_connect())
}

/// Returns the error of the HTTP client. The transport error does not report it as its source.
pub(super) fn of_client<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e reqwest::Error> {
    match error.downcast_ref()? {
        StreamableHttpError::Client(error) => Some(error),
        _ => None,
    }
}

#[cfg(feature = "auth")]
/// Returns the error of a login that failed before the request was sent.
pub(super) fn login_error(
    error: &(dyn std::error::Error + 'static),
) -> Option<super::mcp_error::McpError> {
    match transport_error(error)? {
        StreamableHttpError::Io(error) => error.get_ref()?.downcast_ref().cloned(),
        _ => None,
    }
}

fn transport_error<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e StreamableHttpError<reqwest::Error>> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}
