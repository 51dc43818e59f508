//! Proves that every value of one schema is a value of another. A failed proof proves nothing.
//!
//! The facts about a value are a list of schemas that all apply to it. The proof splits the
//! alternatives in these schemas into cases, until each case has a single type. Then each keyword
//! of the other schema must follow from the facts. Types, fields, items, values, references and
//! alternatives are compared. A limit, such as `minimum`, follows only from the same limit.

use std::borrow::Cow;

use serde_json::Value;

use super::accepts::Validator;
use super::schema_at::{ANY, At, Type, is_checked_format};

/// Maximum number of comparisons of one proof.
const STEPS: u32 = 20_000;
/// Maximum nesting of comparisons, because they use the stack.
const NESTED: u32 = 200;

/// Keywords that limit a number.
const NUMBER_LIMITS: [&str; 5] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Keywords that limit a string.
const TEXT_LIMITS: [&str; 4] = ["minLength", "maxLength", "pattern", "format"];
/// Keywords that limit a list, besides the schemas of its items.
const LIST_LIMITS: [&str; 3] = ["minItems", "maxItems", "uniqueItems"];
/// Keywords that limit an object, besides the schemas of its fields.
const OBJECT_LIMITS: [&str; 6] = [
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
];

/// A schema that applies to the value. The alternatives of its keywords in `done` are already
/// chosen.
#[derive(Clone)]
struct KnownSchema<'s> {
    at: At<'s>,
    /// Keywords that have been split already.
    done: Vec<&'static str>,
}

/// All facts about the value.
type Facts<'s> = Vec<KnownSchema<'s>>;

pub(super) struct AssignabilityProof {
    left: u32,
    /// Current nesting of comparisons.
    nested: u32,
    /// Number of enclosing values that the proof has entered.
    depth: u32,
    /// Pairs of schemas that are being proved, each with the depth at which its proof started. If a
    /// pair occurs again at a greater depth, it may be assumed: the inner value is smaller
    /// (induction).
    open: Vec<(usize, usize, u32)>,
    validator: Validator,
}

impl Default for AssignabilityProof {
    fn default() -> Self {
        Self { left: STEPS, nested: 0, depth: 0, open: Vec::new(), validator: Validator::default() }
    }
}

fn address(at: At<'_>) -> usize {
    std::ptr::from_ref(at.schema) as usize
}

fn facts_of(at: At<'_>) -> Facts<'_> {
    vec![KnownSchema { at, done: Vec::new() }]
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => {
            keywords.contains_key("$ref") || keywords.values().any(has_reference)
        }
        Value::Array(all) => all.iter().any(has_reference),
        _ => false,
    }
}

impl AssignabilityProof {
    pub(super) fn holds<'s>(mut self, from: At<'s>, to: At<'s>) -> bool {
        self.all_of(facts_of(from), to)
    }

    /// Performs a nested comparison. A comparison that is nested too deeply counts as not proved.
    fn nested(&mut self, compare: impl FnOnce(&mut Self) -> bool) -> bool {
        if self.left == 0 || self.nested >= NESTED {
            return false;
        }
        self.left -= 1;
        self.nested += 1;
        let holds = compare(self);
        self.nested -= 1;
        holds
    }

    /// Returns true if every value with these facts is a value of `to`.
    fn all_of<'s>(&mut self, facts: Facts<'s>, to: At<'s>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        match to.schema {
            Value::Bool(true) => return true,
            Value::Object(keywords) if keywords.is_empty() => return true,
            _ => {}
        }
        let [one] = facts.as_slice() else { return self.split(facts, to) };
        let pair = (address(one.at), address(to));
        if !one.done.is_empty() {
            return self.split(facts, to);
        }
        // The same pair at the same depth would be a circular argument. Only a smaller value may
        // use the assumption.
        if let Some((_, _, depth)) =
            self.open.iter().rev().find(|(from, to, _)| (*from, *to) == pair)
        {
            return *depth < self.depth;
        }
        self.open.push((pair.0, pair.1, self.depth));
        let holds = self.split(facts, to);
        self.open.pop();
        holds
    }

    /// Splits the facts into cases without alternatives and with one type.
    fn split<'s>(&mut self, facts: Facts<'s>, to: At<'s>) -> bool {
        self.nested(|proof| proof.split_once(facts, to))
    }

    fn split_once<'s>(&mut self, mut facts: Facts<'s>, to: At<'s>) -> bool {
        let same = |known: &KnownSchema<'_>| {
            std::ptr::eq(known.at.schema, to.schema)
                || (known.at.schema == to.schema
                    && (known.at.root == to.root || !has_reference(to.schema)))
        };
        if facts.iter().any(same) {
            return true;
        }
        let mut at = 0;
        while at < facts.len() {
            if !facts[at].at.is_supported() {
                // A schema with unsupported keywords gives no facts.
                facts[at].at = At::root(&ANY);
            }
            let known = facts[at].at;
            // No value has these facts, so the statement is true for all of them.
            if *known.schema == Value::Bool(false) {
                return true;
            }
            if !facts[at].done.contains(&"$ref") && known.get("$ref").is_some() {
                facts[at].done.push("$ref");
                facts.extend(known.referred().map(|at| KnownSchema { at, done: Vec::new() }));
                // A reference may lead to itself.
                if facts.len() > 200 {
                    return false;
                }
            }
            if !facts[at].done.contains(&"allOf")
                && let Some(all) = known.list("allOf")
            {
                facts[at].done.push("allOf");
                facts.extend(all.map(|at| KnownSchema { at, done: Vec::new() }));
            }
            at += 1;
        }
        if facts.iter().any(same) {
            return true;
        }
        for at in 0..facts.len() {
            for keyword in ["anyOf", "oneOf"] {
                if facts[at].done.contains(&keyword) {
                    continue;
                }
                let Some(branches) = facts[at].at.list(keyword) else { continue };
                // All cases must be proved.
                return branches.clone().all(|branch| {
                    let mut facts = facts.clone();
                    facts[at].done.push(keyword);
                    facts.push(KnownSchema { at: branch, done: Vec::new() });
                    self.split(facts, to)
                });
            }
        }
        if let Some(values) = finite(&facts) {
            return self.each_value(&facts, &values, to);
        }
        let types = types(&facts);
        types.into_iter().all(|of| match of {
            Type::Null => self.each_value(&facts, &[Value::Null], to),
            Type::Boolean => self.each_value(&facts, &[Value::Bool(false), Value::Bool(true)], to),
            _ => self.of_type(&facts, of, to),
        })
    }

    fn each_value(&mut self, facts: &Facts<'_>, values: &[Value], to: At<'_>) -> bool {
        values.iter().all(|value| {
            let is_one = || {
                !facts.iter().any(|known| self.validator.accepts(known.at, value) == Some(false))
            };
            self.validator.accepts(to, value) == Some(true) || !is_one()
        })
    }

    /// Proves the statement for values of one type, whose facts contain no more alternatives.
    fn of_type<'s>(&mut self, facts: &Facts<'s>, of: Type, to: At<'s>) -> bool {
        if !to.is_supported() {
            return false;
        }
        let Some(keywords) = to.keywords() else { return *to.schema == Value::Bool(true) };
        self.nested(|proof| {
            keywords.iter().all(|(keyword, value)| proof.keyword(facts, of, to, keyword, value))
        })
    }

    fn keyword<'s>(
        &mut self,
        facts: &Facts<'s>,
        of: Type,
        to: At<'s>,
        keyword: &str,
        value: &'s Value,
    ) -> bool {
        match keyword {
            "$ref" => match to.referred() {
                // A reference that leads to itself uses up the steps and ends the proof.
                Some(to) => self.of_type(facts, of, to),
                None => false,
            },
            "type" => Type::declared_by(to)
                .is_some_and(|types| types.into_iter().any(|to| of.is_within(to))),
            "enum" | "const" => false,
            "allOf" => {
                to.list(keyword).is_some_and(|mut all| all.all(|to| self.of_type(facts, of, to)))
            }
            "anyOf" => {
                to.list(keyword).is_some_and(|mut all| all.any(|to| self.of_type(facts, of, to)))
            }
            "then" | "else" => to.get("if").is_none(),
            // The effect of these keywords is not computed.
            "oneOf" | "not" | "if" | "unevaluatedItems" | "unevaluatedProperties" => false,
            _ => match of {
                Type::Array => self.list(facts, to, keyword, value),
                Type::Object => self.object(facts, to, keyword, value),
                Type::Integer | Type::Number => is_stated(facts, keyword, value, &NUMBER_LIMITS),
                Type::String if keyword == "format" && !is_checked_format(value) => true,
                Type::String => is_stated(facts, keyword, value, &TEXT_LIMITS),
                Type::Null | Type::Boolean => true,
            },
        }
    }

    /// Proves the statement for an inner value: an item or a field.
    fn within<'s>(&mut self, facts: Facts<'s>, to: At<'s>) -> bool {
        self.depth += 1;
        let holds = self.all_of(facts, to);
        self.depth -= 1;
        holds
    }

    fn list<'s>(&mut self, facts: &Facts<'s>, to: At<'s>, keyword: &str, value: &'s Value) -> bool {
        match keyword {
            "prefixItems" => {
                let mut prefix = to.prefix().iter().enumerate();
                prefix.all(|(at, of)| self.within(items(facts, at), to.with_schema(of)))
            }
            "items" => {
                let own = facts.iter().map(|known| known.at.prefix().len()).max().unwrap_or(0);
                let first = to.prefix().len();
                // One comparison for each position with a separate schema, and one for all other
                // positions.
                (first..own.max(first) + 1)
                    .all(|at| self.within(items(facts, at), to.with_schema(value)))
            }
            "contains" | "minContains" | "maxContains" | "additionalItems" => false,
            _ => is_stated(facts, keyword, value, &LIST_LIMITS),
        }
    }

    fn object<'s>(
        &mut self,
        facts: &Facts<'s>,
        to: At<'s>,
        keyword: &str,
        value: &'s Value,
    ) -> bool {
        match keyword {
            "required" => to.required().all(|name| is_required(facts, name)),
            "properties" => to.properties().all(|(name, to)| self.within(field(facts, name), to)),
            "additionalProperties" => {
                // The keyword applies to fields that `to` does not name: fields that the facts
                // name, and fields that no schema names.
                let to_others = to.with_schema(value);
                let named =
                    facts.iter().flat_map(|known| known.at.properties()).map(|(name, _)| name);
                named
                    .filter(|name| to.property(name).is_none())
                    .all(|name| self.within(field(facts, name), to_others))
                    && self.within(other_fields(facts), to_others)
            }
            _ => is_stated(facts, keyword, value, &OBJECT_LIMITS),
        }
    }
}

/// Returns true if a keyword does not limit values, or if one of the facts states the same limit.
/// Different limits are not compared.
fn is_stated(facts: &Facts<'_>, keyword: &str, value: &Value, limits: &[&str]) -> bool {
    let is_same = |known: &KnownSchema<'_>| known.at.get(keyword) == Some(value);
    !limits.contains(&keyword) || (facts.iter().any(is_same) && !has_reference(value))
}

/// Returns all possible values, if the facts list them.
fn finite<'s>(facts: &Facts<'s>) -> Option<Cow<'s, [Value]>> {
    facts.iter().find_map(|known| {
        let one = known.at.get("const").map(|value| Cow::Owned(vec![value.clone()]));
        one.or_else(|| {
            known.at.get("enum")?.as_array().map(|values| Cow::Borrowed(values.as_slice()))
        })
    })
}

/// Returns the types that a value with these facts may have.
fn types(facts: &Facts<'_>) -> Vec<Type> {
    let mut left: Vec<Type> = Type::ALL.to_vec();
    for named in facts.iter().filter_map(|known| Type::declared_by(known.at)) {
        left = left
            .into_iter()
            .filter_map(|of| match of {
                _ if named.iter().any(|other| of.is_within(*other)) => Some(of),
                Type::Number if named.contains(&Type::Integer) => Some(Type::Integer),
                _ => None,
            })
            .collect();
    }
    left
}

fn is_required(facts: &Facts<'_>, name: &str) -> bool {
    facts.iter().any(|known| known.at.required().any(|required| required == name))
}

fn known(at: At<'_>) -> Option<KnownSchema<'_>> {
    (*at.schema != Value::Bool(true)).then_some(KnownSchema { at, done: Vec::new() })
}

fn or_any<'s>(facts: Facts<'s>) -> Facts<'s> {
    if facts.is_empty() { facts_of(At::root(&ANY)) } else { facts }
}

fn items<'s>(facts: &Facts<'s>, at: usize) -> Facts<'s> {
    let all = facts.iter().filter(|known| known.at.keywords().is_some());
    or_any(all.filter_map(|fact| known(fact.at.item(at))).collect())
}

fn field<'s>(facts: &Facts<'s>, name: &str) -> Facts<'s> {
    let of = |fact: &KnownSchema<'s>| match fact.at.property(name) {
        Some(of) => known(of),
        // A pattern may match the name, so nothing is known about the field.
        None if fact.at.has_patterns() => None,
        None => known(fact.at.with_schema(fact.at.get("additionalProperties")?)),
    };
    or_any(facts.iter().filter_map(of).collect())
}

/// Returns the facts about a field that no schema names.
fn other_fields<'s>(facts: &Facts<'s>) -> Facts<'s> {
    let named = |fact: &&KnownSchema<'s>| !fact.at.has_patterns();
    let of =
        |fact: &KnownSchema<'s>| known(fact.at.with_schema(fact.at.get("additionalProperties")?));
    or_any(facts.iter().filter(named).filter_map(of).collect())
}
