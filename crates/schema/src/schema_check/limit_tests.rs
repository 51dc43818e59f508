//! Tests of the limits of schemas and checks.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::SchemaCheck;

/// Returns a schema in which each of `levels` levels applies the next level twice.
fn doubled(keyword: &str, levels: usize) -> Value {
    let mut defs = Map::new();
    for at in 0..levels {
        let next = json!({"$ref": format!("#/$defs/t{}", at + 1)});
        defs.insert(format!("t{at}"), json!({ keyword: [next, next] }));
    }
    defs.insert(format!("t{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/t0", "$defs": defs})
}

/// Runs a closure that must finish quickly. It takes a fraction of a second in a debug build on a
/// busy machine.
fn quick<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = run();
    assert!(begin.elapsed() < Duration::from_secs(20), "{what} took {:?}", begin.elapsed());
    result
}

fn nested(levels: usize, leaf: Value, around: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(leaf, |value, _| around(value))
}

#[test]
fn a_schema_that_unfolds_too_far_is_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let problem =
            quick(keyword, || SchemaCheck::new(&doubled(keyword, 40)).unwrap_err().to_string());
        assert!(
            problem.contains("unfolds to more than 50000 schemas; refer to fewer"),
            "{problem}"
        );
        // A few levels are allowed.
        let check = SchemaCheck::new(&doubled(keyword, 8)).unwrap();
        assert_eq!(check.check(&json!("x")).is_ok(), keyword != "oneOf");
        assert!(check.check(&json!(1)).is_err());
    }
}

#[test]
fn a_schema_that_applies_itself_is_refused() {
    for schema in [
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"if": {"$ref": "#/$defs/a"}}}}),
        json!({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]}),
        json!({"$id": "https://a.test/b", "allOf": [{"$ref": "b"}]}),
        json!({"$anchor": "x", "allOf": [{"$ref": "#x"}]}),
    ] {
        let problem = SchemaCheck::new(&schema).unwrap_err().to_string();
        assert!(
            problem.contains("applies a schema to the value that it applies to already"),
            "{schema}: {problem}"
        );
    }
    // Recursion through a field or an item is allowed.
    let tree = json!({"type": "object", "properties": {"of": {"$ref": "#"}, "all": {"items": {"$ref": "#"}}}});
    let check = SchemaCheck::new(&tree).unwrap();
    check.check(&json!({"of": {"all": [{}, {"of": {}}]}})).unwrap();
    let wrong = check.check(&json!({"of": {"all": [{}, {"of": 1}]}})).unwrap_err().to_string();
    assert!(wrong.starts_with("`of.all[1].of`: "), "{wrong}");
}

#[test]
fn a_recursive_schema_with_a_nested_value_ends() {
    let schema = json!({"anyOf": [{"items": {"$ref": "#"}, "minItems": 1}, {"items": {"$ref": "#"}, "type": "array"}]});
    let check = SchemaCheck::new(&schema).unwrap();
    let deep = nested(60, json!([]), |value| json!([value]));
    let problem = quick("a deep value", || check.check(&deep).unwrap_err().to_string());
    assert!(
        problem.contains("may take more than 2000000 steps; give a smaller or a flatter value"),
        "{problem}"
    );
    check.check(&nested(8, json!([]), |value| json!([value]))).unwrap();
    // A mismatch is explained if the explanation is short.
    let check = SchemaCheck::new(&json!({"anyOf": [
        {"type": "array", "items": {"$ref": "#"}}, {"type": ["string", "array"], "items": {"$ref": "#"}}
    ]}))
    .unwrap();
    let wrong = |levels| {
        check.check(&nested(levels, json!(1), |value| json!([value]))).unwrap_err().to_string()
    };
    assert!(wrong(4).ends_with("seen: 1"), "{}", wrong(4));
    let problem = quick("a deep mistake", || wrong(16));
    assert!(problem.contains("finding the place may take more than 200000 steps"), "{problem}");
}

#[test]
fn wide_values_and_tagged_objects_fit() {
    // An expression language with one form per operator, nested as in typical programs.
    let forms: Vec<Value> = ["add", "and", "div", "eq", "gt", "lt", "mul", "not", "or", "sub"]
        .map(|name| {
            json!({"type": "object", "required": ["op", "args"], "properties": {
                "args": {"type": "array", "items": {"$ref": "#/$defs/expr"}}, "op": {"const": name}
            }})
        })
        .into();
    let with_number = [forms.clone(), vec![json!({"type": "number"})]].concat();
    let schema = json!({"$ref": "#/$defs/expr", "$defs": {"expr": {"oneOf": with_number}}});
    let check = SchemaCheck::new(&schema).unwrap();
    check.check(&nested(4, json!(1), |value| json!({"op": "and", "args": [value, 2]}))).unwrap();
    let tagged = json!({"$ref": "#/$defs/expr", "$defs": {"expr": {"anyOf": [{"type": "number"}, {"oneOf": forms}]}}});
    let check = SchemaCheck::new(&tagged).unwrap();
    let deep = |leaf: Value| {
        nested(
            20,
            json!({"op": "not", "args": [leaf]}),
            |value| json!({"op": "and", "args": [value, 2]}),
        )
    };
    quick("a deep expression", || check.check(&deep(json!(1))).unwrap());
    quick("a deep mistake", || check.check(&deep(json!("x"))).unwrap_err().to_string());
    // Many rows with a mistake in the last one.
    let rows = json!({"type": "array", "items": {"type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"}, "name": {"type": ["string", "null"], "maxLength": 40, "pattern": "^[^\\n]*$"}
    }}});
    let check = SchemaCheck::new(&rows).unwrap();
    let mut many: Vec<Value> = (0..3_000).map(|id| json!({"id": id, "name": "row"})).collect();
    check.check(&json!(many)).unwrap();
    many[2_999] = json!({"id": "x"});
    let wrong = check.check(&json!(many)).unwrap_err().to_string();
    assert!(wrong.starts_with("`[2999].id`: "), "{wrong}");
    // A long text with a pattern.
    let check =
        SchemaCheck::new(&json!({"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"})).unwrap();
    check.check(&json!("QUJD".repeat(1 << 20))).unwrap();
}

#[test]
fn unevaluated_fields_are_counted_for_each_level() {
    let level =
        |inner: Value| json!({"allOf": [inner], "unevaluatedProperties": {"type": "integer"}});
    let check = SchemaCheck::new(&nested(4, json!({"properties": {"a": true}}), level)).unwrap();
    check.check(&json!({"a": 1, "b": 2})).unwrap();
    assert!(check.check(&json!({"a": 1, "b": "x"})).is_err());
    let fields: Map<String, Value> = (0..2_000).map(|at| (format!("f{at}"), json!(at))).collect();
    let deep = nested(40, json!({"properties": {"a": true}}), level);
    quick("many levels", || match SchemaCheck::new(&deep) {
        Ok(check) => drop(check.check(&json!(fields))),
        Err(problem) => assert!(problem.message().contains("deep"), "{problem}"),
    });
}

#[test]
fn patterns_have_a_largest_size() {
    let many: Map<String, Value> = (0..400)
        .map(|at| {
            (format!("p{at}"), json!({"type": "string", "pattern": format!("(a{{900}}){{9}}{at}")}))
        })
        .collect();
    let problem = quick("many patterns", || {
        SchemaCheck::new(&json!({"properties": many})).unwrap_err().to_string()
    });
    assert!(
        problem.contains("the patterns have more than 16777216 bytes when they are compiled"),
        "{problem}"
    );
    for pattern in
        ["((a{100}){100}){100}", &"\\pL".repeat(6_000), "(((((a{90}){90}){90}){90}){90}){90}"]
    {
        for schema in [json!({"pattern": pattern}), json!({"patternProperties": {pattern: true}})] {
            let problem = quick("a pattern", || SchemaCheck::new(&schema).unwrap_err().to_string());
            assert!(problem.contains("pattern") && problem.contains("bytes"), "{problem}");
        }
    }
    // Four hundred small patterns are allowed, and also a pattern of usual size on a long text.
    let many: Map<String, Value> = (0..400)
        .map(|at| (format!("p{at}"), json!({"pattern": format!("^[A-Za-z0-9.-]{{1,64}}x{at}$")})))
        .collect();
    SchemaCheck::new(&json!({"properties": many})).unwrap();
    // The cost of a match is the product of the sizes of the pattern and the text.
    let check = SchemaCheck::new(&json!({"pattern": "(x+x+)+y(a|b)*a(a|b){300}c"})).unwrap();
    quick("a long text", || check.check(&json!("ab".repeat(1 << 20))).unwrap_err().to_string());
}

#[test]
fn a_check_needs_little_stack() {
    let checked = thread::Builder::new().stack_size(1 << 20).spawn(|| {
        let schema = json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}, {"type": "object",
            "additionalProperties": {"$ref": "#"}}]});
        let check = SchemaCheck::new(&schema).unwrap();
        check.check(&nested(120, json!("x"), |value| json!([value]))).unwrap();
        check.check(&nested(120, json!(1), |value| json!({"a": value}))).unwrap_err().to_string();
        // Schemas nested within each other that apply to a single value.
        let long = nested(100, json!({"type": "string"}), |inner| json!({"not": {"not": inner}}));
        assert!(SchemaCheck::new(&long).unwrap_err().to_string().contains("nested more than 128 levels deep"));
        let mut defs = Map::new();
        for at in 0..400 {
            defs.insert(format!("t{at}"), json!({"allOf": [{"$ref": format!("#/$defs/t{}", at + 1)}]}));
        }
        defs.insert("t400".to_owned(), json!({"type": "string"}));
        match SchemaCheck::new(&json!({"$ref": "#/$defs/t0", "$defs": defs})) {
            Ok(check) => check.check(&json!(1)).map_or_else(drop, |()| panic!("it does not fit")),
            Err(problem) => assert!(problem.message().contains("one within another"), "{problem}"),
        }
    });
    checked.unwrap().join().unwrap();
}

/// Each reference may lead to each of the schemas with the same `$id`.
#[test]
fn ambiguous_references_are_limited_before_the_graph_is_built() {
    let many: Vec<Value> =
        (0..3_000).map(|_| json!({"$id": "same", "not": {"$ref": "same"}})).collect();
    let problem = quick("references", || {
        SchemaCheck::new(&json!({"prefixItems": many})).unwrap_err().to_string()
    });
    assert!(problem.contains("unfolds to more than 50000 schemas"), "{problem}");
}

#[test]
fn an_ambiguous_reference_has_all_possible_targets() {
    let schema = json!({
        "$id": "https://a.test/root", "properties": {
            "one": {"$ref": "other#/$defs/x"}, "two": {"$ref": "other#named"}, "three": {"$ref": "#/$defs/a%20b~1c"},
            "four": {"$ref": "https://json-schema.org/draft/2020-12/schema"}
        },
        "$defs": {"a b/c": {"type": "integer"}, "o": {"$id": "other", "$defs": {
            "x": {"$ref": "#/$defs/y"}, "y": {"type": "string"}, "z": {"$anchor": "named", "type": "null"}
        }}}
    });
    let check = SchemaCheck::new(&schema).unwrap();
    check.check(&json!({"one": "x", "two": null, "three": 1, "four": {"type": "string"}})).unwrap();
    for wrong in
        [json!({"one": 1}), json!({"two": 1}), json!({"three": "x"}), json!({"four": {"type": 1}})]
    {
        assert!(check.check(&wrong).is_err(), "{wrong}");
    }
    for reference in ["#/$defs/none", "#none", "https://a.test/none", "other.json", ".."] {
        let problem = SchemaCheck::new(&json!({"$defs": {"a": {}}, "$ref": reference}))
            .unwrap_err()
            .to_string();
        assert!(problem.contains("leads to no schema within the schema"), "{reference}: {problem}");
    }
}
