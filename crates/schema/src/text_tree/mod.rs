//! The text of a document as a tree of values, each with its place in the text. It reads YAML 1.2 and JSON, and knows no
//! form.

mod not_yaml;
mod size;
mod yaml_numbers;

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Number, Value};

use self::size::{Anchored, Size};
use self::yaml_numbers::{is_decimal, large_whole};
use crate::text::word_in;

/// The most bytes of a document.
pub const MOST_BYTES: usize = 4 << 20;
/// How deep values may stand in each other.
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
    /// `null`, also an absent value of YAML.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
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

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Misread {
    /// Byte range of the mistake.
    pub at: Range<usize>,
    /// Sentence about the mistake.
    pub message: String,
}

impl Misread {
    /// Creates a mistake from its place and its sentence.
    pub fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// The sentence with the line of the text that it is about.
    pub fn in_line(self, text: &str) -> String {
        let line = text.as_bytes().iter().take(self.at.start).filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: {}", self.message)
    }
}

impl Tree {
    /// Reads a text.
    ///
    /// # Errors
    /// All that is wrong with the values, or the first place where the text is neither YAML nor JSON.
    pub fn read(text: &str) -> Result<Self, Vec<Misread>> {
        let (tree, repeated) = Self::read_with_repeated(text)?;
        if repeated.is_empty() { Ok(tree) } else { Err(repeated) }
    }

    /// The same, and the fields that are there a second time, which are left out.
    pub fn read_with_repeated(text: &str) -> Result<(Self, Vec<Misread>), Vec<Misread>> {
        let one = |at: Range<usize>, message: String| Err(vec![Misread { at, message }]);
        if text.len() > MOST_BYTES {
            let size = text.len();
            return one(0..0, format!("the document has {size} bytes, and at most {MOST_BYTES} are read"));
        }
        let json = in_yaml(text);
        let source = json.as_ref().map_or(text, |(source, _)| source.as_str());
        let places = Places::of(source, json.as_ref().map_or(&[], |(_, moved)| moved));
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

    /// What it is, in words.
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

    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match &self.datum {
            Datum::Object(fields) => fields.iter().find(|field| field.name == name),
            _ => None,
        }
    }

    /// The text that it is.
    pub fn text(&self) -> Option<&str> {
        match &self.datum {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list; of anything else, none.
    pub fn items(&self) -> &[Tree] {
        match &self.datum {
            Datum::List(items) => items,
            _ => &[],
        }
    }

    /// The values that stand directly in it, each with its place: names of fields as texts, too.
    fn within(&self) -> Vec<(Option<&Field>, &Tree)> {
        match &self.datum {
            Datum::List(items) => items.iter().map(|item| (None, item)).collect(),
            Datum::Object(fields) => fields.iter().map(|field| (Some(field), &field.value)).collect(),
            _ => Vec::new(),
        }
    }

    /// Where a word stands in it: the value or the name of a field that is this word, or else the first text that has it.
    pub fn place_of(&self, word: &str) -> Option<Range<usize>> {
        self.find(&|text| text == word).or_else(|| self.find(&|text| word_in(text, word).is_some()))
    }

    /// It and the values within it by their places; of several at one place, the first.
    pub fn by_place(&self) -> HashMap<Range<usize>, &Self> {
        let (mut places, mut open) = (HashMap::new(), vec![self]);
        while let Some(tree) = open.pop() {
            places.entry(tree.at.clone()).or_insert(tree);
            open.extend(tree.within().into_iter().rev().map(|(_, value)| value));
        }
        places
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

    /// As JSON.
    pub fn to_json(&self) -> Value {
        match &self.datum {
            Datum::Null => Value::Null,
            Datum::Bool(value) => Value::Bool(*value),
            Datum::Number(number) => Value::Number(number.clone()),
            Datum::Text(text) => Value::String(text.clone()),
            Datum::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Datum::Object(fields) => {
                Value::Object(Map::from_iter(fields.iter().map(|field| (field.name.clone(), field.value.to_json()))))
            }
        }
    }
}

/// Text that is JSON, as YAML reads it: a character that JSON writes as two escapes is written as one. With it, where the
/// texts differ in length: after so many characters, two fewer. `None` where nothing is to be changed.
fn in_yaml(text: &str) -> Option<(String, Vec<usize>)> {
    let looks = text.trim_start().starts_with(['{', '[']) && text.contains("\\u");
    if !looks || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return None;
    }
    let letters: Vec<char> = text.chars().collect();
    let unit = |at: usize| -> Option<u32> {
        let digits: String = letters.get(at..at + 6)?.iter().collect();
        u32::from_str_radix(digits.strip_prefix("\\u")?, 16).ok()
    };
    let (mut out, mut moved, mut at, mut written) = (String::with_capacity(text.len()), Vec::new(), 0, 0);
    while let Some(letter) = letters.get(at) {
        let pair = (*letter == '\\').then(|| unit(at).zip(unit(at + 6))).flatten();
        match pair {
            Some((high @ 0xd800..=0xdbff, low @ 0xdc00..=0xdfff)) => {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                out.push_str(&format!("\\U{code:08x}"));
                (at, written) = (at + 12, written + 10);
                moved.push(written);
            }
            // An escaped backslash begins no other escape.
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

/// Bytes of the text for the characters that the parser counts.
struct Places {
    /// Where each character of what is parsed begins; empty when all of them have one byte.
    bytes: Vec<usize>,
    moved: Vec<usize>,
}

impl Places {
    fn of(source: &str, moved: &[usize]) -> Self {
        // What a pair of escapes was made of is ASCII, so a character moves by bytes.
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
    /// As it is written.
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    places: Places,
    anchors: HashMap<usize, Anchored>,
    size: Size,
    /// The size of all that is kept for anchors.
    anchored: Size,
    problems: Vec<Misread>,
    repeated: Vec<Misread>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Misread> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.not_yaml(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn not_yaml(&self, error: &ScanError) -> Misread {
        let (at, problem) = not_yaml::sentence(self.text, self.places.byte(error.marker().index()), error.info());
        Misread::new(at, problem)
    }

    fn document(&mut self) -> Result<Tree, Misread> {
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (Event::StreamEnd, _) => return Err(Misread::new(0..0, "the document is empty")),
                (event, span) => {
                    let tree = self.value(event, span, 0)?;
                    return self.end().map(|()| tree);
                }
            }
        }
    }

    /// Nothing follows a document in its file.
    fn end(&mut self) -> Result<(), Misread> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    let problem = "a second document begins here; give each document a file of its own";
                    return Err(Misread::new(self.places.range(span), problem));
                }
                _ => {}
            }
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Tree, Misread> {
        let at = self.places.range(span);
        if depth > MOST_DEPTH {
            return Err(Misread::new(at, format!("values stand in each other more than {MOST_DEPTH} deep here")));
        }
        let before = self.size;
        let text = if let Event::Scalar(text, ..) = &event { text.len() } else { 0 };
        self.size.add(Size { values: 1, text }, &at)?;
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if tag {
            self.problems.push(Misread::new(at.clone(), "tags such as `!!str` are not read; write the value alone"));
        }
        let tree = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Tree { datum: self.plain(&text, &at), at },
            Event::Scalar(text, ..) => Tree { datum: Datum::Text(text.into_owned()), at },
            Event::SequenceStart(..) => self.list(at, depth)?,
            Event::MappingStart(..) => self.object(at, depth)?,
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(anchored) => {
                    self.size.add(anchored.size, &at)?;
                    // A mistake in a repeated value is reported at the anchor.
                    return Ok(anchored.tree.clone());
                }
                None => return Err(Misread::new(at, "this stands for a value that is not complete here")),
            },
            _ => return Err(Misread::new(at, "a value is expected here")),
        };
        if anchor != 0 {
            let size = self.size.since(before);
            self.anchored.add(size, &tree.at)?;
            self.anchors.insert(anchor, Anchored { tree: tree.clone(), size });
        }
        Ok(tree)
    }

    fn list(&mut self, at: Range<usize>, depth: usize) -> Result<Tree, Misread> {
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

    fn object(&mut self, at: Range<usize>, depth: usize) -> Result<Tree, Misread> {
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
                    let problem = "merge keys are of YAML 1.1 and are not read; write the fields, or use an alias for a whole value";
                    self.problems.push(Misread::new(key.at, problem));
                    continue;
                }
                Datum::Text(text) => text,
                // As in JSON, where they stand in quotes.
                Datum::Number(number) => number.to_string(),
                Datum::Bool(value) => value.to_string(),
                Datum::Null | Datum::List(_) | Datum::Object(_) => {
                    let problem = format!("the name of a field is a text, and this is {}", key.what());
                    self.problems.push(Misread::new(key.at, problem));
                    continue;
                }
            };
            if names.insert(name.clone(), ()).is_some() {
                let problem = format!("the field `{name}` is here a second time; remove one");
                self.repeated.push(Misread::new(key.at, problem));
                continue;
            }
            fields.push(Field { name, at: key.at, value });
        }
    }

    /// What an unquoted text is, by the core schema of YAML 1.2.
    fn plain(&mut self, text: &str, at: &Range<usize>) -> Datum {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Datum::Null,
            "true" | "True" | "TRUE" => return Datum::Bool(true),
            "false" | "False" | "FALSE" => return Datum::Bool(false),
            _ => {}
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
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
            return number.map_or_else(|| self.no_number(text, at), Datum::Number);
        }
        match unsigned {
            ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => return self.no_number(text, at),
            _ if is_decimal(unsigned) => {}
            _ => return Datum::Text(text.to_owned()),
        }
        let number = text.strip_prefix('+').unwrap_or(text).parse::<f64>().ok().and_then(Number::from_f64);
        number.map_or_else(|| self.no_number(text, at), Datum::Number)
    }

    fn no_number(&mut self, text: &str, at: &Range<usize>) -> Datum {
        let problem = format!("JSON has no number for `{text}`; put it in quotes if it is a text");
        self.problems.push(Misread::new(at.clone(), problem));
        Datum::Null
    }
}

#[cfg(test)]
mod tests;
