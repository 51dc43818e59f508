//! `Definition`: what identifies a version of a workflow or an agent, part by part, so that two versions can be compared
//! and the difference has a name. It knows no plan and no run: whoever describes one adds its parts.

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

/// A version of a workflow or an agent as the hashes of its parts: SHA-256 of each part's canonical JSON.
///
/// Two are the same when their [`id`](Self::id)s are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Definition {
    /// The hashes by what they are of, such as `tool refund` or `node price`, and by the aspect of it, such as
    /// `parameters`. A toolset whose tools were not known has no aspects.
    pub parts: BTreeMap<String, BTreeMap<String, Arc<str>>>,
}

/// What a part of a definition is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartOf {
    Agent,
    Node,
    Tool,
    /// A toolset whose tools were not known. It has no aspects.
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

    /// In a sentence, of something that was named.
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

    /// Whether a journal of one version means the same to the other one.
    fn is_compatible(self, kind: &str) -> bool {
        match self {
            Self::Description | Self::Instructions | Self::Limits | Self::Model => true,
            Self::Settings | Self::Targets => true,
            // That of a node says what it waits for.
            Self::Policy => kind == PartOf::Tool.word(),
            Self::Output | Self::Parameters | Self::Plan => false,
        }
    }
}

/// One difference between two versions of a workflow or an agent. Shown, it is a phrase such as ``the tool `refund`: the
/// schema of its parameters``.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// What differs: `agent`, `node`, `tool` or `workflow`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What of it differs, such as `parameters`; empty when all of it is new or gone.
    pub aspect: String,
    /// Whether it is only in the one version.
    pub presence: Presence,
    /// Whether a run of the one version can be continued by the other one: its journal means the same to both. So it is
    /// with an agent's instructions, model and limits, with a tool's description and policy, and with what is new.
    pub compatible: bool,
}

/// In which of two versions a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Presence {
    /// In both, and it differs.
    Changed,
    /// In the newer one only.
    New,
    /// In the older one only.
    Gone,
}

impl Definition {
    /// Adds an aspect of a part.
    pub(crate) fn add(&mut self, of: PartOf, name: &str, aspect: Aspect, what: &impl Serialize) {
        let aspects = self.parts.entry(format!("{} {name}", of.word())).or_default();
        aspects.insert(aspect.word().to_owned(), hash_of(what));
    }

    /// Adds a tool. Titles and descriptions in its schema are part of its description.
    pub(crate) fn add_tool(&mut self, tool: &ToolDefinition) {
        let aspects = tool.aspects.get_or_init(|| {
            let mut parameters = tool.parameters.clone();
            without_notes(&mut parameters);
            let mut notes = vec![&*tool.description];
            notes_of(&tool.parameters, &mut notes);
            let of = |aspect: Aspect, hash| (aspect.word().to_owned(), hash);
            BTreeMap::from([
                of(Aspect::Parameters, hash_of(&parameters)),
                of(Aspect::Description, hash_of(&notes)),
                of(Aspect::Policy, hash_of(&tool.policy.hashed_form())),
            ])
        });
        let part = self.parts.entry(format!("{} {}", PartOf::Tool.word(), tool.name)).or_default();
        part.extend(aspects.iter().map(|(aspect, hash)| (aspect.clone(), Arc::clone(hash))));
    }

    /// Records that the tools of a toolset were not known.
    #[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "only graphs name toolsets"))]
    pub(crate) fn add_unknown_toolset(&mut self, name: &str) {
        self.parts.entry(format!("{} {name}", PartOf::Toolset.word())).or_default();
    }

    /// Returns the names of the toolsets whose tools were not known.
    pub(crate) fn unknown_toolsets(&self) -> impl Iterator<Item = &str> {
        let parts = self.parts.keys().filter_map(|part| part.split_once(' '));
        parts.filter(|(kind, _)| *kind == PartOf::Toolset.word()).map(|(_, name)| name)
    }

    /// What identifies the whole: 64 hexadecimal digits.
    pub fn id(&self) -> Arc<str> {
        hash_of(&self.parts)
    }

    /// What a newer version has otherwise than this one, by kind and name. Aspects that this release does not know are
    /// passed over.
    pub fn differences(&self, newer: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        let names: std::collections::BTreeSet<&String> = self.parts.keys().chain(newer.parts.keys()).collect();
        for part in names {
            let Some((kind, name)) = part.split_once(' ') else { continue };
            // Which tools were known is no difference by itself: the nodes that call them differ.
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
                    let differs = |aspect: &&Aspect| match (old.get(aspect.word()), new.get(aspect.word())) {
                        (Some(old), Some(new)) => old != new,
                        // A release that did not record it says nothing about it.
                        _ => false,
                    };
                    let changed = Aspect::ALL.iter().filter(differs);
                    all.extend(changed.map(|of| difference(of.word(), Presence::Changed, of.is_compatible(kind))));
                }
                (Some(_), None) => all.push(difference("", Presence::Gone, false)),
                // What is new in a plan changes the plan, which says so itself.
                (None, _) => all.push(difference("", Presence::New, true)),
            }
        }
        all
    }
}

/// The SHA-256 of a value's canonical JSON.
pub(crate) fn hash_of(value: &impl Serialize) -> Arc<str> {
    let mut text = String::new();
    canonical(&serde_json::to_value(value).unwrap_or_default(), &mut text);
    sha256(text.as_bytes()).into()
}

/// A definition that its owner has computed once.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) definition: Definition,
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
                write!(f, ": {}", known.map_or(self.aspect.as_str(), |aspect| aspect.phrase(&self.kind)))
            }
        }
    }
}

/// Takes titles and descriptions out of a schema, where they are keywords: a property may be called so.
pub(crate) fn without_notes(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    keywords.remove("title");
    keywords.remove("description");
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

/// The titles and descriptions in a schema.
fn notes_of<'s>(schema: &'s Value, notes: &mut Vec<&'s str>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(note) if key == "title" || key == "description" => notes.push(note),
                    value => notes_of(value, notes),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| notes_of(value, notes)),
        _ => {}
    }
}

/// Writes JSON in the one form that equal values have: keys in the order of their bytes, no spaces.
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
        let other = tool(&json!({"a": 1, "b": [{"x": null, "y": 2.5}, 1]}), "Pays back what was paid.");
        assert_ne!(one.id(), other.id());
        let shown: Vec<String> = one.differences(&other).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["the tool `refund`: its description", "the tool `refund`: the schema of its parameters"]);
        let compatible: Vec<bool> = one.differences(&other).iter().map(|one| one.compatible).collect();
        assert_eq!(compatible, [true, false]);
    }

    #[test]
    fn what_is_new_is_compatible_and_what_is_gone_is_not() {
        let (none, one) = (Definition::default(), tool(&json!({}), ""));
        let said = |from: &Definition, to: &Definition| {
            from.differences(to).iter().map(|one| (one.to_string(), one.compatible)).collect::<Vec<_>>()
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
