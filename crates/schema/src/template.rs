//! Parses strings with placeholders, such as `Dear {name}`. This module does not depend on
//! workflows or state: the caller provides the values.
#![doc = include_str!("docs/template.md")]

#[doc(hidden)]
pub mod template_codes;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::diagnostic::{Diagnostic, ExcerptKind, Suggestion, custom};
use crate::text::{head, nearest};

/// Maximum size of a template in bytes.
pub const LONGEST: usize = 1 << 20;

/// Default maximum size of a filled template in bytes.
pub const LARGEST: usize = 16 << 20;

/// A string with placeholders. It is checked when it is parsed, and can be filled any number of
/// times.
///
/// ```
/// use agentflow::template::Template;
/// use serde_json::json;
///
/// let letter: Template = "Dear {name}, your {order.items.0} is {state?}ready.".parse().unwrap();
/// let values = json!({"name": "Ada", "order": {"items": ["lamp"]}});
/// assert_eq!(letter.fill(&values).unwrap(), json!("Dear Ada, your lamp is ready."));
///
/// // A text that is one placeholder keeps the type.
/// let items: Template = "{order.items}".parse().unwrap();
/// assert_eq!(items.fill(&values).unwrap(), json!(["lamp"]));
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    pieces: Vec<TemplatePiece>,
}

#[derive(Clone, Debug)]
enum TemplatePiece {
    Text(String),
    Value(Placeholder),
}

/// A placeholder of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    parts: Vec<String>,
    optional: bool,
    /// From brace to brace.
    range: Range<usize>,
    /// The path and its range in the author's text, if names were replaced in this template.
    written: Option<(String, Range<usize>)>,
}

impl Placeholder {
    /// Returns the names of the path: `page` and `title` for `{page.title}`. The list is never
    /// empty.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Returns true if the value may be missing, as in `{page.title?}`.
    pub fn is_optional(&self) -> bool {
        self.optional
    }

    /// Returns the position of the opening brace, in bytes from the start of the text.
    pub fn at(&self) -> usize {
        self.range.start
    }

    /// Returns the range from brace to brace in the author's text.
    pub(crate) fn written_range(&self) -> Range<usize> {
        self.written.as_ref().map_or(self.range.clone(), |(_, range)| range.clone())
    }

    /// Returns a problem of the value of this placeholder, with the placeholder as its excerpt.
    pub fn problem(&self, found: Diagnostic) -> Diagnostic {
        found.within(ExcerptKind::Placeholder, format!("{{{}}}", self.path()))
    }

    /// Returns the path as the author wrote it, without `?`.
    pub fn path(&self) -> String {
        match &self.written {
            Some((path, _)) => path.clone(),
            None => self.parts.join("."),
        }
    }
}

/// The error of a string that is not a valid [`Template`], or of a template that cannot be filled.
/// The message names the placeholder and the fix.
///
/// ```
/// use agentflow::template::Template;
///
/// let error = "Dear {first name},".parse::<Template>().unwrap_err();
/// assert_eq!(error.diagnostic().code().name(), "template.not-a-placeholder");
/// assert_eq!(error.range(), 5..17);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{diagnostic}")]
pub struct TemplateError {
    diagnostic: Diagnostic,
}

impl TemplateError {
    /// Returns the position of the placeholder or the brace, in bytes from the start of the text.
    pub fn at(&self) -> usize {
        self.range().start
    }

    /// Returns the byte range of the placeholder or the brace.
    pub fn range(&self) -> Range<usize> {
        self.diagnostic.span()
    }

    /// Returns the problem as data. Its span is a range of the template.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.diagnostic
    }
}

impl From<TemplateError> for Diagnostic {
    fn from(error: TemplateError) -> Self {
        error.diagnostic
    }
}

impl Template {
    /// Returns the text of the template.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the placeholders in their order, including repeated ones.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Value(placeholder) => Some(placeholder),
            TemplatePiece::Text(_) => None,
        })
    }

    /// Returns the placeholder if the text consists of a single placeholder. Such a template keeps
    /// the type of the value.
    pub fn only(&self) -> Option<&Placeholder> {
        match self.pieces.as_slice() {
            [TemplatePiece::Value(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// Returns the same template, whose error messages show the placeholders of `original`.
    pub fn shown_as(mut self, original: &Self) -> Self {
        let mut written = original.placeholders();
        for piece in &mut self.pieces {
            if let TemplatePiece::Value(own) = piece {
                own.written = written.next().map(|of| (of.path(), of.written_range()));
            }
        }
        self
    }

    /// Returns the text if the template has no placeholders.
    pub fn constant(&self) -> Option<String> {
        let texts = self.pieces.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => Some(text.as_str()),
            TemplatePiece::Value(_) => None,
        });
        texts.collect()
    }

    /// Fills the template with the fields of a JSON object. If the text consists of a single
    /// placeholder, the result is the value itself. Otherwise the result is a string: strings are
    /// inserted without quotes and other values as JSON.
    ///
    /// An optional placeholder without a value inserts nothing. If it is the whole text, the result
    /// is `null`.
    ///
    /// # Errors
    /// Returns an error if a required placeholder has no value, with the nearest known name, or if
    /// the text would exceed 16 MiB.
    pub fn fill(&self, values: &Value) -> Result<Value, TemplateError> {
        self.filled(LARGEST, |placeholder| match part_of(values, placeholder.parts()) {
            Some(value) => Ok(Some(value.clone())),
            None if placeholder.is_optional() => Ok(None),
            None => Err(unknown(placeholder.parts(), values)),
        })
    }

    /// Fills the template with the values that `value` returns, up to `most` bytes. `value` returns
    /// `None` for a missing value.
    ///
    /// # Errors
    /// Returns an error if `value` does, or if the text would exceed `most` bytes.
    pub fn filled(
        &self,
        most: usize,
        mut value: impl FnMut(&Placeholder) -> Result<Option<Value>, Diagnostic>,
    ) -> Result<Value, TemplateError> {
        let mut of = |placeholder: &Placeholder| {
            value(placeholder).map_err(|problem| {
                let diagnostic = placeholder.problem(problem).at(placeholder.written_range());
                TemplateError { diagnostic }
            })
        };
        // A single placeholder returns the value itself, without a conversion to text.
        if let Some(only) = self.only() {
            return Ok(of(only)?.unwrap_or_default());
        }
        let mut text = String::new();
        for piece in &self.pieces {
            let range = match piece {
                TemplatePiece::Text(piece) => {
                    text.push_str(piece);
                    self.text.len()..self.text.len()
                }
                TemplatePiece::Value(placeholder) => {
                    match of(placeholder)? {
                        None => {}
                        Some(Value::Null) if placeholder.optional => {}
                        Some(Value::String(value)) => text.push_str(&value),
                        Some(value) => text.push_str(&value.to_string()),
                    }
                    placeholder.written_range()
                }
            };
            // The size is checked after each piece, so that a large value is noticed early.
            if text.len() > most {
                let found = Diagnostic::new(template_codes::FILLED_TOO_LARGE).number("most", most);
                return Err(TemplateError { diagnostic: found.at(range) });
            }
        }
        Ok(Value::String(text))
    }
}

/// Returns the part of a value at a path: names select fields, numbers select items.
pub fn part_of<'v>(value: &'v Value, parts: &[String]) -> Option<&'v Value> {
    parts.iter().try_fold(value, |value, part| match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the problem of a missing part. It names the first part of the path that does not exist.
fn unknown(parts: &[String], values: &Value) -> Diagnostic {
    let there =
        (0..parts.len()).rev().find_map(|count| Some((count, part_of(values, &parts[..count])?)));
    let Some((count, value)) = there else { return Diagnostic::new(template_codes::NO_VALUE) };
    let name = &parts[count];
    let near =
        value.as_object().and_then(|fields| nearest(name, fields.keys().map(String::as_str)));
    let found = Diagnostic::new(template_codes::MISSING_VALUE).name("name", name);
    found.suggest(Suggestion::similar(near))
}

impl FromStr for Template {
    type Err = TemplateError;

    /// Parses a template.
    ///
    /// # Errors
    /// Returns an error if a brace has no counterpart, if the text between braces is not a path, or
    /// if the text exceeds 1 MiB.
    fn from_str(text: &str) -> Result<Self, TemplateError> {
        if text.len() > LONGEST {
            let found = Diagnostic::new(template_codes::TOO_LONG).number("most", LONGEST);
            let diagnostic = found.number("size", text.len()).at(0..0);
            return Err(TemplateError { diagnostic });
        }
        let mut pieces: Vec<TemplatePiece> = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(brace) = text[at..].find(['{', '}']).map(|of| at + of) {
            plain.push_str(&text[at..brace]);
            let rest = &text[brace..];
            let of_brace = |code| TemplateError {
                diagnostic: Diagnostic::new(code).at_byte(brace).at_token(brace..brace + 1),
            };
            // A doubled brace is an escaped brace.
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push_str(&rest[..1]);
                at = brace + 2;
                continue;
            }
            if rest.starts_with('}') {
                return Err(of_brace(template_codes::SURPLUS_BRACE));
            }
            let end = rest.find(['}', '\n']).filter(|end| rest[*end..].starts_with('}'));
            let Some(end) = end else {
                return Err(of_brace(template_codes::OPEN_BRACE));
            };
            let placeholder = placeholder(&rest[1..end], brace..brace + end + 1)
                .map_err(|diagnostic| TemplateError { diagnostic })?;
            if !plain.is_empty() {
                pieces.push(TemplatePiece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(TemplatePiece::Value(placeholder));
            at = brace + end + 1;
        }
        plain.push_str(&text[at..]);
        if !plain.is_empty() {
            pieces.push(TemplatePiece::Text(plain));
        }
        Ok(Self { text: text.to_owned(), pieces })
    }
}

fn placeholder(inside: &str, range: Range<usize>) -> Result<Placeholder, Diagnostic> {
    let (path, optional) = inside.strip_suffix('?').map_or((inside, false), |path| (path, true));
    let is_part = |(number, part): (usize, &str)| {
        let is_letter = |letter: char| {
            letter.is_alphanumeric()
                || matches!(letter, '_' | '-')
                || (number == 0 && matches!(letter, '/' | ':'))
        };
        !part.is_empty() && part.chars().all(is_letter)
    };
    if !path.split('.').enumerate().all(is_part) {
        let shown = head(inside, 40);
        let found = Diagnostic::new(template_codes::NOT_A_PLACEHOLDER);
        let found = found.source("placeholder", format!("{{{shown}}}")).text("word", "name");
        return Err(found.at_byte(range.start).at_token(range));
    }
    Ok(Placeholder {
        parts: path.split('.').map(ToOwned::to_owned).collect(),
        optional,
        range,
        written: None,
    })
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Template {}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: TemplateError| custom(error.diagnostic))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn problem(text: &str) -> String {
        text.parse::<Template>().unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_a_template_is_refused_with_its_place() {
        for (text, says) in [
            ("a {name", "the `{` at byte 2 has no `}` on its line; write `{{` for a brace"),
            ("a {name\n}", "the `{` at byte 2 has no `}` on its line"),
            ("name}", "the `}` at byte 4 has no `{` before it; write `}}` for a brace"),
            ("{}", "`{}` at byte 0 is not a placeholder; write a path"),
            ("{a..b}", "`{a..b}` at byte 0 is not a placeholder"),
            ("{\"a\": 1}", "is not a placeholder; write a path, such as `{name}`"),
            ("é{a b}", "`{a b}` at byte 2 is not a placeholder"),
            ("{a.b/c}", "`{a.b/c}` at byte 0"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(says), "{text}: {problem}");
        }
        let error = serde_json::from_value::<Template>(json!("{")).unwrap_err().to_string();
        assert!(error.contains("at byte 0"), "{error}");
    }

    #[test]
    fn values_are_shown_and_types_are_kept() {
        let values = json!({"n": 3, "s": "x", "o": {"list": [1, {"a": null}]}, "user:name": "Ada", "way/yes": true});
        let fill = |text: &str| text.parse::<Template>().unwrap().fill(&values);
        assert_eq!(fill("{{{s}}}").unwrap(), json!("{x}"));
        assert_eq!(
            fill("{n} {o.list} {user:name} {way/yes}").unwrap(),
            json!("3 [1,{\"a\":null}] Ada true")
        );
        assert_eq!(fill("{o.list.1.a}").unwrap(), Value::Null);
        assert_eq!(fill("{o.list.1.a?}-{no?}-{o.list.1.a}").unwrap(), json!("--null"));
        assert_eq!(fill("{no?}").unwrap(), Value::Null);
        assert_eq!(fill("").unwrap(), json!(""));
        let error = fill("a {o.lst}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the placeholder `{o.lst}`: there is no value `lst`; did you mean `list`?"
        );
        assert_eq!(error.at(), 2);
        let error = fill("{o.list.7}").unwrap_err().to_string();
        assert!(error.ends_with(
            "there is no value `7`; write `?` before the closing brace where it may be missing"
        ));
    }

    #[test]
    fn a_filled_text_has_a_largest_size() {
        let template: Template = "{a}{a}".parse().unwrap();
        let fill = |most| template.filled(most, |_| Ok(Some(json!("123"))));
        assert_eq!(fill(6).unwrap(), json!("123123"));
        assert!(fill(5).unwrap_err().to_string().contains("more than 5 bytes"));
        assert!("x".repeat(LONGEST + 1).parse::<Template>().is_err());
    }

    proptest! {
        /// Every string is either refused or can be filled.
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c{}.?:é\\n ]{0,24}") {
            if let Ok(template) = text.parse::<Template>() {
                let values = json!({"a": {"b": [1]}, "b": "{c}", "c": null});
                let _ = template.fill(&values);
                prop_assert_eq!(template.as_str(), text);
            }
        }

        /// A string without placeholders is unchanged, if its braces are doubled.
        #[test]
        fn text_survives(text in "\\PC{0,40}") {
            let written = text.replace('{', "{{").replace('}', "}}");
            let template: Template = written.parse().unwrap();
            prop_assert_eq!(template.fill(&Value::Null).unwrap(), Value::String(text));
        }
    }
}
