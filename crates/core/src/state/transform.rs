//! `StateTransform`: a change of the state as data, for example in a graph or a document.
//!
//! [`StateTransform::problems`] finds the mistakes that do not depend on the state, when a graph is
//! checked. [`StateTransform::changes`] computes the changed keys from the state that a step sees.
//! The step then saves them like values that its code sets, so they are recorded with its outcome.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};

use agentflow_schema::template::{Placeholder, Template, TemplateError, part_of};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::key::{StateKey, StateOwner};
use super::reserved::is_reserved;
use super::saved::SavedByStep;
use super::state_codes;
use crate::value::Encoded;

/// Maximum size in bytes of a string that a template produces. A step cannot save more.
const LARGEST_TEXT: usize = super::saved::MOST_SAVED;

/// A key with its new value, or `None` if it is removed.
type Change = (String, Option<Encoded>);

/// An error: the key or the operation that is wrong, and the problem.
type Wrong = (String, Diagnostic);

/// A change of the state as data. Several changes are applied in order, each to the result of the
/// previous one. [`Context::transform`](crate::Context::transform) applies them in a step,
/// [`GraphBody::Transform`](crate::workflow::GraphBody::Transform) in a node of a graph.
///
/// Keys are written as text, such as `tone` or `user:name`. A key without a value is skipped. In
/// the text of a template it is an error.
///
/// ```
/// use agentflow::state::StateTransform;
///
/// let read: Vec<StateTransform> = serde_json::from_str(
///     r#"[{"pick": ["draft", "notes"]}, {"rename": {"draft": "text"}}, {"default": {"tone": "dry"}}]"#,
/// )
/// .unwrap();
/// assert_eq!(
///     read,
///     [
///         StateTransform::pick(["draft", "notes"]),
///         StateTransform::rename([("draft", "text")]),
///         StateTransform::default_value("tone", "dry"),
///     ]
/// );
/// assert!(StateTransform::map("letter", "Dear {name").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "snake_case",
    expecting = "a change of the state, such as {\"drop\": [\"draft\"]}"
)]
#[non_exhaustive]
#[doc(alias = "TransformSemantics")]
pub enum StateTransform {
    /// Keeps these session keys and removes all other session keys. `user:`, `app:` and `temp:`
    /// keys are not changed.
    Pick(BTreeSet<String>),
    /// Removes these keys, of any owner.
    Drop(BTreeSet<String>),
    /// Combines several values into one.
    Merge(StateMerge),
    /// Moves values to other keys: `{"draft": "text"}` moves `draft` to `text` and replaces the
    /// value of `text`. All moves happen at once, so two keys can be swapped.
    Rename(BTreeMap<String, String>),
    /// Sets keys that have no value. A key with the value `null` is not changed.
    Default(BTreeMap<String, Value>),
    /// Sets each key to the text of a template, which reads the state before this change:
    /// `{"city": "{order.address.city}", "greeting": "Dear {user:name}"}`. If the text consists of
    /// a single placeholder, the key is set to the value itself. A missing value is an error unless
    /// its placeholder is optional. A key whose text is a single optional placeholder without a
    /// value is not changed.
    Map(BTreeMap<String, Template>),
}

/// The values to combine, and the key of the result.
///
/// Texts are joined, lists are concatenated, and the fields of objects are united, where later
/// sources replace fields of earlier ones. A single value is copied unchanged. Values of a
/// different kind or of different kinds are an error that names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a merge, such as {\"sources\": [\"law\", \"market\"], \"into\": \"notes\"}"
)]
#[non_exhaustive]
pub struct StateMerge {
    /// Keys of the values, in order. They are not changed.
    pub sources: Vec<String>,
    /// Key of the result. It is not changed if no source has a value.
    pub into: String,
    /// Separator between two strings. Default: a line break.
    #[serde(default = "line_break", skip_serializing_if = "is_line_break")]
    pub separator: String,
}

fn line_break() -> String {
    "\n".to_owned()
}

fn is_line_break(separator: &str) -> bool {
    separator == "\n"
}

fn owned<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> BTreeSet<String> {
    keys.into_iter().map(Into::into).collect()
}

impl StateTransform {
    /// Keeps these session keys and removes the others.
    pub fn pick<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self::Pick(owned(keys))
    }

    /// Removes these keys.
    pub fn drop<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self::Drop(owned(keys))
    }

    /// Combines several values into one. Texts are joined with a line break.
    pub fn merge<K: Into<String>>(
        sources: impl IntoIterator<Item = K>,
        into: impl Into<String>,
    ) -> Self {
        let sources = sources.into_iter().map(Into::into).collect();
        Self::Merge(StateMerge { sources, into: into.into(), separator: line_break() })
    }

    /// Combines several values into one. Texts are joined with a separator.
    pub fn merge_with<K: Into<String>>(
        sources: impl IntoIterator<Item = K>,
        into: impl Into<String>,
        separator: impl Into<String>,
    ) -> Self {
        let sources = sources.into_iter().map(Into::into).collect();
        Self::Merge(StateMerge { sources, into: into.into(), separator: separator.into() })
    }

    /// Moves values from the first key of each pair to the second.
    pub fn rename<F: Into<String>, T: Into<String>>(
        keys: impl IntoIterator<Item = (F, T)>,
    ) -> Self {
        Self::Rename(keys.into_iter().map(|(from, to)| (from.into(), to.into())).collect())
    }

    /// Sets a key if it has no value.
    #[doc(alias = "default")]
    pub fn default_value(key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::Default(BTreeMap::from([(key.into(), value.into())]))
    }

    /// Sets a key to the text of a [`Template`] over the state, such as `Dear {user:name}`. Use
    /// [`Map`](Self::Map) for a parsed template.
    ///
    /// # Errors
    /// If the text is not a valid template, for example because of a mistyped placeholder.
    pub fn map(key: impl Into<String>, text: impl AsRef<str>) -> Result<Self, TemplateError> {
        Ok(Self::Map(BTreeMap::from([(key.into(), text.as_ref().parse()?)])))
    }

    /// Returns the keys that it may set or remove, or `None` if that can be any session key.
    pub fn affected_keys(&self) -> Option<BTreeSet<&str>> {
        Some(match self {
            Self::Pick(_) => return None,
            Self::Drop(keys) => keys.iter().map(String::as_str).collect(),
            Self::Merge(merge) => BTreeSet::from([merge.into.as_str()]),
            Self::Rename(keys) => {
                keys.iter().flat_map(|(from, to)| [from.as_str(), to.as_str()]).collect()
            }
            Self::Default(values) => values.keys().map(String::as_str).collect(),
            Self::Map(texts) => texts.keys().map(String::as_str).collect(),
        })
    }

    /// Returns the keys that it may set.
    #[cfg_attr(
        not(feature = "dynamic"),
        allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
    )]
    pub(crate) fn set_keys(&self) -> Vec<&str> {
        match self {
            Self::Pick(_) | Self::Drop(_) => Vec::new(),
            Self::Rename(keys) => keys.values().map(String::as_str).collect(),
            other => other.affected_keys().into_iter().flatten().collect(),
        }
    }

    /// Returns the placeholders of its templates, each with the state key that it reads.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&str, &Placeholder)> {
        let texts = match self {
            Self::Map(texts) => Some(texts.values()),
            _ => None,
        };
        texts
            .into_iter()
            .flatten()
            .flat_map(Template::placeholders)
            .map(|placeholder| (root(placeholder).0, placeholder))
    }

    /// Returns the keys that it reads.
    fn reads(&self) -> Vec<&str> {
        match self {
            Self::Pick(_) | Self::Drop(_) => Vec::new(),
            Self::Merge(merge) => merge.sources.iter().map(String::as_str).collect(),
            Self::Rename(keys) => keys.keys().map(String::as_str).collect(),
            Self::Default(values) => values.keys().map(String::as_str).collect(),
            Self::Map(_) => self.placeholders().map(|(key, _)| key).collect(),
        }
    }

    /// Returns the keys that transforms read and whose values outlive the run.
    pub(crate) fn lasting_keys(transforms: &[Self]) -> Vec<String> {
        let keys = transforms.iter().flat_map(Self::reads);
        let lasting: BTreeSet<&str> =
            keys.filter(|key| StateOwner::split(key).0.outlives_runs()).collect();
        lasting.into_iter().map(str::to_owned).collect()
    }

    /// Returns the problems that do not depend on the state.
    pub(crate) fn problems(&self) -> Vec<Diagnostic> {
        let mut named: Vec<&str> =
            self.affected_keys().into_iter().flatten().chain(self.reads()).collect();
        if let Self::Pick(keys) = self {
            named.extend(keys.iter().map(String::as_str));
        }
        let named: BTreeSet<&str> = named.into_iter().collect();
        let mut problems = Vec::new();
        for key in named {
            problems.extend(invalid_key(key));
        }
        match self {
            Self::Pick(keys) => {
                let others =
                    keys.iter().filter(|key| StateOwner::split(key).0 != StateOwner::Session);
                problems.extend(
                    others.map(|key| {
                        Diagnostic::new(state_codes::PICK_OF_LASTING_KEY).name("key", key)
                    }),
                );
            }
            Self::Merge(merge) if merge.sources.is_empty() => {
                problems
                    .push(Diagnostic::new(state_codes::MERGE_OF_NOTHING).name("key", &merge.into));
            }
            Self::Rename(keys) => {
                let mut seen = BTreeSet::new();
                let twice = keys.values().filter(|to| !seen.insert(*to));
                problems.extend(
                    twice.map(|to| Diagnostic::new(state_codes::RENAMED_TWICE).name("key", to)),
                );
            }
            _ => {}
        }
        problems
    }

    /// Computes the changes of a state: each key with its new value, or `None` if it is removed.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn changes(
        transforms: &[Self],
        mut state: SavedByStep,
    ) -> Result<BTreeMap<String, Option<Encoded>>, Wrong> {
        let mut all = BTreeMap::new();
        for transform in transforms {
            if let Some(problem) = transform.problems().into_iter().next() {
                return Err((transform.word().to_owned(), problem));
            }
            for (key, value) in transform.changes_of(&state)? {
                state.change(&key, value.clone());
                all.insert(key, value);
            }
        }
        Ok(all)
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Pick(_) => "pick",
            Self::Drop(_) => "drop",
            Self::Merge(_) => "merge",
            Self::Rename(_) => "rename",
            Self::Default(_) => "default",
            Self::Map(_) => "map",
        }
    }

    fn changes_of(&self, state: &SavedByStep) -> Result<Vec<Change>, Wrong> {
        let value = |key: &str| state.get(key).flatten();
        Ok(match self {
            Self::Pick(keys) => {
                let is_dropped = |key: &str| {
                    // Reserved keys belong to the runtime and are never removed.
                    StateOwner::split(key).0 == StateOwner::Session
                        && !is_reserved(key)
                        && !keys.contains(key)
                };
                let there =
                    state.changes().filter(|(key, value)| value.is_some() && is_dropped(key));
                there.map(|(key, _)| (key.to_owned(), None)).collect()
            }
            Self::Drop(keys) => keys.iter().map(|key| (key.clone(), None)).collect(),
            Self::Merge(merge) => {
                match merge.merged(value).map_err(|problem| (merge.into.clone(), problem))? {
                    Some(merged) => vec![(merge.into.clone(), Some(merged))],
                    None => Vec::new(),
                }
            }
            Self::Rename(keys) => {
                // All values are read before a key is removed, so that two keys can be swapped.
                let there: Vec<_> = keys
                    .iter()
                    .filter_map(|(from, to)| Some((from, to, value(from)?.clone())))
                    .collect();
                let gone = there.iter().map(|(from, ..)| ((*from).clone(), None));
                gone.chain(there.iter().map(|(_, to, value)| ((*to).clone(), Some(value.clone()))))
                    .collect()
            }
            Self::Default(values) => {
                let missing = values.iter().filter(|(key, _)| value(key).is_none());
                let made =
                    missing.map(|(key, value)| Ok((key.clone(), Some(encoded(key, value)?))));
                made.collect::<Result<_, Wrong>>()?
            }
            Self::Map(texts) => {
                let mut made = Vec::new();
                for (key, text) in texts {
                    let text = filled(text, value).map_err(|problem| (key.clone(), problem))?;
                    if let Some(text) = text {
                        made.push((key.clone(), Some(encoded(key, &text)?)));
                    }
                }
                made
            }
        })
    }
}

/// A single change where a list is accepted.
impl AsRef<[Self]> for StateTransform {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}

/// Parameter of [`Context::transform`](crate::Context::transform): a [`StateTransform`] or a list
/// of them.
#[diagnostic::on_unimplemented(
    message = "this is neither a change of the state nor a list of them",
    label = "give a `StateTransform`, or a list of them as in `[StateTransform::drop([\"draft\"])]`",
    note = "`StateTransform::map(key, text)` reads its text, which can be mistyped: add `?` after it"
)]
pub trait StateTransforms {
    #[doc(hidden)]
    fn into_transforms(self) -> Vec<StateTransform>;
}

#[diagnostic::do_not_recommend]
impl<T: AsRef<[StateTransform]>> StateTransforms for T {
    fn into_transforms(self) -> Vec<StateTransform> {
        self.as_ref().to_vec()
    }
}

impl StateMerge {
    fn merged<'v>(
        &self,
        value: impl Fn(&str) -> Option<&'v Encoded>,
    ) -> Result<Option<Encoded>, Diagnostic> {
        let there: Vec<(&str, &Encoded)> =
            self.sources.iter().filter_map(|key| Some((key.as_str(), value(key)?))).collect();
        // A single value is copied, so its kind does not matter.
        if let [] | [_] = there.as_slice() {
            return Ok(there.first().map(|(_, value)| (*value).clone()));
        }
        let read = |(key, value): &(&str, &Encoded)| decoded(key, value);
        let values = there.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let merged = if let Some(texts) =
            values.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
        {
            Value::String(texts.join(&self.separator))
        } else if let Some(lists) = values.iter().map(Value::as_array).collect::<Option<Vec<_>>>() {
            Value::Array(lists.into_iter().flatten().cloned().collect())
        } else if let Some(objects) =
            values.iter().map(Value::as_object).collect::<Option<Vec<_>>>()
        {
            let fields =
                objects.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
            Value::Object(fields.collect::<Map<_, _>>())
        } else {
            let kinds = there
                .iter()
                .zip(&values)
                .map(|((key, _), value)| format!("`{key}` is {}", kind(value)));
            let found = Diagnostic::new(state_codes::UNMERGEABLE).names("keys", &self.sources);
            return Err(found.text("kinds", kinds.collect::<Vec<_>>().join(", ")));
        };
        encoded(&self.into, &merged).map(Some).map_err(|(_, problem)| problem)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn encoded(key: &str, value: &Value) -> Result<Encoded, Wrong> {
    Encoded::new(value).map_err(|error| {
        (key.to_owned(), Diagnostic::new(state_codes::NO_JSON_FORM).text("problem", error))
    })
}

fn decoded(key: &str, value: &Encoded) -> Result<Value, Diagnostic> {
    value.decode().map_err(|error| {
        Diagnostic::new(state_codes::NOT_JSON).name("key", key).text("problem", error)
    })
}

/// Returns the problem of a text that is not the name of a key.
pub(crate) fn invalid_key(key: &str) -> Option<Diagnostic> {
    key.parse::<StateKey<Value>>().err()?;
    Some(Diagnostic::new(state_codes::INVALID_KEY).name("key", key))
}

/// Returns the state key of a placeholder, and the path within its value.
fn root(placeholder: &Placeholder) -> (&str, &[String]) {
    match placeholder.parts() {
        [of, key, rest @ ..] if of == "state" => (key, rest),
        [key, rest @ ..] => (key, rest),
        // A placeholder has at least one part.
        [] => ("", &[]),
    }
}

/// Fills a template. Returns `None` if it is a single optional placeholder without a value.
fn filled<'v>(
    text: &Template,
    value: impl Fn(&str) -> Option<&'v Encoded>,
) -> Result<Option<Value>, Diagnostic> {
    let mut is_missing = false;
    let filled = text.filled(LARGEST_TEXT, |placeholder| {
        let (key, parts) = root(placeholder);
        let whole = value(key).map(|value| decoded(key, value)).transpose()?;
        match whole.as_ref().map(|whole| part_of(whole, parts).cloned()) {
            Some(Some(part)) => Ok(Some(part)),
            _ if placeholder.is_optional() => {
                is_missing = true;
                Ok(None)
            }
            Some(None) => {
                let found = Diagnostic::new(state_codes::VALUE_HAS_NO_PART).name("key", key);
                Err(found.source("path", parts.join(".")))
            }
            None => {
                let found = Diagnostic::new(state_codes::NO_KEY).name("key", key);
                Err(found.text("word", key))
            }
        }
    });
    let filled = filled.map_err(Diagnostic::from)?;
    Ok((!is_missing || text.only().is_none()).then_some(filled))
}

#[cfg(test)]
mod tests;
