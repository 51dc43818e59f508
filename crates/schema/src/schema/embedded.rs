//! Embeds a schema in another schema, and extracts a part of a schema as a separate schema.
//! References start at the root of a schema. So they are rewritten, and their targets are moved to
//! the new root. This module compares no values and validates no schemas.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The definitions of schemas that are combined into one schema. If two definitions have the same
/// name but differ, directly or in their references, the second one is renamed.
#[derive(Debug, Default)]
pub struct Definitions {
    all: Map<String, Value>,
    brought: Vec<Brought>,
}

/// The definitions of one embedded part.
#[derive(Debug)]
struct Brought {
    /// The original definitions to which the part refers, directly or indirectly.
    definitions: BTreeMap<DefinitionKey, Value>,
    /// Their names in the combined schema.
    names: BTreeMap<DefinitionKey, String>,
}

/// The place of a definition in its original schema: the keyword and the name. `None` is the root
/// schema.
type DefinitionKey = Option<(&'static str, String)>;

impl Definitions {
    /// Rewrites a schema as a part of the combined schema, and collects its definitions.
    pub fn embed(&mut self, schema: &Value) -> Value {
        let source = SourceSchema::new(schema);
        match source.reached(&source.root).contains(&None) {
            true => self.write(&serde_json::json!({"$ref": "#"}), &source),
            false => self.write(&source.root, &source),
        }
    }

    /// Rewrites a part of the schema `of` as a part of the combined schema. The references of the
    /// part start at the root of `of`.
    pub fn embed_part(&mut self, part: &Value, of: &Value) -> Value {
        self.write(part, &SourceSchema::new(of))
    }

    /// Adds the collected definitions to the combined schema.
    pub fn add_to(self, whole: &mut Value) {
        if let Some(keywords) = whole.as_object_mut().filter(|_| !self.all.is_empty()) {
            keywords.insert("$defs".to_owned(), Value::Object(self.all));
        }
    }

    fn write(&mut self, part: &Value, source: &SourceSchema<'_>) -> Value {
        let reached = source.reached(part);
        let shared: Vec<BTreeSet<&DefinitionKey>> =
            self.brought.iter().map(|before| before.shared(&reached, source)).collect();
        let mut names: BTreeMap<DefinitionKey, String> = BTreeMap::new();
        let mut new = Vec::new();
        for key in &reached {
            let same = self.brought.iter().zip(&shared).find(|(_, shared)| shared.contains(key));
            let name =
                same.and_then(|(before, _)| before.names.get(key).cloned()).unwrap_or_else(|| {
                    new.push(key);
                    self.free_name(&source.name(key), &names)
                });
            names.insert(key.clone(), name);
        }
        for key in &new {
            let definition = source.at(key).map(|definition| source.renamed(definition, &names));
            self.all.extend(names.get(*key).cloned().zip(definition));
        }
        let written = source.renamed(part, &names);
        if !new.is_empty() {
            let definitions = reached
                .iter()
                .filter_map(|key| Some((key.clone(), source.at(key)?.clone())))
                .collect();
            self.brought.push(Brought { definitions, names });
        }
        written
    }

    fn free_name(&self, name: &str, given: &BTreeMap<DefinitionKey, String>) -> String {
        let is_free = |name: &String| {
            !self.all.contains_key(name) && given.values().all(|given| given != name)
        };
        let numbered = (2_u32..).map(|number| format!("{name}{number}"));
        std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }
}

impl Brought {
    /// Returns the definitions of a schema that this part already has: equal definitions, all of
    /// whose references lead to equal definitions.
    fn shared<'k>(
        &self,
        reached: &'k BTreeSet<DefinitionKey>,
        source: &SourceSchema<'_>,
    ) -> BTreeSet<&'k DefinitionKey> {
        let is_here = |key: &&DefinitionKey| {
            self.definitions.get(*key).is_some_and(|of| source.at(key) == Some(of))
        };
        let mut shared: BTreeSet<&DefinitionKey> = reached.iter().filter(is_here).collect();
        if shared.len() == reached.len() {
            return shared;
        }
        // A definition also differs if its target differs. This propagates differences
        // backwards along the references.
        let mut referrers: BTreeMap<DefinitionKey, Vec<&DefinitionKey>> = BTreeMap::new();
        for key in &shared {
            let targets =
                source.at(key).map(|definition| source.targets(definition)).unwrap_or_default();
            targets.into_iter().for_each(|target| referrers.entry(target).or_default().push(key));
        }
        let mut differ: Vec<&DefinitionKey> =
            reached.iter().filter(|key| !shared.contains(key)).collect();
        while let Some(key) = differ.pop() {
            for referrer in referrers.remove(key).unwrap_or_default() {
                if shared.remove(referrer) {
                    differ.push(referrer);
                }
            }
        }
        shared
    }
}

/// Returns a part of a schema as a separate schema.
pub fn part_of(part: &Value, whole: &Value) -> Value {
    let mut refers = false;
    each_reference(part, &mut |_| refers = true);
    if !refers {
        return part.clone();
    }
    let mut definitions = Definitions::default();
    let mut part = definitions.embed_part(part, whole);
    definitions.add_to(&mut part);
    part
}

/// The keywords that contain definitions.
const GROUPS: [&str; 2] = ["$defs", "definitions"];

/// A schema whose references are resolved.
struct SourceSchema<'s> {
    whole: &'s Value,
    /// The schema without its definitions.
    root: Value,
}

impl<'s> SourceSchema<'s> {
    fn new(whole: &'s Value) -> Self {
        let mut root = whole.clone();
        if let Some(keywords) = root.as_object_mut() {
            // References are no longer relative to this id.
            keywords.remove("$id");
            for group in GROUPS {
                keywords.remove(group);
            }
        }
        Self { whole, root }
    }

    fn at(&self, key: &DefinitionKey) -> Option<&Value> {
        match key {
            None => Some(&self.root),
            Some((group, name)) => self.whole.get(group)?.get(name),
        }
    }

    /// Returns the definitions to which a part refers, directly or indirectly.
    fn reached(&self, part: &Value) -> BTreeSet<DefinitionKey> {
        let mut reached = BTreeSet::new();
        let mut open = vec![part];
        while let Some(part) = open.pop() {
            for key in self.targets(part) {
                if let (false, Some(definition)) = (reached.contains(&key), self.at(&key)) {
                    open.push(definition);
                    reached.insert(key);
                }
            }
        }
        reached
    }

    /// Returns the definitions to which a part refers directly.
    fn targets(&self, part: &Value) -> Vec<DefinitionKey> {
        let mut found = Vec::new();
        each_reference(part, &mut |reference| {
            found.extend(self.target(reference).map(|(key, _)| key));
        });
        found
    }

    /// Returns the definition to which a reference points, and the rest of the pointer within it.
    fn target<'r>(&self, reference: &'r str) -> Option<(DefinitionKey, &'r str)> {
        let id =
            self.whole.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
        let pointer = reference.strip_prefix(id).unwrap_or(reference).strip_prefix('#')?;
        let mut parts = pointer.splitn(4, '/');
        if let (Some(""), Some(group), Some(name)) = (parts.next(), parts.next(), parts.next())
            && let Some(group) = GROUPS.into_iter().find(|of| *of == group)
        {
            let key = Some((group, read(name)));
            let way = parts.next().map_or(0, |way| way.len() + 1);
            return self.at(&key).is_some().then(|| (key, &pointer[pointer.len() - way..]));
        }
        // A named anchor is not a pointer. It remains valid, because it moves together with the
        // part.
        self.root.pointer(&decoded(pointer)).map(|_| (None, pointer))
    }

    /// Returns the preferred name of a definition in the combined schema.
    fn name(&self, key: &DefinitionKey) -> String {
        let name = match key {
            Some((_, name)) => Some(name.as_str()),
            None => self.root.get("title").and_then(Value::as_str),
        };
        // Other characters would have to be escaped in references.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&c);
        let name = name.unwrap_or("Root").replace(|c: char| !is_plain(c), "_");
        if name.is_empty() { "Root".to_owned() } else { name }
    }

    fn renamed(&self, schema: &Value, names: &BTreeMap<DefinitionKey, String>) -> Value {
        let mut schema = schema.clone();
        each_reference_mut(&mut schema, &mut |reference| {
            let new = self
                .target(reference)
                .and_then(|(key, way)| names.get(&key).map(|name| format!("#/$defs/{name}{way}")));
            if let Some(new) = new {
                *reference = new;
            }
        });
        schema
    }
}

/// Decodes a name in a reference.
fn read(name: &str) -> String {
    decoded(name).replace("~1", "/").replace("~0", "~")
}

/// Decodes percent-encoded bytes: `%20` is a space.
fn decoded(reference: &str) -> String {
    let mut bytes = Vec::with_capacity(reference.len());
    let mut rest = reference.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        let (byte, after) = match (first, code) {
            (b'%', Some(code)) => (code, &after[2..]),
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Keywords that contain plain values instead of schemas.
const VALUES: [&str; 4] = ["const", "enum", "default", "examples"];
/// Keywords that contain an object of named schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// Returns true if a schema has an `$id`, so that its references start at its own root.
fn has_own_root(keywords: &Map<String, Value>) -> bool {
    keywords.get("$id").is_some_and(Value::is_string)
}

fn each_reference<'s>(schema: &'s Value, visit: &mut dyn FnMut(&'s str)) {
    match schema {
        Value::Array(all) => all.iter().for_each(|schema| each_reference(schema, visit)),
        Value::Object(keywords) if !has_own_root(keywords) => {
            for (keyword, of) in keywords {
                match (keyword.as_str(), of) {
                    ("$ref", Value::String(reference)) => visit(reference),
                    (keyword, _) if VALUES.contains(&keyword) => {}
                    (keyword, Value::Object(named)) if NAMED.contains(&keyword) => {
                        named.values().for_each(|schema| each_reference(schema, visit));
                    }
                    (_, schema) => each_reference(schema, visit),
                }
            }
        }
        _ => {}
    }
}

fn each_reference_mut(schema: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|schema| each_reference_mut(schema, visit)),
        Value::Object(keywords) if !has_own_root(keywords) => {
            for (keyword, of) in keywords {
                match (keyword.as_str(), of) {
                    ("$ref", Value::String(reference)) => visit(reference),
                    (keyword, _) if VALUES.contains(&keyword) => {}
                    (keyword, Value::Object(named)) if NAMED.contains(&keyword) => {
                        named.values_mut().for_each(|schema| each_reference_mut(schema, visit));
                    }
                    (_, schema) => each_reference_mut(schema, visit),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn in_one(schemas: &[Value]) -> Value {
        let mut definitions = Definitions::default();
        let all: Vec<Value> = schemas.iter().map(|schema| definitions.embed(schema)).collect();
        let mut whole = json!({"prefixItems": all});
        definitions.add_to(&mut whole);
        whole
    }

    #[test]
    fn a_schema_that_refers_to_itself_becomes_a_definition() {
        let chain = json!({"title": "Chain", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
        assert_eq!(
            in_one(&[chain.clone(), chain, json!({"type": "string"})]),
            json!({
                "prefixItems": [{"$ref": "#/$defs/Chain"}, {"$ref": "#/$defs/Chain"}, {"type": "string"}],
                "$defs": {"Chain": {
                    "title": "Chain",
                    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Chain"}, {"type": "null"}]}}
                }},
            })
        );
    }

    #[test]
    fn definitions_of_one_name_stay_apart_when_what_they_refer_to_differs() {
        let of = |kind: &str| {
            json!({"$ref": "#/$defs/Note", "$defs": {
                "Note": {"items": {"$ref": "#/$defs/Word"}}, "Word": {"type": kind}, "Unused": {}
            }})
        };
        assert_eq!(
            in_one(&[of("string"), of("number"), of("string")]),
            json!({
                "prefixItems": [{"$ref": "#/$defs/Note"}, {"$ref": "#/$defs/Note2"}, {"$ref": "#/$defs/Note"}],
                "$defs": {
                    "Note": {"items": {"$ref": "#/$defs/Word"}}, "Word": {"type": "string"},
                    "Note2": {"items": {"$ref": "#/$defs/Word2"}}, "Word2": {"type": "number"},
                },
            })
        );
    }

    #[test]
    fn references_of_every_form_are_followed() {
        let schema = json!({
            "$id": "urn:shapes", "title": "A shape/1",
            "properties": {
                "a": {"$ref": "#/definitions/odd%20name~1x/items"}, "b": {"$ref": "#/properties/a"},
                "c": {"$ref": "urn:shapes#/definitions/plain"}, "d": {"$ref": "#anchor", "$anchor": "anchor"},
                "$ref": {"const": {"$ref": "#/definitions/plain"}}, "e": {"$id": "urn:own", "$ref": "#"},
                "f": {"$ref": "#/$defs/nowhere"}
            },
            "definitions": {"odd name/x": {"items": {"type": "string"}}, "plain": {"type": "null"}}
        });
        assert_eq!(
            in_one(&[schema]),
            json!({
                "prefixItems": [{"$ref": "#/$defs/A_shape_1"}],
                "$defs": {
                    "A_shape_1": {"title": "A shape/1", "properties": {
                        "a": {"$ref": "#/$defs/odd_name_x/items"}, "b": {"$ref": "#/$defs/A_shape_1/properties/a"},
                        "c": {"$ref": "#/$defs/plain"}, "d": {"$ref": "#anchor", "$anchor": "anchor"},
                        "$ref": {"const": {"$ref": "#/definitions/plain"}}, "e": {"$id": "urn:own", "$ref": "#"},
                        "f": {"$ref": "#/$defs/nowhere"}
                    }},
                    "odd_name_x": {"items": {"type": "string"}}, "plain": {"type": "null"}
                },
            })
        );
    }

    #[test]
    fn a_part_takes_along_what_it_refers_to() {
        let whole = json!({
            "title": "Tree", "properties": {"left": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/Leaf"}]}, "n": {"type": "integer"}},
            "$defs": {"Leaf": {"type": "string"}, "Other": {}}
        });
        assert_eq!(part_of(&whole["properties"]["n"], &whole), json!({"type": "integer"}));
        let left = part_of(&whole["properties"]["left"], &whole);
        assert_eq!(left["anyOf"], json!([{"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Leaf"}]));
        assert_eq!(left["$defs"]["Tree"]["properties"]["left"], whole_left(&left));
        assert_eq!(left["$defs"].as_object().map(Map::len), Some(2));
    }

    fn whole_left(left: &Value) -> Value {
        json!({"anyOf": left["anyOf"].clone()})
    }
}
