//! Tests `is_assignable`, which compares two JSON Schemas: with examples, and with random schemas
//! against a validator.

use agentflow::Runtime;
use agentflow::message::ToolCall;
use agentflow::schema::{Assignable, is_assignable};
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::workflow::{Graph, GraphNode};
use fastrand::Rng;
use serde_json::{Map, Value, json};

fn yes(from: Value, to: Value) {
    let answer = is_assignable(&from, &to);
    assert!(answer.is_yes(), "{from} to {to}: {answer:?}");
}

fn no(from: Value, to: Value, says: &[&str]) {
    let answer = is_assignable(&from, &to);
    let Assignable::No(places) = &answer else { panic!("{from} to {to}: {answer:?}") };
    let mut places: Vec<String> = places.iter().map(ToString::to_string).collect();
    places.sort();
    assert_eq!(places, says, "{from} to {to}");
}

fn unknown(from: Value, to: Value) {
    assert_eq!(is_assignable(&from, &to), Assignable::Unknown, "{from} to {to}");
}

#[test]
fn simple_types() {
    yes(json!({"type": "integer"}), json!({"type": "number"}));
    no(
        json!({"type": "number"}),
        json!({"type": "integer"}),
        &["integer is expected, and number is given"],
    );
    no(
        json!({"type": "string"}),
        json!({"type": "integer"}),
        &["integer is expected, and string is given"],
    );
    yes(json!({"type": "string"}), json!({"type": ["string", "null"]}));
    yes(json!({"type": "integer"}), json!({"anyOf": [{"type": "number"}, {"type": "null"}]}));
    no(
        json!({"type": ["integer", "null"]}),
        json!({"type": "integer"}),
        &["integer is expected, and integer or null is given"],
    );
    yes(json!({"const": 3}), json!({"type": "integer", "minimum": 3}));
    yes(json!({"enum": ["a", "b"]}), json!({"enum": ["a", "b", "c"]}));
    no(
        json!({"type": "string"}),
        json!({"enum": ["a", "b"]}),
        &[r#""a" or "b" is expected, and string is given"#],
    );
    yes(json!(false), json!({"type": "integer"}));
    yes(json!({"type": "integer"}), json!(true));
    yes(json!({"type": "boolean"}), json!({"enum": [true, false]}));
}

#[test]
fn limits() {
    yes(
        json!({"type": "integer", "minimum": 1, "maximum": 5}),
        json!({"type": "number", "minimum": 1}),
    );
    // Different limits are not compared.
    unknown(
        json!({"type": "integer", "minimum": 1, "maximum": 5}),
        json!({"type": "number", "exclusiveMinimum": 0}),
    );
    no(
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": 0, "maximum": 255}),
        &["integer from 0 to 255 is expected, and integer is given"],
    );
    yes(json!({"type": "string", "minLength": 2}), json!({"minLength": 2}));
    unknown(json!({"type": "string", "minLength": 2}), json!({"minLength": 1}));
    no(
        json!({"type": "string"}),
        json!({"type": "string", "maxLength": 3}),
        &["string of at most 3 characters is expected, and string is given"],
    );
    unknown(json!({"type": "integer", "multipleOf": 4}), json!({"multipleOf": 2}));
}

#[test]
fn objects_and_lists() {
    let line = json!({"type": "object", "properties": {"item": {"type": "string"}, "cents": {"type": "integer"}},
        "required": ["item", "cents"], "additionalProperties": false});
    let priced = json!({"type": "object", "properties": {"cents": {"type": "number"}}, "required": ["cents"]});
    yes(line.clone(), priced.clone());
    no(
        priced.clone(),
        line.clone(),
        &[
            "`cents`: integer is expected, and number is given",
            "`item`: string is expected, and sometimes nothing is given",
            "`other`: no such field is expected, and another field is given",
        ],
    );
    let all = |of: &Value| json!({"type": "array", "items": of});
    yes(all(&line), all(&priced));
    no(
        json!({"type": "object", "properties": {"lines": all(&json!({"type": "object", "properties": {"cents": {"type": "string"}}, "required": ["cents"]}))}, "required": ["lines"]}),
        json!({"type": "object", "properties": {"lines": all(&priced)}}),
        &["`lines[0].cents`: number is expected, and string is given"],
    );
    let pair = json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "minItems": 2});
    yes(pair.clone(), json!({"type": "array", "items": {"type": ["string", "integer"]}}));
    yes(pair.clone(), json!({"prefixItems": [{"type": "string"}], "items": {"type": "number"}}));
    no(
        pair,
        json!({"type": "array", "items": {"type": "string"}}),
        &["`[1]`: string is expected, and integer is given"],
    );
    yes(
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "additionalProperties": {"type": "number"}}),
    );
}

#[test]
fn choices_and_references() {
    let shape = |keyword: &str, x: &str| {
        json!({keyword: [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": x}}, "required": ["kind", "r"]},
            {"type": "object", "properties": {"kind": {"const": "dot"}}, "required": ["kind"]}]})
    };
    yes(shape("anyOf", "integer"), shape("anyOf", "number"));
    yes(shape("oneOf", "integer"), shape("anyOf", "number"));
    // Only a counterexample decides about an expected `oneOf`.
    unknown(shape("oneOf", "integer"), shape("oneOf", "number"));
    for keyword in ["anyOf", "oneOf"] {
        let answer = is_assignable(&shape(keyword, "string"), &shape(keyword, "number"));
        assert!(matches!(answer, Assignable::No(_)), "{keyword}: {answer:?}");
    }
    let list = |of: &str| {
        json!({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"value": {"type": of},
            "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}, "required": ["value"]}}})
    };
    yes(list("integer"), list("number"));
    let Assignable::No(places) = is_assignable(&list("string"), &list("number")) else { panic!() };
    let paths: Vec<&str> = places.iter().map(|place| &*place.path).collect();
    assert!(paths.contains(&"value") && paths.contains(&"next.value"), "{paths:?}");
    yes(
        json!({"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]}),
        json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}),
    );
    // A reference that only leads to itself does not constrain a value.
    unknown(
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
        json!({"type": "integer"}),
    );
}

#[test]
fn what_cannot_be_shown_is_unknown() {
    unknown(
        json!({"type": "string", "pattern": "^a"}),
        json!({"type": "string", "pattern": "^[ab]"}),
    );
    yes(
        json!({"type": "string", "pattern": "^a", "maxLength": 3}),
        json!({"type": "string", "pattern": "^a"}),
    );
    unknown(json!({"type": "string"}), json!({"type": "string", "pattern": "x"}));
    unknown(
        json!({"type": "object"}),
        json!({"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}),
    );
    // The first schema accepts no value. The check does not detect that, but it must never answer
    // `No` here.
    assert!(!matches!(
        is_assignable(
            &json!({"type": "string", "minLength": 5, "maxLength": 3}),
            &json!({"type": "integer"})
        ),
        Assignable::No(_)
    ));
}

/// Uses objects that must contain an object of the same type, so no finite value is valid.
#[test]
fn a_type_without_an_end_is_unknown() {
    let endless = |field: &str| json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"type": field}}, "required": ["a", "b"]});
    let other = json!({"not": {"$ref": "#/$defs/e"}, "$defs": {"e": {
        "type": "object", "properties": {"a": {"$ref": "#/$defs/e"}}, "required": ["a"]
    }}});
    assert!(!matches!(is_assignable(&endless("string"), &other), Assignable::No(_)));
    assert!(is_assignable(&endless("string"), &endless("string")).is_yes());
}

/// Returns a random schema that may refer to the definitions `d0` to `d{defs - 1}`.
fn schema(rng: &mut Rng, depth: u32, defs: usize) -> Value {
    if depth == 0 {
        return simple(rng);
    }
    let inner = |rng: &mut Rng| schema(rng, depth - 1, defs);
    match rng.u32(0..14) {
        0..=4 => simple(rng),
        5..=7 => object(rng, depth, defs),
        8 => {
            let mut list = json!({"type": "array", "items": inner(rng)});
            if rng.bool() {
                list["minItems"] = rng.u32(0..3).into();
            }
            if rng.bool() {
                list["maxItems"] = rng.u32(1..4).into();
            }
            if rng.u32(0..4) == 0 {
                list["uniqueItems"] = true.into();
            }
            list
        }
        9 => json!({"type": "array", "prefixItems": [inner(rng), inner(rng)], "items": rng.bool()}),
        10 => json!({"anyOf": [inner(rng), inner(rng)]}),
        11 => json!({"oneOf": [inner(rng), inner(rng)]}),
        12 => match rng.u32(0..3) {
            0 => json!({"allOf": [object(rng, depth, defs), object(rng, depth, defs)]}),
            1 => json!({"not": inner(rng)}),
            _ => json!({"type": ["object", "integer"], "required": ["a"]}),
        },
        _ if defs > 0 => json!({"$ref": format!("#/$defs/d{}", rng.usize(0..defs))}),
        _ => rng.bool().into(),
    }
}

fn simple(rng: &mut Rng) -> Value {
    match rng.u32(0..12) {
        0 => json!({"type": "string"}),
        1 => json!({"type": "integer"}),
        2 => json!({"type": "number"}),
        3 => json!({"type": "boolean"}),
        4 => json!({"type": ["integer", "null"]}),
        5 => json!({"enum": ([json!("a"), json!("b"), json!(1), json!(null)][..rng.usize(1..4)])}),
        6 => json!({"const": (["a", "b", "c"])[rng.usize(0..3)]}),
        7 => json!({"type": "integer", "minimum": rng.i32(-2..3), "maximum": rng.i32(1..6)}),
        8 => json!({"type": "string", "minLength": rng.u32(0..3), "maxLength": rng.u32(1..4)}),
        9 => json!({"type": "number", "exclusiveMinimum": rng.i32(-2..3)}),
        10 => json!({"type": "integer", "multipleOf": rng.i32(1..5)}),
        _ => json!({}),
    }
}

fn object(rng: &mut Rng, depth: u32, defs: usize) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for name in ["a", "b", "c"] {
        if rng.bool() {
            let of = match defs > 0 && rng.u32(0..6) == 0 {
                true => json!({"$ref": "#"}),
                false => schema(rng, depth - 1, defs),
            };
            properties.insert(name.to_owned(), of);
        }
        if rng.u32(0..3) == 0 {
            required.push(name);
        }
    }
    let mut object = json!({"type": "object", "properties": properties, "required": required});
    match rng.u32(0..4) {
        0 => object["additionalProperties"] = false.into(),
        1 => object["additionalProperties"] = schema(rng, depth - 1, defs),
        _ => {}
    }
    object
}

/// Returns the schema with one random change. Most changes accept more values.
fn changed(rng: &mut Rng, of: &Value) -> Value {
    let mut changed = of.clone();
    let Value::Object(keywords) = &mut changed else { return simple(rng) };
    let names: Vec<String> = keywords.keys().cloned().collect();
    let Some(name) = rng.choice(names) else { return simple(rng) };
    match keywords[&name].clone() {
        Value::Object(mut inner) if name == "properties" => {
            let names: Vec<String> = inner.keys().cloned().collect();
            if let Some(of) = rng.choice(names) {
                inner[&of] = self::changed(rng, &inner[&of].clone());
            }
            keywords[&name] = inner.into();
        }
        inner @ Value::Object(_) if !name.starts_with('$') => {
            keywords[&name] = self::changed(rng, &inner);
        }
        Value::String(of) if name == "type" && rng.bool() => {
            keywords[&name] = if of == "integer" { json!("number") } else { json!([of, "null"]) };
        }
        Value::Array(mut all)
            if ["anyOf", "oneOf", "allOf", "prefixItems"].contains(&name.as_str()) =>
        {
            let at = rng.usize(0..all.len());
            all[at] = self::changed(rng, &all[at].clone());
            keywords[&name] = all.into();
        }
        Value::Number(number) => {
            keywords[&name] = (number.as_i64().unwrap_or(1) + i64::from(rng.i32(0..2))).into();
        }
        _ if name != "$defs" && name != "$ref" => drop(keywords.remove(&name)),
        _ => {}
    }
    changed
}

fn whole(rng: &mut Rng) -> Value {
    let defs = rng.usize(0..3);
    let mut whole = schema(rng, 3, defs);
    if defs > 0 && whole.is_object() {
        let all: Map<String, Value> =
            (0..defs).map(|at| (format!("d{at}"), object(rng, 2, defs))).collect();
        whole["$defs"] = all.into();
    }
    whole
}

fn value(rng: &mut Rng, depth: u32) -> Value {
    match rng.u32(0..if depth == 0 { 7 } else { 10 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 | 3 => rng.i32(-3..7).into(),
        4 => (f64::from(rng.i32(-6..12)) / 2.0).into(),
        5 => json!(["a", "b", "c", "", "xx", "xxxxx"][rng.usize(0..6)]),
        6 => json!({}),
        7 => (0..rng.usize(0..4)).map(|_| value(rng, depth - 1)).collect::<Vec<_>>().into(),
        _ => {
            let names = ["a", "b", "c", "d"].into_iter().filter(|_| rng.bool()).collect::<Vec<_>>();
            names
                .into_iter()
                .map(|name| (name.to_owned(), value(rng, depth - 1)))
                .collect::<Map<_, _>>()
                .into()
        }
    }
}

/// Returns a random value that is probably valid for the schema.
fn likely(rng: &mut Rng, root: &Value, of: &Value, depth: u32) -> Value {
    if depth == 0 || rng.u32(0..12) == 0 {
        return value(rng, 1);
    }
    let one_of = |rng: &mut Rng, all: &Value| {
        rng.choice(all.as_array().cloned().unwrap_or_default()).unwrap_or_default()
    };
    if let Some(to) = of["$ref"].as_str() {
        return likely(rng, root, root.pointer(&to[1..]).unwrap(), depth - 1);
    }
    for keyword in ["anyOf", "oneOf"] {
        if of.get(keyword).is_some() {
            let branch = one_of(rng, &of[keyword]);
            return likely(rng, root, &branch, depth - 1);
        }
    }
    if let Some(parts) = of["allOf"].as_array() {
        let mut whole = Map::new();
        for part in parts {
            if let Value::Object(fields) = likely(rng, root, part, depth) {
                whole.extend(fields);
            }
        }
        return whole.into();
    }
    if of.get("enum").is_some() {
        return one_of(rng, &of["enum"]);
    }
    if let Some(value) = of.get("const") {
        return value.clone();
    }
    match of["type"].as_str() {
        Some("object") => {
            let mut fields = Map::new();
            for name in ["a", "b", "c", "d"] {
                let is_required = of["required"]
                    .as_array()
                    .is_some_and(|names| names.iter().any(|of| of == name));
                if is_required || rng.bool() {
                    let other = of.get("additionalProperties");
                    let of = of["properties"].get(name).or(other).cloned().unwrap_or_default();
                    fields.insert(name.to_owned(), likely(rng, root, &of, depth - 1));
                }
            }
            fields.into()
        }
        Some("array") => {
            let length = rng.usize(0..4);
            let item = |rng: &mut Rng, at: usize| {
                let of = of["prefixItems"]
                    .get(at)
                    .or_else(|| of.get("items"))
                    .cloned()
                    .unwrap_or_default();
                likely(rng, root, &of, depth - 1)
            };
            (0..length).map(|at| item(rng, at)).collect::<Vec<_>>().into()
        }
        Some("integer") => rng.i32(-3..13).into(),
        Some("number") => (f64::from(rng.i32(-6..12)) / 2.0).into(),
        Some("string") => "x".repeat(rng.usize(0..5)).into(),
        Some("boolean") => rng.bool().into(),
        _ => value(rng, depth - 1),
    }
}

/// Embeds schemas in the input schema of a graph. Their definitions and their references to the
/// root must keep their meaning there.
#[test]
fn a_value_fits_a_schema_within_another_as_it_fits_the_schema_alone() {
    let seed = std::env::var("AGENTFLOW_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    eprintln!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let (mut fitting, mut others) = (0, 0);
    for _ in 0..150 {
        let alone: Vec<Value> = (0..3).map(|_| whole(&mut rng)).collect();
        let inputs = ["a", "b", "c"].into_iter().zip(&alone);
        let graph = inputs.fold(Graph::new("g", "a"), |graph, (name, schema)| {
            graph.with(GraphNode::input(name, schema.clone()))
        });
        let whole = jsonschema::validator_for(&graph.input_schema()).unwrap();
        let each: Vec<_> =
            alone.iter().map(|schema| jsonschema::validator_for(schema).unwrap()).collect();
        for _ in 0..20 {
            let values: Vec<Value> =
                alone.iter().map(|schema| likely(&mut rng, schema, schema, 5)).collect();
            let object = json!({"a": values[0], "b": values[1], "c": values[2]});
            let fits = each.iter().zip(&values).all(|(schema, value)| schema.is_valid(value));
            assert_eq!(
                whole.is_valid(&object),
                fits,
                "{object}\n{alone:#?}\n{}",
                graph.input_schema()
            );
            *(if fits { &mut fitting } else { &mut others }) += 1;
        }
    }
    assert!(fitting > 100 && others > 100, "{fitting} {others}");
}

#[test]
fn the_answer_is_never_against_a_validator() {
    let number =
        |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let pairs = number("AGENTFLOW_SCHEMAS").unwrap_or(400);
    let seed = number("AGENTFLOW_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let (mut proven, mut refuted, mut tried) = (0, 0, 0);
    for _ in 0..pairs {
        let from = whole(&mut rng);
        let to = match rng.u32(0..3) {
            0 => whole(&mut rng),
            _ => (0..rng.u32(1..4)).fold(from.clone(), |to, _| changed(&mut rng, &to)),
        };
        let options = || jsonschema::options();
        let (Ok(of_from), Ok(of_to)) = (options().build(&from), options().build(&to)) else {
            continue;
        };
        match is_assignable(&from, &to) {
            Assignable::Yes => {
                proven += 1;
                for _ in 0..60 {
                    let value = likely(&mut rng, &from, &from, 5);
                    if of_from.is_valid(&value) {
                        tried += 1;
                        assert!(
                            of_to.is_valid(&value),
                            "seed {seed}: {value} is one of {from} and not of {to}"
                        );
                    }
                }
            }
            Assignable::No(places) => {
                refuted += 1;
                assert!(!places.is_empty());
                for place in places {
                    let value = &place.example;
                    assert!(
                        of_from.is_valid(value),
                        "seed {seed}: {value} is not one of {from}: {place}"
                    );
                    assert!(!of_to.is_valid(value), "seed {seed}: {value} is one of {to}: {place}");
                }
            }
            _ => {}
        }
    }
    eprintln!("{pairs} pairs: {proven} proven with {tried} values, {refuted} refuted");
    assert!(
        proven + refuted > pairs * 3 / 4 && proven > pairs / 8 && refuted > pairs / 8,
        "{proven} and {refuted}"
    );
}

/// Checks that the work is limited. Each level with several references to the same schema doubles
/// the work, so an unlimited check would take years.
#[test]
fn schemas_that_refer_to_themselves_several_times_are_given_up() {
    let itself = json!({"$ref": "#"});
    let seven = json!({"const": 7});
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let endless = json!({keyword: [itself, itself, itself]});
        unknown(endless.clone(), seven.clone());
        unknown(seven.clone(), endless.clone());
        unknown(json!({"type": "integer"}), endless);
    }
    let mut doubling = json!({"$defs": {"of40": {"type": "integer"}}, "$ref": "#/$defs/of0"});
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/of{}", level + 1)});
        doubling["$defs"][format!("of{level}")] = json!({"oneOf": [next, next]});
    }
    unknown(seven.clone(), doubling.clone());
    unknown(doubling, seven);
}

#[tokio::test]
async fn formats_are_checked_in_every_draft() {
    let plain = json!({"type": "string"});
    for draft in [
        None,
        Some("http://json-schema.org/draft-07/schema#"),
        Some("https://json-schema.org/draft/2020-12/schema"),
    ] {
        let mut mail = json!({"type": "string", "format": "email"});
        let mut schema = json!({"type": "object", "properties": {"v": mail.clone()}});
        if let Some(draft) = draft {
            mail["$schema"] = json!(draft);
            schema["$schema"] = json!(draft);
        }
        assert_eq!(is_assignable(&plain, &mail), Assignable::Unknown, "{draft:?}");
        assert!(is_assignable(&mail, &plain).is_yes() && is_assignable(&mail, &mail).is_yes());
        let definition = ToolDefinition::new("assignable_mail", "Take it.", schema);
        let tool = FnTool::dynamic(definition, |_, of: Value| async move { Ok::<_, String>(of) });
        let runtime = Runtime::builder().tools(tool).build();
        for (value, is_refused) in [("nope", true), ("ada@example.com", false)] {
            let call = ToolCall::new("1", "assignable_mail", json!({"v": value}).to_string());
            let result = runtime.invoke(&call, &[]).await.unwrap();
            assert_eq!(!result.status.is_success(), is_refused, "{draft:?} {value} {result:?}");
        }
    }
    // Formats that JSON Schema does not define are only annotations.
    assert!(
        is_assignable(&json!({"type": "integer"}), &json!({"type": "integer", "format": "int64"}))
            .is_yes()
    );
    assert!(is_assignable(&plain, &json!({"type": "string", "format": "markdown"})).is_yes());
}
