//! Paging: finds the next page of a list in a response. Sends nothing.

use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde_json::Value;

use super::api_description::Paging;
use super::url_template::{has_dot_segment, plain_text};
use crate::http::http_target::host_of;
use crate::json_path::BoundedPath;
use agentflow_core::tool::ToolError;

/// The progress in a list.
pub(crate) struct Pages<'p> {
    pub(crate) paging: &'p Paging,
    /// JSONPath of the next page in an answer.
    pub(crate) next: Option<&'p BoundedPath>,
    /// Address of the first page, without the parameters of paging.
    pub(crate) first: Url,
    /// Path prefix of all pages, which ends with `/`.
    pub(crate) base_path: Option<&'p str>,
    /// Number of pages that were read.
    pub(crate) count: u64,
    /// Number of items that were read.
    pub(crate) items: u64,
}

impl Pages<'_> {
    /// Returns the address of the first page.
    pub(crate) fn begin(&self) -> Url {
        match self.paging {
            Paging::Page { parameter, first } => with(&self.first, parameter, &first.to_string()),
            Paging::Offset { parameter } => with(&self.first, parameter, "0"),
            _ => self.first.clone(),
        }
    }

    /// Returns the address of the page after `last`, or `None` at the end of the list.
    pub(crate) fn after(
        &self,
        last: &Url,
        headers: &HeaderMap,
        page: &Value,
        items: usize,
    ) -> Result<Option<Url>, ToolError> {
        let said = match self.next {
            Some(path) => path.find(page)?,
            None => Value::Null,
        };
        let next = match self.paging {
            Paging::LinkHeader => {
                next_link(headers).map(|link| self.near(last, &link)).transpose()?
            }
            Paging::NextUrl { .. } => match &said {
                Value::Null => None,
                Value::String(link) if link.is_empty() => None,
                Value::String(link) => Some(self.near(last, link)?),
                _ => return Err(ToolError::new("the address of the next page is not a text")),
            },
            Paging::Cursor { parameter, .. } => match plain_text(&said) {
                Some(cursor) if !cursor.is_empty() && said != Value::Bool(false) => {
                    Some(with(&self.first, parameter, &cursor))
                }
                None if !said.is_null() => {
                    return Err(ToolError::new("what leads to the next page is not a text"));
                }
                _ => None,
            },
            _ if items == 0 => None,
            Paging::Page { parameter, first } => {
                Some(with(&self.first, parameter, &first.saturating_add(self.count).to_string()))
            }
            Paging::Offset { parameter } => {
                Some(with(&self.first, parameter, &self.items.to_string()))
            }
        };
        match next {
            // A page that refers to itself would be requested forever.
            Some(next) if next == *last => {
                Err(ToolError::new("the service says of a page that it is its own next one"))
            }
            next => Ok(next),
        }
    }

    /// Resolves an address that the server sent. It must be on the same server, because the key is
    /// sent to it.
    fn near(&self, last: &Url, link: &str) -> Result<Url, ToolError> {
        let wrong = |problem: String| Err(ToolError::new(problem));
        let Ok(mut next) = last.join(link) else {
            return wrong("the address of the next page cannot be read".to_owned());
        };
        // A fragment is not sent, so it must not make two pages look different.
        next.set_fragment(None);
        let is_same = next.scheme() == self.first.scheme()
            && host_of(&next) == host_of(&self.first)
            && next.port_or_known_default() == self.first.port_or_known_default();
        if !is_same || !next.username().is_empty() || next.password().is_some() {
            let (to, from) = (host_of(&next), host_of(&self.first));
            return wrong(format!(
                "the next page is said to be at `{to}`, and only `{from}` itself is called for it"
            ));
        }
        if self
            .base_path
            .is_some_and(|base| !next.path().starts_with(base) || has_dot_segment(next.path()))
        {
            return wrong(
                "the address of the next page is not below the base address of the tool".to_owned(),
            );
        }
        Ok(next)
    }
}

/// Returns an address in which a query parameter has exactly one value.
fn with(url: &Url, parameter: &str, value: &str) -> Url {
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(of, _)| of != parameter)
        .map(|(of, value)| (of.into(), value.into()))
        .collect();
    let mut url = url.clone();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(parameter, value);
    url
}

/// Returns the link with `rel="next"` in the headers (RFC 8288).
fn next_link(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(links).find(|(_, is_next)| *is_next).map(|(link, _)| link)
}

/// Returns the addresses in a `link` header, each with a flag that is `true` for the next page.
fn links(mut header: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    while let Some((link, rest)) = header.split_once('<').and_then(|(_, rest)| rest.split_once('>'))
    {
        // Find the comma before the next link. Commas in quoted strings do not count.
        let (mut end, mut quoted, mut escaped) = (rest.len(), false, false);
        for (at, letter) in rest.char_indices() {
            match letter {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                ',' if !quoted => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let is_next = rest[..end].split(';').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let mut words = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel")
                && words.any(|word| word.eq_ignore_ascii_case("next"))
        });
        found.push((link.to_owned(), is_next));
        header = &rest[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::links;

    #[test]
    fn the_next_link_of_a_header() {
        for (header, expected) in [
            (
                "<https://h/a?p=2>; rel=\"next\", <https://h/a?p=9>; rel=\"last\"",
                Some("https://h/a?p=2"),
            ),
            ("</b>; rel=last, </c> ; title=\"a, <d>; rel=next\"; REL=next", Some("/c")),
            ("</b>;rel=\"prev next\"", Some("/b")),
            ("</b>; title=\"rel=next\"", None),
            ("<>", None),
            ("rel=next", None),
            ("<a", None),
            ("", None),
        ] {
            let found =
                links(header).into_iter().find(|(_, is_next)| *is_next).map(|(link, _)| link);
            assert_eq!(found.as_deref(), expected, "{header}");
        }
    }
}
