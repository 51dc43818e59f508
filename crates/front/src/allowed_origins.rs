//! Compares the header `Origin` with the origins that a server allows.

use http::Uri;

/// An origin: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WebOrigin {
    scheme: String,
    host: String,
    /// `None` in a pattern matches every port.
    port: Option<u16>,
}

impl WebOrigin {
    /// Parses an origin. Without a port, it has the default port of its scheme.
    fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?.to_ascii_lowercase(), uri.authority()?);
        let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        if !is_bare || authority.as_str().contains('@') {
            return None;
        }
        let host = authority.host().to_ascii_lowercase();
        let port = match (authority.port_u16(), &*scheme) {
            (Some(port), _) => port,
            // A port that is not a number.
            (None, _) if authority.as_str().len() > host.len() => return None,
            (None, "http") => 80,
            (None, "https") => 443,
            (None, _) => return None,
        };
        Some(Self { scheme, host, port: Some(port) })
    }

    fn pattern(text: &str) -> Option<Self> {
        match text.strip_suffix(":*") {
            Some(rest) => Self::parse(rest).map(|origin| Self { port: None, ..origin }),
            None => Self::parse(text),
        }
    }
}

/// Returns `true` if a page of this origin may send requests. An allowed origin without a port has
/// the default port of its scheme, and `:*` matches every port. An entry without
/// a host, such as `null`, matches only the same text.
pub(crate) fn is_allowed(origin: &str, allowed: &[String]) -> bool {
    let parsed = WebOrigin::parse(origin);
    for entry in allowed {
        let fits = match (&parsed, WebOrigin::pattern(entry)) {
            (Some(origin), Some(pattern)) => {
                origin.scheme == pattern.scheme
                    && origin.host == pattern.host
                    && (pattern.port.is_none() || pattern.port == origin.port)
            }
            (None, None) => entry == origin,
            _ => false,
        };
        if fits {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn an_origin_has_a_scheme_a_host_and_a_port() {
        let allowed: Vec<String> =
            ["https://app.example", "http://localhost:*", "https://b.example:8443", "app://mine"]
                .map(str::to_owned)
                .to_vec();
        for (origin, expected) in [
            ("https://app.example", true),
            ("https://APP.example:443", true),
            ("https://app.example:8443", false),
            ("http://app.example", false),
            ("https://app.example.evil.example", false),
            ("https://app.example@evil.example", false),
            ("https://app.example/path", false),
            ("http://localhost", true),
            ("http://localhost:5173", true),
            ("https://localhost:5173", false),
            ("http://localhost:x", false),
            ("https://b.example:8443", true),
            ("https://b.example", false),
            ("app://mine", true),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(origin, &allowed), expected, "{origin}");
        }
        assert!(is_allowed("null", &["null".to_owned()]));
        assert!(!is_allowed("https://app.example", &[]));
    }
}
