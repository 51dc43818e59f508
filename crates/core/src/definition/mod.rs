//! The identity of a version of a workflow or an agent.
//!
//! A [`Definition`] consists of hashes of the parts of a workflow or an agent: its nodes, agents,
//! tools and the workflow itself, each with several aspects such as parameters or policy.
//! `Definition::differences` compares two versions and returns a [`Difference`] for each changed
//! part. [`Changes`] is the rule by which a runtime accepts differences when it resumes a run.
//!
//! The module does not depend on agents, workflows or runs. Their modules add the parts to a
//! definition. The hash of all parts is recorded in the journal when a run starts.

mod accepted_changes;
pub(crate) mod sha256;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::accepted_changes::Changes;
pub(crate) use self::sha256::sha256;
use crate::tool_definition::ToolDefinition;

/// A version of a workflow or an agent, as the hashes of its parts: SHA-256 of the canonical JSON
/// of each part.
///
/// Two versions are equal if their [`id`](Self::id)s are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Definition {
    /// Hashes by part, such as `tool refund` or `node price`, and by aspect, such as `parameters`.
    /// A toolset whose tools were unknown has no aspects.
    pub parts: BTreeMap<String, BTreeMap<String, Arc<str>>>,
}

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartOf {
    Agent,
    Node,
    Tool,
    /// A toolset whose tools were unknown. It has no aspects.
    Toolset,
    Workflow,
}

impl PartOf {
    fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Node => "node",
            Self::Tool => "tool",
            Self::Toolset => "toolset",
            Self::Workflow => "workflow",
        }
    }
}

/// An aspect of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aspect {
    Description,
    Instructions,
    Limits,
    Model,
    Output,
    Parameters,
    Plan,
    Policy,
    Settings,
    Targets,
}

impl Aspect {
    const ALL: [Self; 10] = [
        Self::Description,
        Self::Instructions,
        Self::Limits,
        Self::Model,
        Self::Output,
        Self::Parameters,
        Self::Plan,
        Self::Policy,
        Self::Settings,
        Self::Targets,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::Instructions => "instructions",
            Self::Limits => "limits",
            Self::Model => "model",
            Self::Output => "output",
            Self::Parameters => "parameters",
            Self::Plan => "plan",
            Self::Policy => "policy",
            Self::Settings => "settings",
            Self::Targets => "targets",
        }
    }

    /// Returns the name under which the hash is stored. Earlier builds stored another hash of the
    /// plan as `plan`, which cannot be compared.
    fn key(self) -> &'static str {
        match self {
            Self::Plan => "plan_sha256",
            other => other.word(),
        }
    }

    /// Returns a phrase for a message that has named the part.
    fn phrase(self, kind: &str) -> &'static str {
        match self {
            Self::Policy if kind == PartOf::Tool.word() => "its policy",
            Self::Description => "its description",
            Self::Instructions => "its instructions",
            Self::Limits => "its limits",
            Self::Model => "its model",
            Self::Output => "the schema of its answer",
            Self::Parameters => "the schema of its parameters",
            Self::Plan => "what it does",
            Self::Policy => "its policy, or what it waits for",
            Self::Settings => "the settings of its model calls",
            Self::Targets => "the agents that it may transfer to",
        }
    }

    /// `true` if a journal of one version has the same meaning for the other one.
    fn is_compatible(self, kind: &str) -> bool {
        match self {
            Self::Description | Self::Instructions | Self::Limits | Self::Model => true,
            Self::Settings | Self::Targets => true,
            // The policy of a node also contains the nodes that it waits for.
            Self::Policy => kind == PartOf::Tool.word(),
            Self::Output | Self::Parameters | Self::Plan => false,
        }
    }
}

/// A difference between two versions of a workflow or an agent. It is displayed as a phrase such as
/// ``the tool `refund`: the schema of its parameters``.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Kind of the part: `agent`, `node`, `tool` or `workflow`.
    pub kind: String,
    /// Name of the part.
    pub name: String,
    /// Aspect that differs, such as `parameters`. Empty if the whole part was added or removed.
    pub aspect: String,
    /// Presence of the part in the two versions.
    pub presence: Presence,
    /// `true` if a run of the older version can continue with the newer one, because the journal
    /// has the same meaning for both. This holds for an agent's instructions, model and limits, for
    /// a tool's description and policy, and for new parts.
    pub compatible: bool,
}

/// Presence of a part in two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Presence {
    /// In both versions, with a difference.
    Changed,
    /// Only in the newer version.
    New,
    /// Only in the older version.
    Gone,
}

impl Definition {
    /// Adds an aspect of a part.
    pub(crate) fn add(&mut self, of: PartOf, name: &str, aspect: Aspect, what: &impl Serialize) {
        let aspects = self.parts.entry(format!("{} {name}", of.word())).or_default();
        aspects.insert(aspect.key().to_owned(), hash_of(what));
    }

    /// Adds a tool. Titles and descriptions in its schema count as part of its description.
    pub(crate) fn add_tool(&mut self, tool: &ToolDefinition) {
        // Cached in the tool, since many agents share a tool.
        let aspects = tool.aspects.get_or_init(|| {
            let mut parameters = tool.parameters.clone();
            without_notes(&mut parameters);
            let mut notes = vec![&*tool.description];
            collect_descriptions(&tool.parameters, &mut notes);
            let of = |aspect: Aspect, hash| (aspect.key().to_owned(), hash);
            BTreeMap::from([
                of(Aspect::Parameters, hash_of(&parameters)),
                of(Aspect::Description, hash_of(&notes)),
                of(Aspect::Policy, hash_of(&tool.policy.hashed_form())),
            ])
        });
        let part = self.parts.entry(format!("{} {}", PartOf::Tool.word(), tool.name)).or_default();
        part.extend(aspects.iter().map(|(aspect, hash)| (aspect.clone(), Arc::clone(hash))));
    }

    /// Records that the tools of a toolset were unknown.
    #[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "only graphs name toolsets"))]
    pub(crate) fn add_unknown_toolset(&mut self, name: &str) {
        self.parts.entry(format!("{} {name}", PartOf::Toolset.word())).or_default();
    }

    /// Returns the names of the toolsets whose tools were unknown.
    pub(crate) fn unknown_toolsets(&self) -> impl Iterator<Item = &str> {
        let parts = self.parts.keys().filter_map(|part| part.split_once(' '));
        parts.filter(|(kind, _)| *kind == PartOf::Toolset.word()).map(|(_, name)| name)
    }

    /// Returns the hash over all parts: 64 hexadecimal digits.
    pub fn id(&self) -> Arc<str> {
        hash_of(&self.parts)
    }

    /// Returns the differences of a newer version, ordered by kind and name. Aspects that this
    /// release does not know are ignored.
    pub fn differences(&self, newer: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        let names: std::collections::BTreeSet<&String> =
            self.parts.keys().chain(newer.parts.keys()).collect();
        for part in names {
            let Some((kind, name)) = part.split_once(' ') else { continue };
            // An unknown toolset is not a difference: the nodes that call its tools differ.
            if kind == PartOf::Toolset.word() {
                continue;
            }
            let difference = |aspect: &str, presence, compatible| Difference {
                kind: kind.to_owned(),
                name: name.to_owned(),
                aspect: aspect.to_owned(),
                presence,
                compatible,
            };
            match (self.parts.get(part), newer.parts.get(part)) {
                (Some(old), Some(new)) => {
                    let differs =
                        |aspect: &&Aspect| match (old.get(aspect.key()), new.get(aspect.key())) {
                            (Some(old), Some(new)) => old != new,
                            // An aspect that one of the releases did not record cannot be compared.
                            _ => false,
                        };
                    let changed = Aspect::ALL.iter().filter(differs);
                    all.extend(changed.map(|of| {
                        difference(of.word(), Presence::Changed, of.is_compatible(kind))
                    }));
                }
                (Some(_), None) => all.push(difference("", Presence::Gone, false)),
                // A new node also changes the plan of the workflow, which is a separate aspect.
                (None, _) => all.push(difference("", Presence::New, true)),
            }
        }
        all
    }
}

/// Returns the SHA-256 of a value's canonical JSON.
pub(crate) fn hash_of(value: &impl Serialize) -> Arc<str> {
    let mut text = String::new();
    canonical(&serde_json::to_value(value).unwrap_or_default(), &mut text);
    sha256(text.as_bytes()).into()
}

/// A definition with its id, computed once.
#[derive(Debug)]
#[doc(hidden)]
pub struct Known {
    /// The definition.
    pub definition: Definition,
    pub(crate) id: Arc<str>,
}

impl Known {
    pub(crate) fn new(definition: Definition) -> Arc<Self> {
        let id = definition.id();
        Arc::new(Self { definition, id })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} `{}`", self.kind, self.name)?;
        match self.presence {
            Presence::New => f.write_str(" is new"),
            Presence::Gone => f.write_str(" is gone"),
            Presence::Changed => {
                let known = Aspect::ALL.iter().find(|aspect| aspect.word() == self.aspect);
                write!(
                    f,
                    ": {}",
                    known.map_or(self.aspect.as_str(), |aspect| aspect.phrase(&self.kind))
                )
            }
        }
    }
}

/// Removes titles and descriptions from a schema. Only keywords are removed, not properties with
/// these names.
pub(crate) fn without_notes(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    keywords.remove("title");
    keywords.remove("description");
    // Only the values of these keywords are schemas. Others, such as `const` and `examples`, are
    // data.
    for (keyword, value) in keywords.iter_mut() {
        match (keyword.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(schemas),
            ) => schemas.values_mut().for_each(without_notes),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(without_notes);
            }
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contentSchema",
                schema,
            ) => without_notes(schema),
            _ => {}
        }
    }
}

/// Collects the titles and descriptions in a schema.
fn collect_descriptions<'s>(schema: &'s Value, notes: &mut Vec<&'s str>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(note) if key == "title" || key == "description" => {
                        notes.push(note);
                    }
                    value => collect_descriptions(value, notes),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect_descriptions(value, notes)),
        _ => {}
    }
}

/// Writes canonical JSON: keys ordered by their bytes, without spaces.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => {
            let sorted: BTreeMap<&String, &Value> = object.iter().collect();
            text.push('{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                canonical(value, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(parameters: &Value, description: &str) -> Definition {
        let mut definition = Definition::default();
        definition.add(PartOf::Tool, "refund", Aspect::Parameters, parameters);
        definition.add(PartOf::Tool, "refund", Aspect::Description, &description);
        definition
    }

    #[test]
    fn the_order_of_keys_does_not_count_and_everything_else_does() {
        let one = tool(&json!({"a": 1, "b": [1, {"x": null, "y": 2.5}]}), "Pays back.");
        let same = tool(&json!({"b": [1, {"y": 2.5, "x": null}], "a": 1}), "Pays back.");
        assert_eq!((one.id(), one.differences(&same)), (same.id(), Vec::new()));
        let other =
            tool(&json!({"a": 1, "b": [{"x": null, "y": 2.5}, 1]}), "Pays back what was paid.");
        assert_ne!(one.id(), other.id());
        let shown: Vec<String> = one.differences(&other).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "the tool `refund`: its description",
                "the tool `refund`: the schema of its parameters"
            ]
        );
        let compatible: Vec<bool> =
            one.differences(&other).iter().map(|one| one.compatible).collect();
        assert_eq!(compatible, [true, false]);
    }

    #[test]
    fn what_is_new_is_compatible_and_what_is_gone_is_not() {
        let (none, one) = (Definition::default(), tool(&json!({}), ""));
        let said = |from: &Definition, to: &Definition| {
            from.differences(to)
                .iter()
                .map(|one| (one.to_string(), one.compatible))
                .collect::<Vec<_>>()
        };
        assert_eq!(said(&none, &one), [("the tool `refund` is new".to_owned(), true)]);
        assert_eq!(said(&one, &none), [("the tool `refund` is gone".to_owned(), false)]);
    }

    #[test]
    fn an_aspect_of_another_release_is_passed_over() {
        let one = tool(&json!({}), "");
        let mut newer = one.clone();
        newer.parts.get_mut("tool refund").unwrap().insert("colour".to_owned(), "blue".into());
        assert_ne!(one.id(), newer.id());
        assert_eq!((one.differences(&newer), newer.differences(&one)), (Vec::new(), Vec::new()));
        let json = serde_json::to_string(&newer).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&json).unwrap(), newer);
    }
}
