//! A subset of the URI templates of RFC 6570: addresses with names in braces, such as
//! `notes://days/{day}`.

use std::collections::BTreeMap;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// Maximum number of bytes of an address.
pub(super) const MOST_URI: usize = 8 << 10;

/// An address, or a template for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UriTemplate {
    /// Text before the first name.
    head: String,
    /// Each name, with the text after it.
    names: Vec<(String, String)>,
}

impl UriTemplate {
    /// Returns `true` if the address is a template.
    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Matches an address with the template, and returns the values of its names, percent-decoded.
    pub(super) fn values(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        if uri.len() > MOST_URI {
            return None;
        }
        let mut rest = uri.strip_prefix(self.head.as_str())?;
        let mut values = BTreeMap::new();
        for (name, behind) in &self.names {
            // A value does not cross the end of a path segment, the query or the fragment.
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let end = match behind.as_str() {
                "" => end,
                behind => end.min(rest.find(behind)?),
            };
            let (value, after) = rest.split_at(end);
            if value.is_empty() {
                return None;
            }
            let value = percent_decode_str(value).decode_utf8().ok()?;
            values.insert(name.clone(), value.into_owned());
            rest = after.strip_prefix(behind.as_str())?;
        }
        rest.is_empty().then_some(values)
    }
}

impl FromStr for UriTemplate {
    type Err = String;

    /// Parses an address.
    ///
    /// # Errors
    /// Fails if the address has no scheme, or its braces do not contain names that are separated by
    /// other text.
    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !is_scheme {
            return Err("an address begins with a scheme, such as `notes://`".to_owned());
        }
        if text.len() > MOST_URI {
            return Err(format!("an address has at most {MOST_URI} bytes"));
        }
        let mut pieces = text.split('{');
        let head = pieces.next().unwrap_or_default().to_owned();
        let mut names: Vec<(String, String)> = Vec::new();
        for piece in pieces {
            let (name, behind) = piece.split_once('}').ok_or("a `{` in it has no `}`")?;
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name {
                return Err(format!(
                    "`{{{name}}}` is not a name; write letters, digits and `_` between the braces"
                ));
            }
            if names.iter().any(|(other, _)| other == name) {
                return Err(format!(
                    "`{{{name}}}` stands in it twice; give each place a name of its own"
                ));
            }
            // Without a separator, the values could not be separated.
            if names.last().is_some_and(|(_, behind)| behind.is_empty()) {
                return Err(format!(
                    "nothing separates `{{{name}}}` from the name before it; write `/` between them"
                ));
            }
            names.push((name.to_owned(), behind.to_owned()));
        }
        match text.matches('}').count() == names.len() {
            true => Ok(Self { head, names }),
            false => Err("a `}` in it has no `{`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::UriTemplate;

    fn values(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        template
            .parse::<UriTemplate>()
            .unwrap()
            .values(uri)
            .map(|values| values.into_iter().collect())
    }

    fn of(values: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn names_stand_for_one_part() {
        assert_eq!(values("a://b", "a://b"), of(&[]));
        assert_eq!(values("a://{b}/c", "a://x/c"), of(&[("b", "x")]));
        assert_eq!(values("a://{b}/{c}", "a://x/y%2Fz%20"), of(&[("b", "x"), ("c", "y/z ")]));
        assert_eq!(values("a://{b}-{c}.md", "a://x-y-z.md"), of(&[("b", "x"), ("c", "y-z")]));
        for (template, uri) in [
            ("a://b", "a://b/"),
            ("a://{b}", "a://"),
            ("a://{b}", "a://x/y"),
            ("a://{b}", "a://x?y"),
            ("a://{b}", "a://x#y"),
            ("a://{b}", "a://%ff"),
            ("a://{b}/c", "a://x/d"),
            ("a://{b}/c", "A://x/c"),
        ] {
            assert_eq!(values(template, uri), None, "{template} {uri}");
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_what_to_write() {
        for (text, part) in [
            ("", "begins with a scheme"),
            ("notes", "begins with a scheme"),
            ("1a:b", "begins with a scheme"),
            ("a://{b", "has no `}`"),
            ("a://b}", "has no `{`"),
            ("a://{b}}", "has no `{`"),
            ("a://{}", "is not a name"),
            ("a://{+b}", "is not a name"),
            ("a://{b}{c}", "write `/` between them"),
            ("a://{b}/{b}", "stands in it twice"),
        ] {
            let problem = text.parse::<UriTemplate>().unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn what_is_filled_in_is_found_again(parts in prop::collection::vec("[a-zA-Z0-9._~-]{1,8}", 1..5)) {
            let names: Vec<String> = (0..parts.len()).map(|at| format!("n{at}")).collect();
            let form: String = names.iter().map(|name| format!("/{{{name}}}")).collect();
            let uri: String = parts.iter().map(|part| format!("/{part}")).collect();
            let template: UriTemplate = format!("s:{form}").parse().unwrap();
            let expected: BTreeMap<String, String> = names.into_iter().zip(parts).collect();
            prop_assert_eq!(template.values(&format!("s:{uri}")), Some(expected));
        }

        #[test]
        fn no_text_panics(template in ".{0,40}", uri in ".{0,40}") {
            if let Ok(template) = format!("s:{template}").parse::<UriTemplate>() {
                template.values(&format!("s:{uri}"));
            }
        }
    }
}
