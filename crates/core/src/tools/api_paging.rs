//! The pages of a list: where the next one is, by what the service says. It sends nothing.

use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde_json::Value;

use super::api_description::Paging;
use super::http_target::host_of;
use super::json_path::BoundedPath;
use super::url_template::{leads_out, plain_text};
use crate::tool::ToolError;

/// Where a list stands after a page.
pub(super) struct Pages<'p> {
    pub(super) paging: &'p Paging,
    /// Where an answer says which page is next.
    pub(super) next: Option<&'p BoundedPath>,
    /// The address of the first page, without what paging adds.
    pub(super) first: Url,
    /// Path prefix of all pages, which ends with `/`.
    pub(super) base_path: Option<&'p str>,
    /// Pages that were read.
    pub(super) count: u64,
    /// Items that were read.
    pub(super) items: u64,
}

impl Pages<'_> {
    /// The address of the first page.
    pub(super) fn begin(&self) -> Url {
        match self.paging {
            Paging::Page { parameter, first } => with(&self.first, parameter, &first.to_string()),
            Paging::Offset { parameter } => with(&self.first, parameter, "0"),
            _ => self.first.clone(),
        }
    }

    /// The address of the page after one; `None` when the list has ended. `last` is the address of that one.
    pub(super) fn after(
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
            Paging::LinkHeader => next_link(headers).map(|link| self.near(last, &link)).transpose()?,
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
                None if !said.is_null() => return Err(ToolError::new("what leads to the next page is not a text")),
                _ => None,
            },
            _ if items == 0 => None,
            Paging::Page { parameter, first } => {
                Some(with(&self.first, parameter, &first.saturating_add(self.count).to_string()))
            }
            Paging::Offset { parameter } => Some(with(&self.first, parameter, &self.items.to_string())),
        };
        match next {
            Some(next) if next == *last => {
                Err(ToolError::new("the service says of a page that it is its own next one"))
            }
            next => Ok(next),
        }
    }

    /// An address that a server gave: of the same server, since the key goes along.
    fn near(&self, last: &Url, link: &str) -> Result<Url, ToolError> {
        let wrong = |problem: String| Err(ToolError::new(problem));
        let Ok(mut next) = last.join(link) else {
            return wrong("the address of the next page cannot be read".to_owned());
        };
        next.set_fragment(None);
        let is_same = next.scheme() == self.first.scheme()
            && host_of(&next) == host_of(&self.first)
            && next.port_or_known_default() == self.first.port_or_known_default();
        if !is_same || !next.username().is_empty() || next.password().is_some() {
            let (to, from) = (host_of(&next), host_of(&self.first));
            return wrong(format!("the next page is said to be at `{to}`, and only `{from}` itself is called for it"));
        }
        if self.base_path.is_some_and(|base| !next.path().starts_with(base) || leads_out(next.path())) {
            return wrong("the address of the next page is not below the base address of the tool".to_owned());
        }
        Ok(next)
    }
}

/// An address with one value of a parameter.
fn with(url: &Url, parameter: &str, value: &str) -> Url {
    let others: Vec<(String, String)> =
        url.query_pairs().filter(|(of, _)| of != parameter).map(|(of, value)| (of.into(), value.into())).collect();
    let mut url = url.clone();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(parameter, value);
    url
}

/// The link with `rel="next"` of a header (RFC 8288).
fn next_link(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(links).find(|(_, is_next)| *is_next).map(|(link, _)| link)
}

/// The addresses of a header, each with whether it is the next page.
fn links(mut header: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    while let Some((link, rest)) = header.split_once('<').and_then(|(_, rest)| rest.split_once('>')) {
        // To the comma before the next one, which may stand in quotes as well.
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
            name.trim().eq_ignore_ascii_case("rel") && words.any(|word| word.eq_ignore_ascii_case("next"))
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
            ("<https://h/a?p=2>; rel=\"next\", <https://h/a?p=9>; rel=\"last\"", Some("https://h/a?p=2")),
            ("</b>; rel=last, </c> ; title=\"a, <d>; rel=next\"; REL=next", Some("/c")),
            ("</b>;rel=\"prev next\"", Some("/b")),
            ("</b>; title=\"rel=next\"", None),
            ("<>", None),
            ("rel=next", None),
            ("<a", None),
            ("", None),
        ] {
            let found = links(header).into_iter().find(|(_, is_next)| *is_next).map(|(link, _)| link);
            assert_eq!(found.as_deref(), expected, "{header}");
        }
    }
}
