//! Checks for URL templates of HTTP tools and of MCP resources. Their parsers are private, so this
//! program includes their source files.

#[allow(dead_code, unreachable_pub, reason = "the library uses all of it")]
#[path = "../../../crates/mcp/src/mcp_server/uri_template.rs"]
mod uri_template;
#[allow(dead_code, unreachable_pub, reason = "the library uses all of it")]
#[path = "../../../crates/tools/src/api/url_template.rs"]
mod url_template;

use self::uri_template::UriTemplate;
use self::url_template::UrlTemplate;

/// Checks a template in the first line, with a value for its placeholders or a URL in the rest.
///
/// # Panics
/// If parsing or filling panics, or if a value changes the host or the segments of the path.
pub(crate) fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (line, value) = text.split_once('\n').unwrap_or((text, ""));
    match UrlTemplate::parse(line) {
        Ok(template) => {
            if let Ok(url) = template.filled(|_| Some(value.to_owned())) {
                assert_eq!(url.host_str(), template.base().host_str(), "{line}: {url}");
                if let Ok(plain) = template.filled(|_| Some("x".to_owned())) {
                    assert_eq!(
                        url.path().split('/').count(),
                        plain.path().split('/').count(),
                        "{line}: {url}"
                    );
                }
            }
        }
        Err(problem) => assert!(!problem.is_empty()),
    }
    match line.parse::<UriTemplate>() {
        Ok(template) => drop(template.values(value)),
        Err(problem) => assert!(!problem.is_empty()),
    }
}
