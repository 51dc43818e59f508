//! Reads the fields of objects of a document and notes every mistake in them: what is missing, unknown or of another type.
//! It knows no form.

use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, nearest};
use agentflow_schema::text_tree::{Datum, Field, Misread, Tree};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::workflow::in_words;

/// The mistakes found so far in a text.
pub(super) struct Problems {
    text: Arc<str>,
    pub(super) found: Vec<Misread>,
}

impl Problems {
    pub(super) fn new(text: &Arc<str>, found: Vec<Misread>) -> Self {
        Self { text: Arc::clone(text), found }
    }

    pub(super) fn note(&mut self, at: &Range<usize>, message: impl Into<String>) {
        self.found.push(Misread::new(at.clone(), message));
    }

    /// Notes what is wrong with a brace of a text, or with the placeholder that it begins; `number` of its braces stand before
    /// it.
    pub(super) fn note_at_brace(&mut self, tree: &Tree, number: usize, message: impl Into<String>) {
        // Each is looked for in the whole text.
        let is_looked_for = self.found.len() < super::MOST_PLACED;
        let at = if is_looked_for { self.brace(tree, number) } else { None };
        self.note(&at.unwrap_or_else(|| tree.at.clone()), message);
    }

    /// A brace, to the end of the placeholder that it begins.
    fn brace(&self, tree: &Tree, number: usize) -> Option<Range<usize>> {
        let written = self.text.get(tree.at.clone())?;
        // One that is written as an escape is not found by counting.
        if braces(written) != braces(tree.text()?) {
            return None;
        }
        let (at, _) = written.match_indices(BRACES).nth(number)?;
        let line = written[at..].split('\n').next().unwrap_or_default();
        let length = line.find('}').map_or(1, |end| end + 1);
        Some(tree.at.start + at..tree.at.start + at + length)
    }
}

/// Fields with the name of the object that they are in.
const OWN_NAMES: [&str; 3] = ["name", "node_id", "id"];

const BRACES: [char; 2] = ['{', '}'];

/// How many braces a text has.
pub(super) fn braces(text: &str) -> usize {
    text.matches(BRACES).count()
}

/// The fields of an object.
pub(super) struct Fields<'t> {
    pub(super) tree: &'t Tree,
    fields: &'t [Field],
    /// What the object is, such as `a node`.
    what: &'static str,
    asked: Vec<&'static str>,
    /// Those of them that have to be given and are not.
    missing: Vec<&'static str>,
    /// Whether `node_id` may be written as `nodeId`.
    is_camel: bool,
}

impl<'t> Fields<'t> {
    /// The fields of what has to be an object.
    pub(super) fn of(tree: &'t Tree, what: &'static str, problems: &mut Problems) -> Option<Self> {
        match &tree.datum {
            Datum::Object(fields) => {
                Some(Self { tree, fields, what, asked: Vec::new(), missing: Vec::new(), is_camel: false })
            }
            _ => {
                problems.note(&tree.at, format!("{what} is an object, and this is {}", tree.what()));
                None
            }
        }
    }

    /// Reads `nodeId`, too, where `node_id` is asked for.
    pub(super) fn or_camel(mut self) -> Self {
        self.is_camel = true;
        self
    }

    /// The value of a field, where it is given and not `null`.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'t Tree> {
        self.find(name).filter(|value| value.datum != Datum::Null)
    }

    /// The same of a field for which `null` is a value like others, where that is written: nothing behind the `:` is not given.
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

    /// Texts by their names; none where the field is absent.
    pub(super) fn texts_by_name(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Vec<(&'t str, &'t str, &'t Tree)> {
        let Some(tree) = self.get(name) else { return Vec::new() };
        let Datum::Object(fields) = &tree.datum else {
            problems.note(&tree.at, format!("`{name}` is an object, and this is {}", tree.what()));
            return Vec::new();
        };
        let texts = fields.iter().filter(|field| is_text(&field.value, &field.name, problems));
        texts.filter_map(|field| Some((field.name.as_str(), field.value.text()?, &field.value))).collect()
    }

    /// `true` or `false`; an absent one is `default`.
    pub(super) fn flag(&mut self, name: &'static str, default: bool, problems: &mut Problems) -> bool {
        match self.get(name) {
            Some(Tree { datum: Datum::Bool(value), .. }) => *value,
            Some(other) => {
                problems.note(&other.at, format!("`{name}` is `true` or `false`, and this is {}", other.what()));
                default
            }
            None => default,
        }
    }

    /// One of some words.
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
            let hint =
                if near.is_some() { did_you_mean(near) } else { format!("; it is one of `{}`", words.join("`, `")) };
            problems.note(&tree.at, format!("`{name}` of {} cannot be `{given}`{hint}", self.what));
        }
        found
    }

    /// The value of a field that has to be given; [`end`](Self::end) notes that it is not.
    pub(super) fn need(&mut self, name: &'static str) -> Option<&'t Tree> {
        let found = self.get(name);
        if found.is_none() && !self.missing.contains(&name) {
            self.missing.push(name);
        }
        found
    }

    /// A text.
    pub(super) fn text(&mut self, name: &'static str, problems: &mut Problems) -> Option<&'t Tree> {
        self.get(name).filter(|tree| is_text(tree, name, problems))
    }

    /// A text that has to be given and is not empty.
    pub(super) fn need_text(&mut self, name: &'static str, problems: &mut Problems) -> Option<(&'t str, &'t Tree)> {
        let tree = self.need(name).filter(|tree| is_text(tree, name, problems))?;
        let text = tree.text()?;
        if text.trim().is_empty() {
            problems.note(&tree.at, format!("`{name}` of {} is empty", self.what));
            return None;
        }
        Some((text, tree))
    }

    /// A list; an absent one is empty.
    pub(super) fn list(&mut self, name: &'static str, problems: &mut Problems) -> &'t [Tree] {
        match self.get(name) {
            Some(Tree { datum: Datum::List(items), .. }) => items,
            Some(other) => {
                problems.note(&other.at, format!("`{name}` is a list, and this is {}", other.what()));
                &[]
            }
            None => &[],
        }
    }

    /// A list of texts; an absent one is empty.
    pub(super) fn texts(&mut self, name: &'static str, problems: &mut Problems) -> Vec<(&'t str, &'t Tree)> {
        let items = self.list(name, problems).iter();
        items.filter(|item| is_text(item, name, problems)).filter_map(|item| Some((item.text()?, item))).collect()
    }

    /// A value of a type that serde reads.
    pub(super) fn read<T: DeserializeOwned>(&mut self, name: &'static str, problems: &mut Problems) -> Option<T> {
        self.get(name).and_then(|tree| read(tree, problems))
    }

    /// Notes what was not asked for, and what is missing, unless it is there under a name that is near.
    pub(super) fn end(self, problems: &mut Problems) {
        self.end_with(false, problems);
    }

    /// The same for an object that may have further fields: notes only those with nearly the name of a known field.
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
                    problems.note(&field.at, format!("`{first}` and `{}` are one field; keep one", field.name));
                }
            } else {
                let begins = |name: &&str| name.strip_prefix(&*field.name).is_some_and(|rest| rest.starts_with('_'));
                let near = nearest(&field.name, self.asked.iter().copied());
                let near = near.or_else(|| self.asked.iter().copied().find(begins));
                missing.retain(|name| Some(*name) != near);
                let hint = match near {
                    None if has_further => continue,
                    None => format!("; its fields are `{}`", self.asked.join("`, `")),
                    near => did_you_mean(near),
                };
                problems.note(&field.at, format!("{} has no `{}`{hint}", self.what, field.name));
            }
        }
        for name in missing {
            problems.note(&self.start(), format!("{} needs `{name}`", self.what_is_named()));
        }
    }

    /// The object by its name, where it has one: the agent `reader`.
    fn what_is_named(&self) -> String {
        let kind = self.what.strip_prefix("a ").or_else(|| self.what.strip_prefix("an ")).unwrap_or(self.what);
        let field = self.asked.iter().find(|name| OWN_NAMES.contains(name));
        let named = field.and_then(|name| self.fields.iter().find(|field| self.is_named(field, name)));
        match named.and_then(|field| field.value.text()).filter(|name| !name.trim().is_empty()) {
            Some(name) if matches!(kind, "agent" | "node" | "step") => format!("the {kind} `{name}`"),
            _ => self.what.to_owned(),
        }
    }

    /// Where the object begins.
    fn start(&self) -> Range<usize> {
        self.fields.first().map_or(self.tree.at.clone(), |field| field.at.clone())
    }
}

/// `nodeId` for `node_id`.
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
        let hint = if quoted { "; put it in quotes" } else { "" };
        problems.note(&tree.at, format!("`{name}` is a text, and this is {}{hint}", tree.what()));
    }
    is
}

/// A value of a type that serde reads. What serde says of the first mistake is noted where it stands; then the field is left
/// out, and the rest is read for further ones. The value is that of what is left, where this is one.
pub(super) fn read<T: DeserializeOwned>(tree: &Tree, problems: &mut Problems) -> Option<T> {
    let mut json = tree.to_json();
    let (mut left_out, mut meant): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    loop {
        let error = match serde_path_to_error::deserialize::<_, T>(json.clone()) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let message = error.inner().to_string();
        // It is missing since it was left out, or is there under a name that was noted.
        let missing = left_out.iter().chain(&meant).any(|name| message.starts_with(&format!("missing field `{name}`")));
        let path: Vec<&Segment> = error.path().iter().filter(|part| !matches!(part, Segment::Enum { .. })).collect();
        let (at, name) = place(tree, &path, &message);
        if !missing {
            let said = for_a_reader(&in_words(&message));
            meant.extend(
                said.split("did you mean `").nth(1).and_then(|near| near.strip_suffix("`?")).map(ToOwned::to_owned),
            );
            problems.note(&at, said);
        }
        match (remove(&mut json, &path), name) {
            (true, Some(name)) if !missing && left_out.len() < 20 => left_out.push(name),
            _ => return None,
        }
    }
}

/// A sentence of serde's for those who write documents: without the list of names where one of them is near, and with types
/// in words.
fn for_a_reader(sentence: &str) -> String {
    if let (Some((problem, _)), Some((_, near))) =
        (sentence.split_once(", expected "), sentence.split_once("; did you mean"))
    {
        return format!("{problem}; did you mean{near}");
    }
    for (rust, words) in [
        ("u8 u16 u32 u64 usize", "a whole number, 0 or more"),
        ("i8 i16 i32 i64 isize", "a whole number"),
        ("f32 f64", "a number"),
    ] {
        if let Some((problem, _)) = rust.split(' ').find_map(|rust| sentence.split_once(&format!("expected {rust}"))) {
            return format!("{problem}expected {words}");
        }
    }
    sentence.to_owned()
}

/// Where a path of serde's leads, and the name of the field at its end.
fn place(tree: &Tree, path: &[&Segment], message: &str) -> (Range<usize>, Option<String>) {
    let (mut at, mut name, mut here) = (tree.at.clone(), None, tree);
    for part in path {
        let next = match part {
            Segment::Seq { index } => here.items().get(*index),
            Segment::Map { key } | Segment::Enum { variant: key } => match here.field(key) {
                Some(field) => {
                    name = Some(key.clone());
                    let is_name = message.starts_with("unknown field");
                    at = if is_name { field.at.clone() } else { field.value.at.clone() };
                    here = &field.value;
                    continue;
                }
                None => None,
            },
            Segment::Unknown => None,
        };
        let Some(next) = next else { break };
        (at, here) = (next.at.clone(), next);
    }
    // serde says of some types which word it is without a path to it; so do those that are read from a text.
    let word = message.split('`').nth(1).filter(|_| message.starts_with("unknown ") || message.starts_with('`'));
    let place = word.and_then(|word| here.place_of(word));
    (place.unwrap_or(at), name)
}

/// Leaves out what a path leads to.
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
