//! Helpers for parts of URLs.

use reqwest::Url;

/// Decodes a percent-encoded part of a URL, such as a password. The `url` crate decodes only query
/// pairs, so the text is parsed as a query.
pub fn percent_decoded(text: &str) -> String {
    // In a query, `+` means a space, so a literal `+` is escaped first.
    let query = format!("http://h?_={}", text.replace('+', "%2B"));
    let decoded = Url::parse(&query)
        .ok()
        .and_then(|url| url.query_pairs().next().map(|(_, text)| text.into_owned()));
    decoded.unwrap_or_else(|| text.to_owned())
}
