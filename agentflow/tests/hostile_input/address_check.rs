//! Checks for templates of addresses: of HTTP tools, and of resources of MCP servers. They have no public reader of their
//! own, so their files are a part of this program.

#[allow(dead_code, unreachable_pub, reason = "the library uses all of it")]
#[path = "../../src/mcp_server/uri_template.rs"]
mod uri_template;
#[allow(dead_code, unreachable_pub, reason = "the library uses all of it")]
#[path = "../../src/tools/url_template.rs"]
mod url_template;

use self::uri_template::UriTemplate;
use self::url_template::UrlTemplate;

/// The bytes as a template in the first line, and a value of its placeholders or an address behind it.
///
/// # Panics
/// When reading or filling it does, or a value changes the host or the parts of the path.
pub(crate) fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (line, value) = text.split_once('\n').unwrap_or((text, ""));
    match UrlTemplate::parse(line) {
        Ok(template) => {
            if let Ok(url) = template.filled(|_| Some(value.to_owned())) {
                assert_eq!(url.host_str(), template.base().host_str(), "{line}: {url}");
                if let Ok(plain) = template.filled(|_| Some("x".to_owned())) {
                    assert_eq!(url.path().split('/').count(), plain.path().split('/').count(), "{line}: {url}");
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
