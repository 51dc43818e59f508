//! Parts of URLs.

use reqwest::Url;

/// Decodes a percent-encoded part of a URL, such as a password. The parser of URLs decodes only queries.
pub fn percent_decoded(text: &str) -> String {
    let query = format!("http://h?_={}", text.replace('+', "%2B"));
    let decoded = Url::parse(&query).ok().and_then(|url| url.query_pairs().next().map(|(_, text)| text.into_owned()));
    decoded.unwrap_or_else(|| text.to_owned())
}
