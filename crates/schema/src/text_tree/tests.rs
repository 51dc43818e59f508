//! Tests of the parser for YAML and JSON with positions.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn json(text: &str) -> Value {
    Tree::read(text).unwrap().to_json()
}

fn problem(text: &str) -> (String, Range<usize>) {
    let mut problems = Tree::read(text).unwrap_err();
    let first = problems.swap_remove(0);
    (first.message(), first.span())
}

#[test]
fn values_of_yaml() {
    let text = "a: 1\nb: [yes, no, on, ~, null, true]\nc: |\n  two\n  lines\nd: 'x'\ne: 0x1f\nf: -2.5e3\ng: 1.0.0\n5: .5\n";
    let expected = json!({"a": 1, "b": ["yes", "no", "on", null, null, true], "c": "two\nlines\n", "d": "x", "e": 31,
                          "f": -2500.0, "g": "1.0.0", "5": 0.5});
    assert_eq!(json(text), expected);
    assert_eq!(json("a: &x [1, {b: 2}]\nc: *x"), json!({"a": [1, {"b": 2}], "c": [1, {"b": 2}]}));
}

#[test]
fn places_are_bytes() {
    let text = "ä: é\nb: [x, 'naïve']\n";
    let tree = Tree::read(text).unwrap();
    assert_eq!(&text[tree.place_of("b").unwrap()], "b");
    assert_eq!(&text[tree.place_of("naïve").unwrap()], "'naïve'");
    let text =
        "{\"a\": \"\\ud83d\\ude00 \\\\ud83d\", \"b\": \"é\", \"\\ud83d\\ude00\": 1, \"last\": 2}";
    let tree = Tree::read(text).unwrap();
    assert_eq!(tree.to_json(), serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(&text[tree.place_of("last").unwrap()], "\"last\"");
}

#[test]
fn what_is_not_read_is_named_where_it_stands() {
    for (text, says, at) in [
        ("", "the document is empty", 0..0),
        ("a: 1\na: 2", "the field `a` is here a second time; remove one", 5..6),
        ("a: !!str 5", "tags such as `!!str` are not read; write the value alone", 3..10),
        ("<<: {a: 1}", "merge keys are of YAML 1.1 and are not read; ", 0..2),
        ("[a]: 1", "the name of a field is a text, and this is a list", 0..3),
        ("a: .inf", "JSON has no number for `.inf`; put it in quotes if it is a text", 3..7),
        ("a: 99999999999999999999", "JSON has no number for `99999999999999999999`; ", 3..23),
        (
            "a: 1\n---\nb: 2",
            "a second document begins here; give each document a file of its own",
            5..8,
        ),
        (
            "a: [1\nb: 2",
            "this line is read as a part of the one above it; write a `:` after the name there, ",
            7..8,
        ),
        ("a 1\nb: 2", "this line is read as a part of the one above it; ", 5..6),
        ("a: 1\n  b: 2", "this line is read as a part of the one above it; ", 8..9),
        (
            "é:\n\t- 1",
            "this line is indented with a tab, and YAML is indented with spaces; write spaces",
            4..5,
        ),
        (
            "a: b\n\tc: 1",
            "this line is indented with a tab, and YAML is indented with spaces; ",
            5..6,
        ),
        ("a:\t1", "a tab stands here, where YAML has a space; write a space", 2..3),
        (
            "a: what: now",
            "a second `:` in one value; put the text in quotes, as in `question: \"what: now\"`",
            7..8,
        ),
        ("a: {q: what: now}", "a second `:` in one value; ", 11..12),
        (
            "a:\n  - b: 1\n   c: 2",
            "this line does not belong to the list or the object above it, ",
            15..19,
        ),
        (
            "a:\n    b: 1\n  c: 2",
            "this line does not belong to the list or the object above it, ",
            14..18,
        ),
        ("a: 1\n- b", "this line does not belong to the list or the object above it, ", 5..8),
        (
            "a: 'x",
            "a text in quotes begins here and does not end; close it with the same quote",
            3..3,
        ),
        ("a: [1, 2", "a list in `[..]` or an object in `{..}` is not complete here; ", 8..8),
        ("{\"a\": 1 \"b\": 2}", "this is not JSON: expected `,` or `}`", 8..8),
        ("{\n\t\"a\": [1, 2}", "this is not JSON: expected `,` or `]`", 13..13),
        ("a: @b", "this is neither YAML nor JSON: ", 3..3),
        (
            "a: &ab {}\nb: [*abb]",
            "no value above has the anchor `&abb`; did you mean `ab`?",
            14..18,
        ),
        ("é: *bold* text", "no value above has the anchor `&bold*`; put a text in quotes", 4..10),
        ("a: &x [*x]", "this stands for a value that is not complete here", 7..9),
    ] {
        let (message, place) = problem(text);
        assert!(message.starts_with(says), "{text}: {message}");
        assert_eq!(place, at, "{text}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(", ")));
    }
    assert!(problem(&bomb).0.starts_with("the document has more than 200000 values"));
    let large =
        format!("big: &a \"{}\"\nrest: [{}]\n", "x".repeat(50_000), ["*a"; 4000].join(", "));
    assert!(
        problem(&large).0.starts_with("the texts of the document have more than 16777216 bytes")
    );
    let names =
        format!("big: &a {{{}: 1}}\nrest: [{}]\n", "x".repeat(1000), ["*a"; 20_000].join(", "));
    assert!(
        problem(&names).0.starts_with("the texts of the document have more than 16777216 bytes")
    );
    let mut nested = format!("\"{}\"", "x".repeat(400_000));
    for level in 0..60 {
        nested = format!("&a{level} [{nested}]");
    }
    assert!(
        problem(&nested).0.starts_with("the texts of the document have more than 16777216 bytes")
    );
    assert!(
        problem(&"[".repeat(1000)).0.contains("deep")
            || problem(&"[".repeat(1000)).0.contains("recursion")
    );
    assert!(problem(&" ".repeat(MOST_BYTES + 1)).0.starts_with("the document has 4194305 bytes"));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e12..1e12).prop_map(|number: f64| Value::from(number)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[^<].{0,5}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_is_read_as_json_reads_it(value in value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(Tree::read(&text).map(|tree| tree.to_json()), Ok(value));
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}") {
        let _ = Tree::read(&text);
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(text in "([a-c:\\-\\[\\]{},&*!|>'\"#\n? ]|\u{e9}|\t){0,80}") {
        if let Err(problems) = Tree::read(&text) {
            for problem in problems {
                prop_assert!(text.get(problem.span()).is_some(), "{:?}", problem);
            }
        }
    }
}
