//! Parses YAML 1.2 and JSON documents into a tree of values with their positions in the text. The
//! parser does not depend on the structure of the document.
//!
//! [`Tree::read`] creates a [`Tree`], whose [`Datum`] is the value. Errors are [`Diagnostic`]s with
//! a byte range and a code of [`codes`]. `yaml_numbers.rs` parses numbers, `not_yaml.rs` explains syntax errors,
//! and `size.rs` limits the size of documents.

pub mod codes;
mod not_yaml;
mod size;
mod yaml_numbers;

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Number, Value};

use self::size::{AnchorValue, Size};
use self::yaml_numbers::{is_decimal, large_whole};
use crate::diagnostic::Diagnostic;
use crate::text::word_in;

/// Maximum size of a document in bytes.
pub const MOST_BYTES: usize = 4 << 20;
/// Maximum nesting of values.
const MOST_DEPTH: usize = 64;

/// A value and its byte range in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Byte range of the value.
    pub at: Range<usize>,
    /// The value.
    pub datum: Datum,
}

/// A JSON value whose parts have byte ranges.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// `null`, or an absent value in YAML.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(String),
    /// A list, in order.
    List(Vec<Tree>),
    /// An object with its fields in the written order.
    Object(Vec<Field>),
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Byte range of the name.
    pub at: Range<usize>,
    /// Value of the field.
    pub value: Tree,
}

impl Tree {
    /// Parses a string.
    ///
    /// # Errors
    /// Returns all errors in the values, or the first place where the text is neither YAML nor
    /// JSON.
    pub fn read(text: &str) -> Result<Self, Vec<Diagnostic>> {
        let (tree, repeated) = Self::read_with_repeated(text)?;
        if repeated.is_empty() { Ok(tree) } else { Err(repeated) }
    }

    /// Parses a string like [`read`](Self::read), but returns duplicate fields separately. The tree
    /// contains only the first field of each name.
    ///
    /// # Errors
    /// Same as [`read`](Self::read), except for duplicate fields.
    pub fn read_with_repeated(text: &str) -> Result<(Self, Vec<Diagnostic>), Vec<Diagnostic>> {
        if text.len() > MOST_BYTES {
            let found = Diagnostic::new(codes::TOO_LARGE).number("size", text.len());
            return Err(vec![found.number("most", MOST_BYTES).at(0..0)]);
        }
        // The YAML parser refuses surrogate pairs, which are valid in JSON.
        let json = surrogates_as_yaml(text);
        let source = json.as_ref().map_or(text, |(source, _)| source.as_str());
        let places = Places::new(source, json.as_ref().map_or(&[], |(_, moved)| moved));
        let mut reader = Reader {
            text,
            events: Parser::new_from_str(source),
            places,
            anchors: HashMap::new(),
            size: Size::default(),
            anchored: Size::default(),
            problems: Vec::new(),
            repeated: Vec::new(),
        };
        let tree = reader.document().map_err(|stop| reader.problems.push(stop));
        match tree {
            Ok(tree) if reader.problems.is_empty() => Ok((tree, reader.repeated)),
            _ => Err([reader.problems, reader.repeated].concat()),
        }
    }

    /// Describes the value in a few words.
    pub fn what(&self) -> String {
        match &self.datum {
            Datum::Null => "nothing".to_owned(),
            Datum::Bool(value) => format!("`{value}`"),
            Datum::Number(number) => format!("the number {number}"),
            Datum::Text(text) => format!("the text {:?}", crate::text::head(text, 40)),
            Datum::List(_) => "a list".to_owned(),
            Datum::Object(_) => "an object".to_owned(),
        }
    }

    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match &self.datum {
            Datum::Object(fields) => fields.iter().find(|field| field.name == name),
            _ => None,
        }
    }

    /// Returns the value if it is a string.
    pub fn text(&self) -> Option<&str> {
        match &self.datum {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items of a list, or an empty slice for any other value.
    pub fn items(&self) -> &[Tree] {
        match &self.datum {
            Datum::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the direct children: items, or fields with their names.
    fn within(&self) -> Vec<(Option<&Field>, &Tree)> {
        match &self.datum {
            Datum::List(items) => items.iter().map(|item| (None, item)).collect(),
            Datum::Object(fields) => {
                fields.iter().map(|field| (Some(field), &field.value)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the position of a word: a string or a field name that is equal to it, or else the
    /// first text that contains it.
    pub fn place_of(&self, word: &str) -> Option<Range<usize>> {
        self.find(&|text| text == word).or_else(|| self.find(&|text| word_in(text, word).is_some()))
    }

    /// Returns the value and all values within it by their byte ranges. If several have the same
    /// range, returns the outermost.
    pub fn by_place(&self) -> HashMap<Range<usize>, &Self> {
        let (mut places, mut open) = (HashMap::new(), vec![self]);
        while let Some(tree) = open.pop() {
            places.entry(tree.at.clone()).or_insert(tree);
            open.extend(tree.within().into_iter().rev().map(|(_, value)| value));
        }
        places
    }

    /// Returns the position of the value at a JSON Pointer.
    pub fn at_pointer(&self, pointer: &str) -> Option<Range<usize>> {
        let mut here = self;
        for part in pointer.split('/').skip(1) {
            let name = part.replace("~1", "/").replace("~0", "~");
            here = match &here.datum {
                Datum::List(items) => items.get(name.parse::<usize>().ok()?)?,
                _ => &here.field(&name)?.value,
            };
        }
        Some(here.at.clone())
    }

    fn find(&self, is: &dyn Fn(&str) -> bool) -> Option<Range<usize>> {
        if self.text().is_some_and(is) {
            return Some(self.at.clone());
        }
        self.within().into_iter().find_map(|(field, value)| match field {
            Some(field) if is(&field.name) => Some(field.at.clone()),
            _ => value.find(is),
        })
    }

    /// Converts the tree to a JSON value.
    pub fn to_json(&self) -> Value {
        match &self.datum {
            Datum::Null => Value::Null,
            Datum::Bool(value) => Value::Bool(*value),
            Datum::Number(number) => Value::Number(number.clone()),
            Datum::Text(text) => Value::String(text.clone()),
            Datum::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Datum::Object(fields) => Value::Object(Map::from_iter(
                fields.iter().map(|field| (field.name.clone(), field.value.to_json())),
            )),
        }
    }
}

/// Rewrites the surrogate pairs of a JSON text as single YAML escapes. Also returns the character
/// positions after the rewritten escapes: each escape is two characters shorter. Returns `None` if
/// nothing has to be rewritten.
fn surrogates_as_yaml(text: &str) -> Option<(String, Vec<usize>)> {
    let looks = text.trim_start().starts_with(['{', '[']) && text.contains("\\u");
    if !looks || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return None;
    }
    let letters: Vec<char> = text.chars().collect();
    let unit = |at: usize| -> Option<u32> {
        let digits: String = letters.get(at..at + 6)?.iter().collect();
        u32::from_str_radix(digits.strip_prefix("\\u")?, 16).ok()
    };
    let (mut out, mut moved, mut at, mut written) =
        (String::with_capacity(text.len()), Vec::new(), 0, 0);
    while let Some(letter) = letters.get(at) {
        let pair = (*letter == '\\').then(|| unit(at).zip(unit(at + 6))).flatten();
        match pair {
            Some((high @ 0xd800..=0xdbff, low @ 0xdc00..=0xdfff)) => {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                out.push_str(&format!("\\U{code:08x}"));
                (at, written) = (at + 12, written + 10);
                moved.push(written);
            }
            // An escaped backslash does not start another escape.
            _ if *letter == '\\' => {
                out.extend(letters[at..].iter().take(2));
                (at, written) = (at + 2, written + 2);
            }
            _ => {
                out.push(*letter);
                (at, written) = (at + 1, written + 1);
            }
        }
    }
    (!moved.is_empty()).then_some((out, moved))
}

/// Converts the character positions of the parser to byte positions in the original text.
struct Places {
    /// The byte position of each character in the parsed text. Empty if the text is ASCII.
    bytes: Vec<usize>,
    moved: Vec<usize>,
}

impl Places {
    fn new(source: &str, moved: &[usize]) -> Self {
        // Surrogate pairs are written in ASCII, so the offset in characters is also the offset in
        // bytes.
        let bytes = match source.is_ascii() {
            true => Vec::new(),
            false => source.char_indices().map(|(at, _)| at).chain([source.len()]).collect(),
        };
        Self { bytes, moved: moved.to_vec() }
    }

    fn byte(&self, character: usize) -> usize {
        let more = 2 * self.moved.partition_point(|at| *at <= character);
        let byte = match self.bytes.last() {
            Some(end) => self.bytes.get(character).unwrap_or(end),
            None => &character,
        };
        byte + more
    }

    fn range(&self, span: Span) -> Range<usize> {
        let start = self.byte(span.start.index());
        start..self.byte(span.end.index()).max(start)
    }
}

struct Reader<'t> {
    /// The original text.
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    places: Places,
    anchors: HashMap<usize, AnchorValue>,
    size: Size,
    /// Total size of the values that are stored for anchors.
    anchored: Size,
    problems: Vec<Diagnostic>,
    repeated: Vec<Diagnostic>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Diagnostic> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.not_yaml(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn not_yaml(&self, error: &ScanError) -> Diagnostic {
        not_yaml::explain(self.text, self.places.byte(error.marker().index()), error.info())
    }

    fn document(&mut self) -> Result<Tree, Diagnostic> {
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (Event::StreamEnd, _) => return Err(Diagnostic::new(codes::EMPTY).at(0..0)),
                (event, span) => {
                    let tree = self.value(event, span, 0)?;
                    return self.end().map(|()| tree);
                }
            }
        }
    }

    /// Checks that the document is the only one in the text.
    fn end(&mut self) -> Result<(), Diagnostic> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    let found = Diagnostic::new(codes::SECOND_DOCUMENT);
                    return Err(found.at(self.places.range(span)));
                }
                _ => {}
            }
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Tree, Diagnostic> {
        let at = self.places.range(span);
        if depth > MOST_DEPTH {
            return Err(Diagnostic::new(codes::TOO_DEEP).number("most", MOST_DEPTH).at(at));
        }
        let before = self.size;
        let text = if let Event::Scalar(text, ..) = &event { text.len() } else { 0 };
        self.size.add(Size { values: 1, text }, &at)?;
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
                (*anchor, tag.is_some())
            }
            _ => (0, false),
        };
        if tag {
            self.problems.push(Diagnostic::new(codes::TAG).at(at.clone()));
        }
        let tree = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => {
                Tree { datum: self.plain(&text, &at), at }
            }
            Event::Scalar(text, ..) => Tree { datum: Datum::Text(text.into_owned()), at },
            Event::SequenceStart(..) => self.list(at, depth)?,
            Event::MappingStart(..) => self.object(at, depth)?,
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(anchored) => {
                    self.size.add(anchored.size, &at)?;
                    // Errors in a repeated value are already reported at the anchor.
                    return Ok(anchored.tree.clone());
                }
                None => return Err(Diagnostic::new(codes::ALIAS_OF_ITSELF).at(at)),
            },
            _ => return Err(Diagnostic::new(codes::MISSING_VALUE).at(at)),
        };
        // The copy for aliases counts too, because many anchors could store large values.
        if anchor != 0 {
            let size = self.size.since(before);
            self.anchored.add(size, &tree.at)?;
            self.anchors.insert(anchor, AnchorValue { tree: tree.clone(), size });
        }
        Ok(tree)
    }

    fn list(&mut self, at: Range<usize>, depth: usize) -> Result<Tree, Diagnostic> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => {
                    let end = self.places.range(span).end;
                    return Ok(Tree { at: at.start..end.max(at.end), datum: Datum::List(items) });
                }
                (event, span) => items.push(self.value(event, span, depth + 1)?),
            }
        }
    }

    fn object(&mut self, at: Range<usize>, depth: usize) -> Result<Tree, Diagnostic> {
        let mut fields: Vec<Field> = Vec::new();
        let mut names: HashMap<String, ()> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if let Event::MappingEnd = event {
                let end = self.places.range(span).end;
                return Ok(Tree { at: at.start..end.max(at.end), datum: Datum::Object(fields) });
            }
            let key = self.value(event, span, depth + 1)?;
            let (event, span) = self.next()?;
            let value = self.value(event, span, depth + 1)?;
            let name = match key.datum {
                Datum::Text(text) if text == "<<" => {
                    self.problems.push(Diagnostic::new(codes::MERGE_KEY).at(key.at));
                    continue;
                }
                Datum::Text(text) => text,
                // JSON has these names in quotes.
                Datum::Number(number) => number.to_string(),
                Datum::Bool(value) => value.to_string(),
                Datum::Null | Datum::List(_) | Datum::Object(_) => {
                    let found = Diagnostic::new(codes::FIELD_NAME_NOT_A_TEXT);
                    self.problems.push(found.text("found", key.what()).at(key.at));
                    continue;
                }
            };
            if names.insert(name.clone(), ()).is_some() {
                let found = Diagnostic::new(codes::DUPLICATE_FIELD).name("field", name);
                self.repeated.push(found.at(key.at));
                continue;
            }
            fields.push(Field { name, at: key.at, value });
        }
    }

    /// Parses an unquoted text by the core schema of YAML 1.2.
    fn plain(&mut self, text: &str, at: &Range<usize>) -> Datum {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Datum::Null,
            "true" | "True" | "TRUE" => return Datum::Bool(true),
            "false" | "False" | "FALSE" => return Datum::Bool(false),
            _ => {}
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // The core schema has decimal, hexadecimal and octal integers. Only decimal ones may have a
        // sign.
        let whole = if is_digits(unsigned) {
            Some(text.strip_prefix('+').unwrap_or(text).parse::<i128>().ok())
        } else if let Some(digits) =
            text.strip_prefix("0x").filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            Some(i128::from_str_radix(digits, 16).ok())
        } else {
            let octal = text.strip_prefix("0o").filter(|digits| is_digits(digits));
            octal.map(|digits| i128::from_str_radix(digits, 8).ok())
        };
        if let Some(whole) = whole {
            let number = whole.and_then(|whole| match u64::try_from(whole) {
                Ok(whole) => Some(Number::from(whole)),
                Err(_) => i64::try_from(whole).ok().map(Number::from),
            });
            let number = number.or_else(|| large_whole(text).filter(|_| is_digits(unsigned)));
            return number.map_or_else(|| self.report_invalid_number(text, at), Datum::Number);
        }
        match unsigned {
            ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => {
                return self.report_invalid_number(text, at);
            }
            _ if is_decimal(unsigned) => {}
            _ => return Datum::Text(text.to_owned()),
        }
        let number =
            text.strip_prefix('+').unwrap_or(text).parse::<f64>().ok().and_then(Number::from_f64);
        number.map_or_else(|| self.report_invalid_number(text, at), Datum::Number)
    }

    fn report_invalid_number(&mut self, text: &str, at: &Range<usize>) -> Datum {
        let found = Diagnostic::new(codes::INVALID_NUMBER).source("number", text);
        self.problems.push(found.at(at.clone()));
        Datum::Null
    }
}

#[cfg(test)]
mod tests;
