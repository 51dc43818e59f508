//! `UrlTemplate`: an address with placeholders in its path. Values cannot change the host or the
//! number of path segments.

use reqwest::Url;
use serde_json::Value;

/// Maximum number of bytes of an address, with its placeholders and with their values.
pub(crate) const LONGEST: usize = 8 << 10;

/// Marker that replaces a placeholder while the address is parsed.
const MARK: &str = "agentflow-placeholder-";

#[derive(Clone, Debug)]
pub(crate) struct UrlTemplate {
    /// The address with an empty path.
    base: Url,
    /// The segments of the path.
    parts: Vec<Vec<UrlPiece>>,
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum UrlPiece {
    Text(String),
    /// Index in `names`.
    Name(usize),
}

impl UrlTemplate {
    /// Parses an address with placeholders.
    ///
    /// # Errors
    /// A message, if the text is not an HTTP address or has a placeholder outside of its path.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!(
                "an address has at most {LONGEST} bytes, and this one has {}",
                text.len()
            ));
        }
        let wrong = |problem: &str| Err(format!("`{text}` {problem}"));
        if text.contains(MARK) {
            return wrong("cannot be an address");
        }
        let is_address = |(scheme, rest): &(&str, &str)| {
            matches!(*scheme, "http" | "https") && !rest.starts_with('/')
        };
        let Some((scheme, rest)) = text.split_once("://").filter(is_address) else {
            return wrong(
                "is not an address with `https:` or `http:`; give one such as `https://api.example.org/a/{b}`",
            );
        };
        let path_at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(path_at);
        if host.contains(['{', '}', '@', '\\']) {
            return wrong(
                "has more before its path than a host and a port; a placeholder may stand in the path alone",
            );
        }
        if path.contains('#') {
            return wrong("has a part after `#`, which is not sent; leave it out");
        }
        let (path, query) =
            path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        if query.is_some_and(|query| query.contains(['{', '}'])) {
            return wrong(
                "has a placeholder in its query; make it a parameter with `in: query` and leave it out here",
            );
        }
        // URL parsers resolve plain dot segments, and servers decode and resolve encoded ones, so
        // the requested path would differ.
        if has_dot_segment(path.trim()) || path.chars().any(char::is_control) {
            return wrong(
                "has a part `.` or `..` or a control character in its path; write the path that is meant",
            );
        }
        let (mut marked, mut names, mut open) = (String::new(), Vec::new(), path);
        while let Some((before, after)) = open.split_once('{') {
            let Some((name, after)) = after.split_once('}').filter(|(name, _)| !name.is_empty())
            else {
                return wrong(
                    "has a `{` that does not begin the name of a placeholder; write `{name}`",
                );
            };
            if before.contains('}') || name.contains(['{', '/', '}']) {
                return wrong("has a placeholder that is not a name; write `{name}`");
            }
            marked.push_str(&format!("{before}{MARK}{}.", names.len()));
            names.push(name.to_owned());
            open = after;
        }
        if open.contains('}') {
            return wrong("has a `}` without a `{` before it");
        }
        marked.push_str(open);
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let mut base: Url = match format!("{scheme}://{host}{marked}{query}").parse() {
            Ok(url) => url,
            Err(error) => return wrong(&format!("is not an address: {error}")),
        };
        let parts = base.path().trim_start_matches('/').split('/').map(pieces).collect();
        base.set_path("");
        Ok(Self { base, parts, names })
    }

    /// Returns the names of the placeholders.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the address without its path, for checks of its host.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Fills in the values of the placeholders.
    ///
    /// # Errors
    /// A message about a value that cannot be used in a path.
    pub(crate) fn filled(&self, value: impl Fn(&str) -> Option<String>) -> Result<Url, String> {
        let values = self.names.iter().map(|name| {
            let value = value(name).unwrap_or_default();
            fits(&value).map_err(|problem| format!("`{name}`: {problem}"))?;
            Ok(encoded(&value))
        });
        let values: Vec<String> = values.collect::<Result<_, String>>()?;
        let mut path = String::new();
        for part in &self.parts {
            let text: String = part
                .iter()
                .map(|piece| match piece {
                    UrlPiece::Text(text) => text.as_str(),
                    UrlPiece::Name(at) => values.get(*at).map_or("", String::as_str),
                })
                .collect();
            let has_name = part.iter().any(|piece| matches!(piece, UrlPiece::Name(_)));
            if has_name && matches!(&*text, "." | "..") {
                return Err(format!(
                    "the part `{text}` of a path leads to another one; give another value"
                ));
            }
            path.push('/');
            path.push_str(&text);
        }
        if path.len() > LONGEST {
            return Err(format!(
                "an address has at most {LONGEST} bytes, and with these values it has more; give shorter ones"
            ));
        }
        let mut url = self.base.clone();
        url.set_path(&path);
        // Check the result, so that an unexpected rule of the URL parser cannot change the path.
        match url.path() == path && url.host_str() == self.base.host_str() {
            true => Ok(url),
            false => Err("a value changes the path that it stands in; give another one".to_owned()),
        }
    }
}

fn pieces(part: &str) -> Vec<UrlPiece> {
    let mut found = Vec::new();
    let mut rest = part;
    while let Some((before, after)) = rest.split_once(MARK) {
        let (number, after) = after.split_once('.').unwrap_or((after, ""));
        found.extend((!before.is_empty()).then(|| UrlPiece::Text(before.to_owned())));
        found.extend(number.parse().ok().map(UrlPiece::Name));
        rest = after;
    }
    found.extend((!rest.is_empty()).then(|| UrlPiece::Text(rest.to_owned())));
    found
}

/// Checks that a value can be a path segment. Servers may decode it more than once, and may decode
/// it before they split the path.
fn fits(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("a part of the path cannot be empty; give a value".to_owned());
    }
    if value.chars().any(char::is_control) {
        return Err("a part of a path has no control characters; leave them out".to_owned());
    }
    match has_dot_segment(value) {
        true => {
            Err(format!("`{value}` leads out of its place in the path; leave out `.` and `..`"))
        }
        false => Ok(()),
    }
}

/// Returns `true` if a path has a segment `.` or `..`, including forms that are encoded several
/// times.
pub(crate) fn has_dot_segment(path: &str) -> bool {
    let mut decoded = path.to_ascii_lowercase();
    // Repeated, because a value may be encoded several times.
    for _ in 0..3 {
        for (code, letter) in
            [("%25", "%"), ("%2e", "."), ("%2f", "/"), ("%5c", "\\"), ("%3b", ";")]
        {
            decoded = decoded.replace(code, letter);
        }
    }
    // Some servers remove path parameters after `;` before they resolve `..`.
    let is_dots = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
    decoded.split(['/', '\\']).any(is_dots)
}

/// Percent-encodes all bytes except unreserved characters (RFC 3986).
fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Formats a value for an address or a header. Returns `None` for lists, objects and `null`.
pub(crate) fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::UrlTemplate;

    fn filled(template: &str, value: &str) -> Result<String, String> {
        UrlTemplate::parse(template).unwrap().filled(|_| Some(value.to_owned())).map(Into::into)
    }

    #[test]
    fn a_value_stays_in_its_place() {
        let template = "https://h.test/a/{b}/c?d=e";
        for (value, path) in [
            ("x", "x"),
            ("a b", "a%20b"),
            ("a/b", "a%2Fb"),
            ("a?b#c", "a%3Fb%23c"),
            ("%2F", "%252F"),
            ("@evil.test", "%40evil.test"),
            ("\\\\evil.test", "%5C%5Cevil.test"),
            ("é", "%C3%A9"),
            ("...", "..."),
            (".git", ".git"),
            (";x=1", "%3Bx%3D1"),
        ] {
            assert_eq!(
                filled(template, value),
                Ok(format!("https://h.test/a/{path}/c?d=e")),
                "{value}"
            );
        }
        for value in [
            "",
            ".",
            "..",
            "../x",
            "a/../b",
            "..\\x",
            "%2e%2e",
            "%2E%2e/x",
            "..%2fx",
            "%252e%252e",
            "a\r\nb: c",
            "\0",
            "a\tb",
        ] {
            assert!(filled(template, value).is_err(), "{value:?}");
        }
        assert_eq!(
            filled("https://h.test/a.{b}", "."),
            Err("`b`: `.` leads out of its place in the path; leave out `.` and `..`".to_owned())
        );
        assert!(filled("https://h.test/.{b}", "x").is_ok());
        assert_eq!(filled("http://h.test:81", "x"), Ok("http://h.test:81/".to_owned()));
    }

    #[test]
    fn placeholders_stand_in_the_path() {
        for (template, says) in [
            ("https://{host}/a", "a placeholder may stand in the path alone"),
            ("https://h.test:{port}/a", "a placeholder may stand in the path alone"),
            ("https://user@h.test/a", "a placeholder may stand in the path alone"),
            ("{scheme}://h.test", "is not an address"),
            ("ftp://h.test/{a}", "is not an address"),
            ("https://h.test/a?b={c}", "with `in: query`"),
            ("https://h.test/a#{c}", "after `#`"),
            ("https://h.test/{", "write `{name}`"),
            ("https://h.test/{}", "write `{name}`"),
            ("https://h.test/{a/b}", "write `{name}`"),
            ("https://h.test/a}", "without a `{`"),
            ("https:///a", "is not an address"),
            ("https://h.test/a/../b", "a part `.` or `..`"),
            ("https://h.test/a/./{c}", "a part `.` or `..`"),
            ("https://h.test/a/%2E%2e/b", "a part `.` or `..`"),
            ("https://h.test/a/..%2fb", "a part `.` or `..`"),
            ("https://h.test/a/%252e%252e/b", "a part `.` or `..`"),
            ("https://h.test/a/..;x=1/b", "a part `.` or `..`"),
            ("https://h.test/a\\..\\b", "a part `.` or `..`"),
            ("https://h.test/a/.\t./b", "a control character"),
            ("https://h.test/a/.. ", "a part `.` or `..`"),
            ("https://h.test/a/..?b=c", "a part `.` or `..`"),
        ] {
            let problem = UrlTemplate::parse(template).unwrap_err();
            assert!(problem.contains(says), "{template}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn no_value_changes_host_or_structure(value in "[a-z./\\\\?#@:%{}\r\n\u{e9} 2eEfF5cC]{0,12}") {
            let template = UrlTemplate::parse("https://h.test/a/{b}/c-{b}?d=e").unwrap();
            if let Ok(url) = template.filled(|_| Some(value.clone())) {
                prop_assert_eq!((url.scheme(), url.host_str(), url.query()), ("https", Some("h.test"), Some("d=e")));
                prop_assert!(url.fragment().is_none() && url.username().is_empty());
                prop_assert_eq!(url.path().split('/').count(), 4);
                prop_assert!(url.path().starts_with("/a/"));
                let read: reqwest::Url = url.as_str().parse().unwrap();
                prop_assert_eq!(read, url);
            }
        }
    }
}
