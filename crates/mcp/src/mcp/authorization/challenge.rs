//! Parses the `Bearer` challenge of a server that answers 401 or 403 (RFC 6750, RFC 9728).

/// Maximum number of scopes in a challenge, and of bytes of one scope.
const MOST_SCOPES: (usize, usize) = (64, 256);

/// The server's requirements for a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Address of the server's metadata. It may be relative to the server.
    pub(super) metadata: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) error: Option<String>,
}

impl Challenge {
    /// Parses a header `WWW-Authenticate`. Ignores other schemes and invalid parts.
    pub(super) fn read(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut is_bearer = false;
        for part in parts(header) {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => (part.trim(), ""),
            };
            // The first parameter of a scheme follows its name after a space.
            let name = match name.split_once(char::is_whitespace) {
                Some((scheme, name)) => {
                    is_bearer = scheme.eq_ignore_ascii_case("bearer");
                    name.trim()
                }
                None if value.is_empty() => {
                    is_bearer = name.eq_ignore_ascii_case("bearer");
                    continue;
                }
                None => name,
            };
            let value = unquoted(value);
            match name.to_ascii_lowercase().as_str() {
                _ if !is_bearer || value.is_empty() => {}
                "resource_metadata" => challenge.metadata = Some(value),
                "scope" => challenge.scopes = parse_scopes(&value),
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
        challenge
    }

    /// Returns `true` if the server accepts the token but wants more scopes.
    pub(super) fn wants_scopes(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope") && !self.scopes.is_empty()
    }
}

/// Returns the scopes of a string in their order, without duplicates.
pub(super) fn parse_scopes(text: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in text
        .split_ascii_whitespace()
        .filter(|scope| scope.len() <= MOST_SCOPES.1 && is_scope(scope))
    {
        if scopes.len() < MOST_SCOPES.0 && !scopes.iter().any(|of| of == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Returns `true` if the text is a valid scope (RFC 6749).
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

/// Splits a header at the commas outside of quotes.
fn parts(header: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, c) in header.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                parts.push(header[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(header[begin..].trim());
    parts
}

fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else { return value.to_owned() };
    let mut out = String::new();
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => break,
            '\\' => out.extend(rest.next()),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Challenge;

    #[test]
    fn what_is_for_bearer_tokens_is_read() {
        let read = Challenge::read(
            r#"Basic realm="a, scope=\"no\"", BEARER error="insufficient_scope", scope="a b a", resource_metadata="https://h/x,y""#,
        );
        assert_eq!(read.metadata.as_deref(), Some("https://h/x,y"));
        assert_eq!(read.scopes, ["a", "b"]);
        assert!(read.wants_scopes());
        let read = Challenge::read("Bearer scope=a, Digest scope=b, error=c");
        assert_eq!((read.scopes, read.error), (vec!["a".to_owned()], None));
        let read = Challenge::read("Bearer, DPoP algs=\"ES256\"");
        assert_eq!(read, Challenge::default());
    }

    #[test]
    fn what_cannot_be_read_is_ignored() {
        for header in [
            "",
            "Bearer",
            "Bearer scope=\"",
            "=",
            ",,=,\"",
            "Bearer =x",
            "Bearer scope=\"\\",
            "Bearer scope=\"é\"",
        ] {
            assert_eq!(Challenge::read(header), Challenge::default(), "{header}");
        }
        let many =
            format!("Bearer scope=\"{}\"", (0..500).map(|n| format!("s{n} ")).collect::<String>());
        assert_eq!(Challenge::read(&many).scopes.len(), 64);
    }
}
