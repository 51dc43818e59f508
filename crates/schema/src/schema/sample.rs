//! Creates a few sample values of a schema, chosen so that they probably violate another schema.
//! Some samples do not conform to the schema, so the caller must validate them.

use serde_json::{Map, Number, Value};

use super::accepts::Validator;
use super::schema_at::{At, Type};

/// Maximum number of samples of one schema.
const MOST: usize = 60;
/// Maximum depth of schemas.
const DEPTH: u32 = 7;

/// Constants, limits and names of the other schema, which are used to create the samples.
pub(super) struct SampleGenerator {
    values: Vec<Value>,
    numbers: Vec<Value>,
    lengths: Vec<usize>,
    names: Vec<String>,
    validator: Validator,
}

impl SampleGenerator {
    pub(super) fn new(other: At<'_>) -> Self {
        let mut all = Self {
            values: Vec::new(),
            numbers: Vec::new(),
            lengths: Vec::new(),
            names: Vec::new(),
            validator: Validator::default(),
        };
        all.collect(other.schema);
        all.values.truncate(MOST);
        all.numbers.truncate(MOST);
        all.names.truncate(MOST);
        all
    }

    fn collect(&mut self, schema: &Value) {
        match schema {
            Value::Array(all) => all.iter().for_each(|schema| self.collect(schema)),
            Value::Object(keywords) => {
                for (keyword, value) in keywords {
                    match keyword.as_str() {
                        "const" => self.values.push(value.clone()),
                        "enum" => {
                            self.values.extend(value.as_array().into_iter().flatten().cloned());
                        }
                        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
                        | "multipleOf" => {
                            self.numbers.extend(around(value));
                        }
                        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
                        | "maxProperties" => {
                            let length =
                                value.as_u64().and_then(|length| usize::try_from(length).ok());
                            // Longer samples are not created.
                            let length = length.filter(|length| *length < 1000);
                            self.lengths.extend(
                                length
                                    .into_iter()
                                    .flat_map(|at| [at.saturating_sub(1), at, at + 1]),
                            );
                        }
                        "properties" => {
                            let properties = value.as_object();
                            self.names.extend(properties.into_iter().flat_map(Map::keys).cloned());
                            properties
                                .into_iter()
                                .flat_map(Map::values)
                                .for_each(|schema| self.collect(schema));
                        }
                        "required" => {
                            let names =
                                value.as_array().into_iter().flatten().filter_map(Value::as_str);
                            self.names.extend(names.map(ToOwned::to_owned));
                        }
                        _ => self.collect(value),
                    }
                }
            }
            _ => {}
        }
        self.lengths.sort_unstable();
        self.lengths.dedup();
        self.names.sort_unstable();
        self.names.dedup();
    }

    /// Returns values that the schema may allow.
    pub(super) fn values_for(&self, at: At<'_>) -> Vec<Value> {
        self.make(at, DEPTH)
    }

    fn make(&self, at: At<'_>, depth: u32) -> Vec<Value> {
        let mut all = self.unchecked(at, depth);
        // Valid values come first, because composite samples are built from the first ones.
        all.sort_by_cached_key(|value| self.validator.accepts(at, value) != Some(true));
        let mut seen: Vec<Value> = Vec::new();
        for value in all {
            if seen.len() < MOST
                && !seen.contains(&value)
                && self.validator.accepts(at, &value) != Some(false)
            {
                seen.push(value);
            }
        }
        seen
    }

    fn unchecked(&self, at: At<'_>, depth: u32) -> Vec<Value> {
        if *at.schema == Value::Bool(false) || depth == 0 || self.validator.is_exhausted() {
            return Vec::new();
        }
        if let Some(value) = at.get("const") {
            return vec![value.clone()];
        }
        if let Some(values) = at.get("enum").and_then(Value::as_array) {
            return values.clone();
        }
        let referred = at.referred().into_iter().flat_map(|to| self.make(to, depth - 1));
        let branches = ["anyOf", "oneOf", "allOf"]
            .into_iter()
            .filter_map(|keyword| at.list(keyword))
            .flatten();
        let mut parts: Vec<Vec<Value>> =
            branches.map(|branch| self.make(branch, depth - 1)).collect();
        parts.push(referred.collect());
        parts.retain(|part| !part.is_empty());
        let has_parts = !parts.is_empty();
        let own: Vec<Value> = match Type::declared_by(at) {
            Some(types) => types.into_iter().flat_map(|of| self.of_type(at, of, depth)).collect(),
            None if at.get("properties").is_some() || at.get("required").is_some() => {
                self.of_type(at, Type::Object, depth)
            }
            None if has_parts => Vec::new(),
            None => Type::ALL.into_iter().flat_map(|of| self.of_type(at, of, depth)).collect(),
        };
        if !own.is_empty() {
            parts.push(own);
        }
        // A value must satisfy all parts, so objects of several parts are merged.
        let mut all: Vec<Value> = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            for other in &parts[place + 1..] {
                for one in part.iter().take(6) {
                    all.extend(other.iter().take(12).filter_map(|other| together(one, other)));
                }
            }
        }
        if parts.len() > 2 {
            let mut firsts = parts.iter().filter_map(|part| part.first());
            let first = firsts.next().cloned();
            all.extend(
                first
                    .and_then(|first| firsts.try_fold(first, |whole, part| together(&whole, part))),
            );
        }
        all.extend(parts.into_iter().flatten());
        all
    }

    fn of_type(&self, at: At<'_>, of: Type, depth: u32) -> Vec<Value> {
        match of {
            Type::Null => vec![Value::Null],
            Type::Boolean => vec![false.into(), true.into()],
            Type::Integer | Type::Number => self.numbers_of(at, of),
            Type::String => self.texts(at),
            Type::Array => self.lists(at, depth),
            Type::Object => self.objects(at, depth),
        }
    }

    fn numbers_of(&self, at: At<'_>, of: Type) -> Vec<Value> {
        let limits = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
        let own = limits.into_iter().filter_map(|limit| at.get(limit)).flat_map(around);
        let plain = [0, 1, -1, 1_000_000].map(Value::from).into_iter().chain([Value::from(0.5)]);
        let values = self.values.iter().filter(|value| value.is_number()).cloned();
        let all = plain.chain(own).chain(self.numbers.iter().cloned()).chain(values);
        all.filter(|value| of.has(value)).collect()
    }

    fn texts(&self, at: At<'_>) -> Vec<Value> {
        let own = ["minLength", "maxLength"].into_iter().filter_map(|limit| at.count(limit));
        let own =
            own.filter_map(|length| usize::try_from(length).ok()).filter(|length| *length < 1000);
        let lengths =
            own.chain(self.lengths.iter().copied()).map(|length| Value::from("x".repeat(length)));
        let values = self.values.iter().filter(|value| value.is_string()).cloned();
        ["x", "", "some text"].map(Value::from).into_iter().chain(lengths).chain(values).collect()
    }

    fn lists(&self, at: At<'_>, depth: u32) -> Vec<Value> {
        let prefix: Vec<Vec<Value>> =
            at.prefix().iter().map(|of| self.make(at.with_schema(of), depth - 1)).collect();
        let rest = self.make(at.item(prefix.len()), depth - 1);
        let first = |place: usize| prefix.get(place).unwrap_or(&rest).first().cloned();
        let of_length = |length: usize| (0..length).map(first).collect::<Option<Vec<Value>>>();
        let own = ["minItems", "maxItems"]
            .into_iter()
            .filter_map(|limit| at.count(limit)?.try_into().ok());
        let mut lengths: Vec<usize> = own
            .chain(self.lengths.iter().copied())
            .chain([0, 1, 2, prefix.len(), prefix.len() + 1])
            .collect();
        lengths.retain(|length| *length < 40);
        lengths.sort_unstable();
        lengths.dedup();
        let mut all: Vec<Value> =
            lengths.iter().filter_map(|length| of_length(*length)).map(Value::from).collect();
        // Each item position gets each sample once, in the shortest list that has this position.
        for place in 0..=prefix.len() {
            for value in prefix.get(place).unwrap_or(&rest).iter().take(30) {
                let shortest =
                    lengths.iter().filter(|length| **length > place).find_map(|length| {
                        let mut list = of_length(*length)?;
                        list[place] = value.clone();
                        let list = Value::from(list);
                        (self.validator.accepts(at, &list) != Some(false)).then_some(list)
                    });
                all.extend(shortest);
            }
        }
        // A list of distinct items, for `uniqueItems`.
        all.push(rest.iter().take(3).cloned().collect::<Vec<_>>().into());
        all
    }

    fn objects(&self, at: At<'_>, depth: u32) -> Vec<Value> {
        let fields: Vec<(&String, Vec<Value>)> =
            at.properties().map(|(name, of)| (name, self.make(of, depth - 1))).collect();
        let others = match at.get("additionalProperties") {
            Some(of) => self.make(at.with_schema(of), depth.min(3) - 1),
            None => vec!["x".into(), 1.into(), Value::Null],
        };
        // The smallest object has only the required fields, the largest all fields. Variants of
        // both show mismatches in optional fields.
        let mut least = Map::new();
        for name in at.required() {
            let of_name =
                fields.iter().find(|(of, _)| *of == name).map_or(&others, |(_, values)| values);
            let Some(value) = of_name.first() else { return Vec::new() };
            least.insert(name.to_owned(), value.clone());
        }
        let mut whole = least.clone();
        for (name, values) in &fields {
            if let Some(value) = values.first() {
                whole.entry((*name).clone()).or_insert_with(|| value.clone());
            }
        }
        let mut all = vec![Value::from(whole.clone()), Value::from(least.clone())];
        let with = |of: &Map<String, Value>, name: &str, value: &Value| {
            let mut of = of.clone();
            of.insert(name.to_owned(), value.clone());
            Value::from(of)
        };
        for (name, values) in &fields {
            all.extend(values.iter().take(24).map(|value| with(&whole, name, value)));
            all.extend(values.iter().take(4).map(|value| with(&least, name, value)));
            let mut without = whole.clone();
            without.remove(*name);
            all.push(without.into());
        }
        // Field names of the other schema are likely to conflict with it.
        for name in self.names.iter().map(String::as_str).chain(["other"]) {
            if !fields.iter().any(|(of, _)| *of == name) {
                all.extend(others.iter().take(6).map(|value| with(&whole, name, value)));
                all.extend(others.iter().take(1).map(|value| with(&least, name, value)));
            }
        }
        all
    }
}

/// Returns a number and its neighbours.
fn around(value: &Value) -> Vec<Value> {
    let Some(number) = value.as_number() else { return Vec::new() };
    let mut all = vec![value.clone()];
    if let Some(whole) = number.as_i64() {
        all.extend([whole.saturating_sub(1), whole.saturating_add(1)].map(Value::from));
    } else if let Some(number) = number.as_f64() {
        let near = [number - 0.5, number + 0.5, number.floor(), number.ceil()];
        all.extend(near.into_iter().filter_map(|near| Number::from_f64(near).map(Value::from)));
        // A double may equal an integer that exceeds the range of `i64`.
        all.extend(
            near.into_iter()
                .filter(|near| near.fract() == 0.0 && near.abs() < 1e15)
                .map(|near| Value::from(near as i64)),
        );
    }
    all
}

/// Merges two objects. For fields in both, the second object wins.
fn together(one: &Value, other: &Value) -> Option<Value> {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return None };
    let mut whole = one.clone();
    whole.extend(other.clone());
    Some(whole.into())
}
