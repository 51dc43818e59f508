//! [`Fields`] reads the fields of an object in a document, and reports every mistake in
//! [`Problems`]: missing fields, unknown fields and wrong types. The readers of the forms use it.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::text::nearest;
use agentflow_schema::text_tree::{Datum, Field, Tree};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::document_codes;
use super::excerpt_place::place_in;
use super::value_error::{ValueError, ValueReader};

/// The mistakes that were found in a string so far.
pub(super) struct Problems {
    text: Arc<str>,
    pub(super) found: Vec<Diagnostic>,
}

impl Problems {
    pub(super) fn new(text: &Arc<str>, found: Vec<Diagnostic>) -> Self {
        Self { text: Arc::clone(text), found }
    }

    pub(super) fn note(&mut self, at: &Range<usize>, diagnostic: Diagnostic) {
        self.found.push(diagnostic.at(at.clone()));
    }

    /// Reports a problem of an expression or a template. `text` is the value of the string `tree`,
    /// and the span of the diagnostic is a range of it.
    pub(super) fn note_in_text(&mut self, tree: &Tree, text: &str, diagnostic: Diagnostic) {
        let at = place_in(&self.text, tree.at.clone(), text, diagnostic.span());
        self.note(&at, diagnostic);
    }

    /// Reports a problem at a brace of a string, or at the placeholder that it starts. `number` is
    /// the number of braces before it.
    pub(super) fn note_at_brace(&mut self, tree: &Tree, number: usize, diagnostic: Diagnostic) {
        // Each search scans the text, so the number of searches is limited.
        let is_looked_for = self.found.len() < super::MOST_PLACED;
        let at = if is_looked_for { self.brace(tree, number) } else { None };
        self.note(&at.unwrap_or_else(|| tree.at.clone()), diagnostic);
    }

    /// Returns the range from a brace to the end of its placeholder.
    fn brace(&self, tree: &Tree, number: usize) -> Option<Range<usize>> {
        let written = self.text.get(tree.at.clone())?;
        // A brace that is written as an escape sequence cannot be found by counting.
        if braces(written) != braces(tree.text()?) {
            return None;
        }
        let (at, _) = written.match_indices(BRACES).nth(number)?;
        let line = written[at..].split('\n').next().unwrap_or_default();
        let length = line.find('}').map_or(1, |end| end + 1);
        Some(tree.at.start + at..tree.at.start + at + length)
    }
}

/// Fields that contain the name of their object.
const OWN_NAMES: [&str; 3] = ["name", "node_id", "id"];

const BRACES: [char; 2] = ['{', '}'];

/// Returns the number of braces in a string.
pub(super) fn braces(text: &str) -> usize {
    text.matches(BRACES).count()
}

/// The fields of an object.
pub(super) struct Fields<'t> {
    pub(super) tree: &'t Tree,
    fields: &'t [Field],
    /// Description of the object for messages, such as `a node`.
    what: &'static str,
    asked: Vec<&'static str>,
    /// Required fields that are missing.
    missing: Vec<&'static str>,
    /// `true` if `nodeId` is accepted for `node_id`.
    is_camel: bool,
}

impl<'t> Fields<'t> {
    /// Returns the fields of a value that must be an object.
    pub(super) fn from_tree(
        tree: &'t Tree,
        what: &'static str,
        problems: &mut Problems,
    ) -> Option<Self> {
        match &tree.datum {
            Datum::Object(fields) => Some(Self {
                tree,
                fields,
                what,
                asked: Vec::new(),
                missing: Vec::new(),
                is_camel: false,
            }),
            _ => {
                problems.note(
                    &tree.at,
                    Diagnostic::new(document_codes::ITEM_NOT_AN_OBJECT)
                        .text("item", what)
                        .text("found", tree.what()),
                );
                None
            }
        }
    }

    /// Also accepts camel case, such as `nodeId` for `node_id`.
    pub(super) fn or_camel(mut self) -> Self {
        self.is_camel = true;
        self
    }

    /// Returns the value of a field, unless it is missing or `null`.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'t Tree> {
        self.find(name).filter(|value| value.datum != Datum::Null)
    }

    /// Like [`get`](Self::get), but also returns a written `null`. A field without any value after
    /// the `:` counts as missing.
    pub(super) fn get_or_null(&mut self, name: &'static str) -> Option<&'t Tree> {
        self.find(name).filter(|value| value.datum != Datum::Null || !value.at.is_empty())
    }

    fn find(&mut self, name: &'static str) -> Option<&'t Tree> {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
        self.fields.iter().find(|field| self.is_named(field, name)).map(|field| &field.value)
    }

    fn is_named(&self, field: &Field, name: &str) -> bool {
        field.name == name || (self.is_camel && field.name == camel(name))
    }

    /// Reads an object of strings. A missing field gives an empty list.
    pub(super) fn texts_by_name(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Vec<(&'t str, &'t str, &'t Tree)> {
        let Some(tree) = self.get(name) else { return Vec::new() };
        let Datum::Object(fields) = &tree.datum else {
            problems.note(
                &tree.at,
                Diagnostic::new(document_codes::FIELD_NOT_AN_OBJECT)
                    .name("field", name)
                    .text("found", tree.what()),
            );
            return Vec::new();
        };
        let texts = fields.iter().filter(|field| is_text(&field.value, &field.name, problems));
        texts
            .filter_map(|field| Some((field.name.as_str(), field.value.text()?, &field.value)))
            .collect()
    }

    /// Reads a boolean. A missing field gives `default`.
    pub(super) fn flag(
        &mut self,
        name: &'static str,
        default: bool,
        problems: &mut Problems,
    ) -> bool {
        match self.get(name) {
            Some(Tree { datum: Datum::Bool(value), .. }) => *value,
            Some(other) => {
                problems.note(
                    &other.at,
                    Diagnostic::new(document_codes::FIELD_NOT_A_BOOLEAN)
                        .name("field", name)
                        .text("found", other.what()),
                );
                default
            }
            None => default,
        }
    }

    /// Reads a string that must be one of `words`.
    pub(super) fn word(
        &mut self,
        name: &'static str,
        words: &[&'static str],
        problems: &mut Problems,
    ) -> Option<&'static str> {
        let tree = self.text(name, problems)?;
        let given = tree.text()?;
        let found = words.iter().find(|word| **word == given).copied();
        if found.is_none() {
            let near = nearest(given, words.iter().copied());
            let hint = Suggestion::similar(near).unwrap_or_else(|| {
                Suggestion::advice(format!("it is one of `{}`", words.join("`, `")))
            });
            problems.note(
                &tree.at,
                Diagnostic::new(document_codes::UNKNOWN_VALUE)
                    .name("field", name)
                    .text("item", self.what)
                    .name("value", given)
                    .suggest(hint),
            );
        }
        found
    }

    /// Returns the value of a required field. If it is missing, [`end`](Self::end) reports it.
    pub(super) fn need(&mut self, name: &'static str) -> Option<&'t Tree> {
        let found = self.get(name);
        if found.is_none() && !self.missing.contains(&name) {
            self.missing.push(name);
        }
        found
    }

    /// Reads a string.
    pub(super) fn text(&mut self, name: &'static str, problems: &mut Problems) -> Option<&'t Tree> {
        self.get(name).filter(|tree| is_text(tree, name, problems))
    }

    /// Reads a required, non-empty text.
    pub(super) fn need_text(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<(&'t str, &'t Tree)> {
        let tree = self.need(name).filter(|tree| is_text(tree, name, problems))?;
        let text = tree.text()?;
        if text.trim().is_empty() {
            problems.note(
                &tree.at,
                Diagnostic::new(document_codes::EMPTY_FIELD)
                    .name("field", name)
                    .text("item", self.what),
            );
            return None;
        }
        Some((text, tree))
    }

    /// Reads a list. A missing field gives an empty list.
    pub(super) fn list(&mut self, name: &'static str, problems: &mut Problems) -> &'t [Tree] {
        match self.get(name) {
            Some(Tree { datum: Datum::List(items), .. }) => items,
            Some(other) => {
                problems.note(
                    &other.at,
                    Diagnostic::new(document_codes::FIELD_NOT_A_LIST)
                        .name("field", name)
                        .text("found", other.what()),
                );
                &[]
            }
            None => &[],
        }
    }

    /// Reads a list of strings. A missing field gives an empty list.
    pub(super) fn texts(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Vec<(&'t str, &'t Tree)> {
        let items = self.list(name, problems).iter();
        items
            .filter(|item| is_text(item, name, problems))
            .filter_map(|item| Some((item.text()?, item)))
            .collect()
    }

    /// Reads a value of a type that implements `Deserialize`.
    pub(super) fn read<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<T> {
        self.get(name).and_then(|tree| read(tree, problems))
    }

    /// Reports unknown fields and missing required fields. A missing field is not reported if an
    /// unknown field has a similar name.
    pub(super) fn end(self, problems: &mut Problems) {
        self.end_with(false, problems);
    }

    /// Like [`end`](Self::end), for an object that may have further fields: reports an unknown
    /// field only if its name is similar to a known field.
    pub(super) fn end_with_further(self, problems: &mut Problems) {
        self.end_with(true, problems);
    }

    fn end_with(self, has_further: bool, problems: &mut Problems) {
        let mut missing = self.missing.clone();
        for field in self.fields {
            if let Some(name) = self.asked.iter().find(|name| self.is_named(field, name)) {
                let first = self.fields.iter().find(|other| self.is_named(other, name));
                if first.is_some_and(|first| first.at != field.at) {
                    let first = first.map_or("", |first| &first.name);
                    problems.note(
                        &field.at,
                        Diagnostic::new(document_codes::TWO_SPELLINGS)
                            .name("first", first)
                            .name("field", &field.name),
                    );
                }
            } else {
                // `nodes` is also similar to `nodes_per_run`: a name can be the beginning of a
                // longer one.
                let begins = |name: &&str| {
                    name.strip_prefix(&*field.name).is_some_and(|rest| rest.starts_with('_'))
                };
                let near = nearest(&field.name, self.asked.iter().copied());
                let near = near.or_else(|| self.asked.iter().copied().find(begins));
                missing.retain(|name| Some(*name) != near);
                let hint = match Suggestion::similar(near) {
                    None if has_further => continue,
                    None => {
                        Suggestion::advice(format!("its fields are `{}`", self.asked.join("`, `")))
                    }
                    Some(near) => near,
                };
                problems.note(
                    &field.at,
                    Diagnostic::new(document_codes::UNKNOWN_FIELD)
                        .text("item", self.what)
                        .name("field", &field.name)
                        .suggest(hint),
                );
            }
        }
        for name in missing {
            problems.note(
                &self.start(),
                Diagnostic::new(document_codes::MISSING_FIELD)
                    .text("item", self.what_is_named())
                    .name("field", name),
            );
        }
    }

    /// Returns the description of the object with its name, such as ``the agent `reader` ``.
    fn what_is_named(&self) -> String {
        let kind = self
            .what
            .strip_prefix("a ")
            .or_else(|| self.what.strip_prefix("an "))
            .unwrap_or(self.what);
        let field = self.asked.iter().find(|name| OWN_NAMES.contains(name));
        let named =
            field.and_then(|name| self.fields.iter().find(|field| self.is_named(field, name)));
        match named.and_then(|field| field.value.text()).filter(|name| !name.trim().is_empty()) {
            Some(name) if matches!(kind, "agent" | "node" | "step") => {
                format!("the {kind} `{name}`")
            }
            _ => self.what.to_owned(),
        }
    }

    /// Returns the position of the object.
    fn start(&self) -> Range<usize> {
        self.fields.first().map_or(self.tree.at.clone(), |field| field.at.clone())
    }
}

/// Converts `node_id` to `nodeId`.
pub(super) fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |camel, part| {
        let (head, tail) = part.split_at(part.len().min(1));
        camel + &head.to_ascii_uppercase() + tail
    })
}

fn is_text(tree: &Tree, name: &str, problems: &mut Problems) -> bool {
    let is = tree.text().is_some();
    if !is {
        let quoted = matches!(tree.datum, Datum::Number(_) | Datum::Bool(_));
        let hint = quoted.then(|| Suggestion::advice("put it in quotes"));
        problems.note(
            &tree.at,
            Diagnostic::new(document_codes::FIELD_NOT_A_TEXT)
                .name("field", name)
                .text("found", tree.what())
                .suggest(hint),
        );
    }
    is
}

/// Reads a value of a type that implements `Deserialize`, and reports all mistakes. serde reports
/// only the first mistake, so its field is removed and the rest is read again. Returns the value
/// without the removed fields, if that is valid.
pub(super) fn read<T: DeserializeOwned>(tree: &Tree, problems: &mut Problems) -> Option<T> {
    let mut json = tree.to_json();
    let (mut left_out, mut meant): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    loop {
        let last = RefCell::new(None);
        let reader = ValueReader { value: json.clone(), last: &last };
        let error = match serde_path_to_error::deserialize::<_, T>(reader) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let path = error.path().clone();
        let error = error.into_inner().with_text(last.take());
        // A field that was removed here, or misspelled, is reported by serde as missing.
        let missing = match &error {
            ValueError::MissingField(name) => left_out.iter().chain(&meant).any(|of| of == name),
            _ => false,
        };
        let path: Vec<&Segment> =
            path.iter().filter(|part| !matches!(part, Segment::Enum { .. })).collect();
        let ValuePlace { at, field } = place(tree, &path, &error);
        if !missing {
            meant.extend(error.nearest_name().map(ToOwned::to_owned));
            let at = error.place_in(&problems.text, at);
            problems.note(&at, error.diagnostic());
        }
        match (remove(&mut json, &path), field) {
            (true, Some(name)) if !missing && left_out.len() < 20 => left_out.push(name),
            _ => return None,
        }
    }
}

/// The range that an error refers to, and the last field on the path to it.
struct ValuePlace {
    at: Range<usize>,
    field: Option<String>,
}

/// Returns the place that a path of serde refers to.
fn place(tree: &Tree, path: &[&Segment], error: &ValueError) -> ValuePlace {
    let mut place = ValuePlace { at: tree.at.clone(), field: None };
    let mut here = tree;
    for part in path {
        let next = match part {
            Segment::Seq { index } => here.items().get(*index),
            Segment::Map { key } | Segment::Enum { variant: key } => match here.field(key) {
                Some(field) => {
                    place.field = Some(key.clone());
                    let is_name = matches!(error, ValueError::UnknownField { .. });
                    place.at = if is_name { field.at.clone() } else { field.value.at.clone() };
                    here = &field.value;
                    continue;
                }
                None => None,
            },
            Segment::Unknown => None,
        };
        let Some(next) = next else { break };
        (place.at, here) = (next.at.clone(), next);
    }
    // For enums, the path of serde ends before the unknown word.
    if let Some(word) = error.text().and_then(|word| here.place_of(word)) {
        place.at = word;
    }
    place
}

/// Removes the field that a path refers to. Returns `false` if it is not a field of an object.
fn remove(json: &mut Value, path: &[&Segment]) -> bool {
    let Some((last, before)) = path.split_last() else { return false };
    let mut here = json;
    for part in before {
        let next = match part {
            Segment::Seq { index } => here.get_mut(*index),
            Segment::Map { key } | Segment::Enum { variant: key } => here.get_mut(key.as_str()),
            Segment::Unknown => None,
        };
        match next {
            Some(next) => here = next,
            None => return false,
        }
    }
    match (last, here) {
        (Segment::Map { key }, Value::Object(fields)) => fields.remove(key).is_some(),
        _ => false,
    }
}
