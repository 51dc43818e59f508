//! Proves that every value of one schema is a value of another. A failed proof proves nothing.
//!
//! The facts about a value are a list of schemas that all apply to it. The proof splits the
//! alternatives in these schemas into cases, until each case has a single type. Then each keyword
//! of the other schema must follow from the facts.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::accepts::Validator;
use super::schema_at::{ANY, At, Type, compare, equal, is_checked_format};

/// Maximum number of comparisons of one proof.
const STEPS: u32 = 20_000;
/// Maximum nesting of comparisons, because they use the stack.
const NESTED: u32 = 200;

/// A schema that applies to the value. The alternatives of its keywords in `done` are already
/// chosen.
#[derive(Clone)]
struct Known<'s> {
    at: At<'s>,
    /// Keywords that have been split already.
    done: Vec<&'static str>,
}

/// All facts about the value.
type Facts<'s> = Vec<Known<'s>>;

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
    vec![Known { at, done: Vec::new() }]
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
        let same = |known: &Known<'_>| {
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
                facts.extend(known.referred().map(|at| Known { at, done: Vec::new() }));
                // A reference may lead to itself.
                if facts.len() > 200 {
                    return false;
                }
            }
            if !facts[at].done.contains(&"allOf")
                && let Some(all) = known.list("allOf")
            {
                facts[at].done.push("allOf");
                facts.extend(all.map(|at| Known { at, done: Vec::new() }));
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
                    facts.push(Known { at: branch, done: Vec::new() });
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
            "oneOf" => to.list(keyword).is_some_and(|all| {
                all.clone().enumerate().any(|(at, one)| {
                    self.of_type(facts, of, one)
                        && all
                            .clone()
                            .enumerate()
                            .all(|(other, to)| other == at || self.is_apart(facts, of, to))
                })
            }),
            "not" => self.is_apart(facts, of, to.of(value)),
            "then" | "else" => to.get("if").is_none(),
            "if" => to.get("then").is_none() && to.get("else").is_none(),
            "unevaluatedItems" => of != Type::Array || *value == Value::Bool(true),
            "unevaluatedProperties" => of != Type::Object || *value == Value::Bool(true),
            _ => match of {
                Type::Integer | Type::Number => number(facts, of, keyword, value),
                Type::String => text(facts, to, keyword, value),
                Type::Array => self.list(facts, to, keyword, value),
                Type::Object => self.object(facts, to, keyword, value),
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
        let most = most(facts, "maxItems").into_iter().chain(closed_lists(facts)).min();
        let can_have = |at: usize| most.is_none_or(|most| (at as u64) < most);
        match keyword {
            "minItems" => {
                to.count(keyword).is_some_and(|least_of| least(facts, keyword) >= least_of)
            }
            "maxItems" => to.count(keyword).is_some_and(|of| most.is_some_and(|most| most <= of)),
            "uniqueItems" => {
                *value != Value::Bool(true)
                    || most.is_some_and(|most| most <= 1)
                    || facts.iter().any(|known| known.at.get(keyword) == Some(&Value::Bool(true)))
            }
            "prefixItems" => to
                .prefix()
                .iter()
                .enumerate()
                .all(|(at, of)| !can_have(at) || self.within(items(facts, at), to.of(of))),
            "items" => {
                let own = facts.iter().map(|known| known.at.prefix().len()).max().unwrap_or(0);
                let first = to.prefix().len();
                // One comparison for each position with a separate schema, and one for all other
                // positions.
                (first..own.max(first) + 1)
                    .all(|at| !can_have(at) || self.within(items(facts, at), to.of(value)))
            }
            "contains" | "minContains" | "maxContains" | "additionalItems" => false,
            _ => true,
        }
    }

    fn object<'s>(
        &mut self,
        facts: &Facts<'s>,
        to: At<'s>,
        keyword: &str,
        value: &'s Value,
    ) -> bool {
        let identical = || {
            facts.iter().any(|known| known.at.get(keyword) == Some(value) && !has_reference(value))
        };
        match keyword {
            "required" => to.required().all(|name| is_required(facts, name)),
            "minProperties" => {
                // Each required field counts as a property.
                let mut names: Vec<&str> =
                    facts.iter().flat_map(|known| known.at.required()).collect();
                names.sort_unstable();
                names.dedup();
                to.count(keyword)
                    .is_some_and(|of| least(facts, keyword).max(names.len() as u64) >= of)
            }
            "maxProperties" => to
                .count(keyword)
                .is_some_and(|of| most(facts, keyword).is_some_and(|most| most <= of)),
            "properties" => to.properties().all(|(name, to)| self.within(field(facts, name), to)),
            "additionalProperties" => {
                // The keyword applies to fields that `to` does not name: fields that the facts
                // name, and fields that no schema names.
                let to_others = to.of(value);
                let named =
                    facts.iter().flat_map(|known| known.at.properties()).map(|(name, _)| name);
                named
                    .filter(|name| to.property(name).is_none())
                    .all(|name| self.within(field(facts, name), to_others))
                    && self.within(other_fields(facts), to_others)
            }
            "patternProperties" => {
                identical()
                    || value.as_object().is_some_and(|patterns| {
                        patterns.values().all(|of| {
                            let named = facts
                                .iter()
                                .flat_map(|known| known.at.properties())
                                .map(|(name, _)| name);
                            named.into_iter().all(|name| self.within(field(facts, name), to.of(of)))
                                && self.within(other_fields(facts), to.of(of))
                        })
                    })
            }
            "propertyNames" => *value == Value::Bool(true) || identical(),
            "dependentRequired" | "dependentSchemas" => identical(),
            _ => true,
        }
    }

    /// Returns true if no value with these facts is a value of `to`.
    fn is_apart<'s>(&mut self, facts: &Facts<'s>, of: Type, to: At<'s>) -> bool {
        to.is_supported() && self.nested(|proof| proof.is_disjoint_from_schema(facts, of, to))
    }

    fn is_disjoint_from_schema<'s>(&mut self, facts: &Facts<'s>, of: Type, to: At<'s>) -> bool {
        if *to.schema == Value::Bool(false) {
            return true;
        }
        to.referred().is_some_and(|to| self.is_apart(facts, of, to))
            || Type::declared_by(to).is_some_and(|types| !types.into_iter().any(|to| of.meets(to)))
            || to.get("const").is_some_and(|value| self.is_refused(facts, of, value))
            || to
                .get("enum")
                .and_then(Value::as_array)
                .is_some_and(|values| values.iter().all(|value| self.is_refused(facts, of, value)))
            || to.list("allOf").is_some_and(|mut all| all.any(|to| self.is_apart(facts, of, to)))
            || to.list("anyOf").is_some_and(|mut all| all.all(|to| self.is_apart(facts, of, to)))
            || to.list("oneOf").is_some_and(|mut all| all.all(|to| self.is_apart(facts, of, to)))
            || (of == Type::Object && self.is_apart_by_a_field(facts, to))
    }

    /// Returns true if a value certainly contradicts the facts.
    fn is_refused(&self, facts: &Facts<'_>, of: Type, value: &Value) -> bool {
        facts.iter().any(|known| self.validator.accepts(known.at, value) == Some(false))
            || !of.has(value)
    }

    /// Returns true if `to` excludes a field that these values always have, or the value of such a
    /// field.
    fn is_apart_by_a_field<'s>(&mut self, facts: &Facts<'s>, to: At<'s>) -> bool {
        let missing = to.required().any(|name| is_impossible(&field(facts, name)));
        missing
            || to.properties().any(|(name, to)| {
                is_required(facts, name) && {
                    let facts = field(facts, name);
                    match finite(&facts) {
                        Some(values) => values
                            .iter()
                            .all(|value| self.validator.accepts(to, value) == Some(false)),
                        None => {
                            let types = types(&facts);
                            types.into_iter().all(|of| self.is_apart(&facts, of, to))
                        }
                    }
                }
            })
    }
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

fn counts<'f>(facts: &'f Facts<'_>, keyword: &'f str) -> impl Iterator<Item = u64> + 'f {
    facts.iter().filter_map(move |known| known.at.count(keyword))
}

fn least(facts: &Facts<'_>, keyword: &str) -> u64 {
    counts(facts, keyword).max().unwrap_or(0)
}

fn most(facts: &Facts<'_>, keyword: &str) -> Option<u64> {
    counts(facts, keyword).min()
}

/// Returns the lengths of lists that do not allow further items.
fn closed_lists<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = u64> + 'f {
    let closed = facts.iter().filter(|known| known.at.get("items") == Some(&Value::Bool(false)));
    closed.map(|known| known.at.prefix().len() as u64)
}

fn is_required(facts: &Facts<'_>, name: &str) -> bool {
    facts.iter().any(|known| known.at.required().any(|required| required == name))
}

fn known(at: At<'_>) -> Option<Known<'_>> {
    (*at.schema != Value::Bool(true)).then_some(Known { at, done: Vec::new() })
}

fn or_any<'s>(facts: Facts<'s>) -> Facts<'s> {
    if facts.is_empty() { facts_of(At::root(&ANY)) } else { facts }
}

fn items<'s>(facts: &Facts<'s>, at: usize) -> Facts<'s> {
    let all = facts.iter().filter(|known| known.at.keywords().is_some());
    or_any(all.filter_map(|fact| known(fact.at.item(at))).collect())
}

fn field<'s>(facts: &Facts<'s>, name: &str) -> Facts<'s> {
    let of = |fact: &Known<'s>| match fact.at.property(name) {
        Some(of) => known(of),
        // A pattern may match the name, so nothing is known about the field.
        None if fact.at.has_patterns() => None,
        None => known(fact.at.of(fact.at.get("additionalProperties")?)),
    };
    or_any(facts.iter().filter_map(of).collect())
}

/// Returns the facts about a field that no schema names.
fn other_fields<'s>(facts: &Facts<'s>) -> Facts<'s> {
    let named = |fact: &&Known<'s>| !fact.at.has_patterns();
    let of = |fact: &Known<'s>| known(fact.at.of(fact.at.get("additionalProperties")?));
    or_any(facts.iter().filter(named).filter_map(of).collect())
}

fn is_impossible(facts: &Facts<'_>) -> bool {
    facts.iter().any(|known| *known.at.schema == Value::Bool(false))
}

fn number(facts: &Facts<'_>, of: Type, keyword: &str, value: &Value) -> bool {
    let limits = |keyword: &'static str| {
        facts.iter().filter_map(move |known| known.at.get(keyword)?.as_number())
    };
    let any = |keyword: &'static str, within: &dyn Fn(Ordering) -> bool| {
        let Some(limit) = value.as_number() else { return false };
        limits(keyword).any(|own: &Number| compare(own, limit).is_some_and(within))
    };
    match keyword {
        "minimum" => any("minimum", &Ordering::is_ge) || any("exclusiveMinimum", &Ordering::is_ge),
        "maximum" => any("maximum", &Ordering::is_le) || any("exclusiveMaximum", &Ordering::is_le),
        "exclusiveMinimum" => {
            any("minimum", &Ordering::is_gt) || any("exclusiveMinimum", &Ordering::is_ge)
        }
        "exclusiveMaximum" => {
            any("maximum", &Ordering::is_lt) || any("exclusiveMaximum", &Ordering::is_le)
        }
        "multipleOf" => {
            let Some(to) = value.as_i64().filter(|to| *to > 0) else {
                return facts
                    .iter()
                    .any(|known| known.at.get(keyword).is_some_and(|own| equal(own, value)));
            };
            let is_multiple = |own: &Number| own.as_i64().is_some_and(|own| own % to == 0);
            (to == 1 && of == Type::Integer) || limits("multipleOf").any(is_multiple)
        }
        _ => true,
    }
}

fn text(facts: &Facts<'_>, to: At<'_>, keyword: &str, value: &Value) -> bool {
    match keyword {
        "minLength" => to.count(keyword).is_some_and(|of| least(facts, keyword) >= of),
        "maxLength" => {
            to.count(keyword).is_some_and(|of| most(facts, keyword).is_some_and(|most| most <= of))
        }
        "pattern" => facts.iter().any(|known| known.at.get(keyword) == Some(value)),
        "format" if is_checked_format(value) => {
            facts.iter().any(|known| known.at.get(keyword) == Some(value))
        }
        _ => true,
    }
}
