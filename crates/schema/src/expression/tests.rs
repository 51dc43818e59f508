//! Tests of expressions: grammar, values, limits and error messages.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::types::{KnownKind, KnownKinds};
use super::{Expression, Path};
use crate::diagnostic::{Code, Diagnostic};

fn variables() -> Value {
    json!({
        "order": {"total": 120, "rate": 1.5, "kind": "b", "items": [{"n": 1}, {"n": 5}], "none": null, "yes": true},
        "names": ["ada", "bob"], "big": 9_223_372_036_854_775_807_i64, "huge": 18_446_744_073_709_551_615_u64,
    })
}

fn value(text: &str) -> Result<Value, String> {
    let expression: Expression =
        text.parse().map_err(|error: super::ExpressionError| error.to_string())?;
    expression.evaluate(&variables()).map_err(|error| error.to_string())
}

#[test]
fn values_are_those_of_the_standard() {
    for (text, expected) in [
        ("1 + 2 * 3 - 4 / 2", json!(5)),
        ("-(2 - 5) % 2", json!(1)),
        ("7 / 2", json!(3)),
        ("7.0 / 2", json!(3.5)),
        ("order.total * order.rate", json!(180.0)),
        ("1 == 1.0 && 2 > 1.5", json!(true)),
        ("huge > big && big < huge", json!(true)),
        ("'a' + \"b\" + 'c\\n\\''", json!("abc\n'")),
        ("[1, 2] + [3]", json!([1, 2, 3])),
        ("order.items[1].n", json!(5)),
        ("order['kind']", json!("b")),
        ("order.kind in ['a', 'b'] && !('x' in names)", json!(true)),
        ("'total' in order", json!(true)),
        (
            "has(order.total) && !has(order.none) && !has(order.no) && !has(order.no.no) && !has(no.no)",
            json!(true),
        ),
        ("order.total > 100 ? 'many' : 'few'", json!("many")),
        ("false && no.no || true", json!(true)),
        ("no.no || true", json!(true)),
        ("no.no && false", json!(false)),
        ("names.all(n, size(n) == 3) && names.exists(n, n.startsWith('b'))", json!(true)),
        ("names.exists_one(n, n.endsWith('a'))", json!(true)),
        ("order.items.filter(i, i.n > 2).map(i, i.n * 2)", json!([10])),
        ("names.map(n, names.filter(m, m != n))", json!([["bob"], ["ada"]])),
        ("[1, 2].exists(i, i / 0 == 1 || i == 2)", json!(true)),
        ("names.size() == size(names) && 'é'.size() == 1", json!(true)),
        ("int('7') + int(7.9) + int(double('1.5'))", json!(15)),
        ("string(3) + string(true) + string('x')", json!("3truex")),
        ("'abc'.contains('b')", json!(true)),
        ("null == order.none", json!(true)),
        ("1e3 == 1000.0", json!(true)),
        ("!order.yes", json!(false)),
        ("[1, 2, 3].map(i, i > 1, i * 2)", json!([4, 6])),
        ("0xFf + 1", json!(256)),
        ("-9223372036854775808 < 0", json!(true)),
        (r"r'\d' + '\u00e9\x41\U0001F511\101'", json!("\\d\u{e9}A\u{1f511}A")),
        ("'''it's\nso''' + \"\"\"a\"b\"\"\"", json!("it's\nsoa\"b")),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, says) in [
        ("", "the expression ends at byte 0, and a value should follow"),
        ("a +", "the expression ends at byte 3, and a value should follow"),
        ("a b", "`b` stands at byte 2, and the expression should end"),
        ("a = 1", "`=` in place of `==` stands at byte 2"),
        ("a & b", "`&` in place of `&&` stands at byte 2"),
        ("a and b", "`and` in place of `&&` stands at byte 2"),
        ("(a or b)", "`or` in place of `||` stands at byte 3"),
        ("a == True", "`True` at byte 5 is a word of Python; write `true`"),
        ("a == None", "`None` at byte 5 is a word of Python; write `null`"),
        ("not a", "`not` at byte 0 is a word of Python; write `!`"),
        ("(a", "the expression ends at byte 2, and `)` should follow"),
        ("[1, 2", "and `,` or `]` should follow"),
        ("a.", "the expression ends at byte 2, and the name of a field should follow"),
        ("{'a': 1}", "an expression writes no objects"),
        ("'abc", "the text that begins at byte 0 has no `'` at its end"),
        ("'a\\d'", "`\\` at byte 2 begins none of"),
        ("a # b", "`#` at byte 2 has no meaning"),
        ("'a\nb'", "the text that begins at byte 0 has no `'` at its end"),
        ("'\\u12'", "`\\` at byte 1 begins none of"),
        ("'\\ud800'", "`\\` at byte 1 begins none of"),
        ("0xg", "the number `0xg` at byte 0 has no hexadecimal value of 64 bits"),
        ("9223372036854775808", "is too large; write it as a double"),
        ("12abc", "the number `12` at byte 0 has letters behind it"),
        ("99999999999999999999", "is too large; write it as a double"),
        ("siez(a)", "unknown function `siez` at byte 0; did you mean `size`?"),
        ("a.matches('x')", "unknown function `matches` at byte 2; there are `size`, "),
        ("contains('a')", "`contains` at byte 0 stands behind a value"),
        ("size(a, b)", "`size` at byte 0 has 2 arguments, and takes one value"),
        ("has(a)", "`has` at byte 0 takes one field"),
        ("names.all(1, true)", "a name for the item should follow, as in `all(item, ..)`"),
        ("oder.total", "unknown name `oder` at byte 0; did you mean `order`?"),
        ("1 + order.totl", "no field `totl` at byte 10; did you mean `total`?"),
        ("order.items[7]", "no item 7 at byte 11, the list has 2"),
        ("order.items['n']", "a list has no field `n`, which is read at byte 11"),
        ("order.items[1.5]", "`1.5` is not the number of an item"),
        (
            "order.kind > 3",
            "`>` cannot compare a text with a number at byte 11; it takes two numbers or two texts",
        ),
        (
            "order.kind && true",
            "expected `true` or `false`, found a text at byte 6; compare it with a value",
        ),
        ("1 / 0", "division by zero in `/` at byte 2"),
        ("big + 1", "the result of `+` is too large for an integer"),
        ("1e308 * 1e308", "not a number that JSON has"),
        ("-order.kind", "`-` cannot be applied to a text at byte 0; it takes a number"),
        ("size(3)", "`size` does not take a number"),
        ("1 in 2", "`in` cannot search a number at byte 2; it takes a list or an object"),
    ] {
        let error = value(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn integers_beyond_the_range_are_compared_and_not_computed_with() {
    let data = json!({"x": u64::MAX, "y": u64::MAX});
    let evaluated = |text: &str| {
        text.parse::<Expression>().unwrap().evaluate(&data).map_err(|error| error.to_string())
    };
    assert_eq!(evaluated("x == y && x > 5"), Ok(json!(true)));
    for text in ["x - 1 == x", "1.5 * x", "-x", "x / 2"] {
        let error = evaluated(text).unwrap_err();
        assert!(
            error.contains("the integer 18446744073709551615 is beyond the range"),
            "{text}: {error}"
        );
    }
}

#[test]
fn depth_length_and_steps_are_bounded() {
    let deep = |count: usize| format!("{}1{}", "(".repeat(count), ")".repeat(count));
    assert!(value(&deep(60)).is_ok());
    assert!(value(&deep(10_000)).unwrap_err().contains("at most 16384 bytes"));
    for text in [
        deep(100),
        "!".repeat(100),
        "-".repeat(100),
        format!("a{}", "[0]".repeat(300)),
        format!("1{}", "+1".repeat(300)),
    ] {
        let error = value(&text).unwrap_err();
        assert!(
            error.contains("nested more than 64 levels")
                || error.contains("too many operators in a row"),
            "{error}"
        );
    }
    let long: Vec<String> = (0..200).map(|n| format!("(order.total == {n})")).collect();
    assert_eq!(value(&long.join(" || ")), Ok(json!(true)));
    let many = json!({"all": (0..1000).collect::<Vec<_>>()});
    let square: Expression = "all.map(a, all.map(b, all.map(c, a + b + c)))".parse().unwrap();
    let error = square.evaluate(&many).unwrap_err().to_string();
    assert!(error.contains("takes more than 100000 steps"), "{error}");
    let texts = json!({"t": "x".repeat(1 << 20), "all": (0..1000).collect::<Vec<_>>()});
    let grown: Expression = "all.map(a, t + t)".parse().unwrap();
    assert!(grown.evaluate(&texts).unwrap_err().to_string().contains("steps"));
    // `has` must not hide an exceeded limit.
    let hidden: Expression =
        "has(all.map(a, all.map(b, all.map(c, 1)))[0].x) || true".parse().unwrap();
    assert!(hidden.evaluate(&many).is_err());
}

#[test]
fn paths_are_those_of_variables() {
    let expression: Expression =
        "has(page.title) && rows[0].n > 2 && rows.all(r, r.x == page['a b'].c + r[k])"
            .parse()
            .unwrap();
    let paths: Vec<(String, bool)> =
        expression.paths().iter().map(|path| (path.parts.join("."), path.may_miss)).collect();
    let expected = [
        ("page.title", true),
        ("rows.0.n", false),
        ("rows", false),
        ("page.a b.c", false),
        ("k", false),
    ];
    assert_eq!(paths, expected.map(|(path, may_miss)| (path.to_owned(), may_miss)));
}

const NONE: Code = Code::new("test.none", "there is no {name}", "");

struct Types;

impl KnownKinds for Types {
    fn kind(&self, path: &Path) -> Result<KnownKind, Diagnostic> {
        match path.parts.join(".").as_str() {
            "n" => Ok(KnownKind::Number),
            "t" => Ok(KnownKind::Text),
            "b" => Ok(KnownKind::Bool),
            "l" => Ok(KnownKind::List),
            "no" => Err(Diagnostic::new(NONE).name("name", "no")),
            _ => Ok(KnownKind::Any),
        }
    }
}

#[test]
fn types_are_checked_where_they_are_known() {
    let problems = |text: &str| -> Vec<String> {
        let expression: Expression = text.parse().unwrap();
        expression.problems_of_condition(&Types).iter().map(ToString::to_string).collect()
    };
    for right in [
        "n > 3 && t == 'x'",
        "x",
        "b ? x : n",
        "l.all(i, i > 3)",
        "x + 1 > n",
        "n == null",
        "t + 'x' in l",
        "has(x.y)",
    ] {
        assert_eq!(problems(right), Vec::<String>::new(), "{right}");
    }
    for (text, says) in [
        ("n", "expected `true` or `false`, found a number at byte 0; compare it with a value"),
        (
            "n > 'x'",
            "`>` cannot be applied to a number and a text at byte 2; it takes two numbers or two texts",
        ),
        ("b && t", "expected `true` or `false`, found a text at byte 5; `&&` takes two conditions"),
        ("n == 'x'", "`==` compares a number with a text, which are never equal at byte 2"),
        (
            "1 in n",
            "expected a list or an object, found a number at byte 5; `in` searches a list or an object",
        ),
        (
            "t * 2 > 1",
            "`*` cannot be applied to a text and a number at byte 2; it takes two numbers",
        ),
        (
            "n.contains('x')",
            "expected a text, found a number at byte 0; that is the argument of `contains`",
        ),
        ("size(b) > 1", "expected a text or a list or an object, found `true` or `false`"),
        ("n.all(i, true)", "expected a list or an object, found a number"),
        ("l.all(i, size(i))", "expected `true` or `false`, found a number"),
        ("has(no.x) || no", "there is no `no`"),
        ("l.map(i, i)", "expected `true` or `false`, found a list"),
    ] {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(says), "{text}: {found:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Parsing any string fails cleanly, or the expression evaluates to a value or an error. No
    /// input panics.
    #[test]
    fn any_text_is_read_or_refused(text in "[a-c0-9.()\\[\\]'\"+*/%<>=!&|?:, \\\\é{}-]{0,32}") {
        if let Ok(expression) = text.parse::<Expression>() {
            let _ = expression.evaluate(&json!({"a": {"b": [1, "x"]}, "b": 2.5, "c": null}));
            let _ = expression.paths();
            let _ = expression.problems_of_condition(&Types);
        }
    }

    /// The same property for strings that are nearly valid expressions.
    #[test]
    fn nearly_right_expressions_are_read_or_refused(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "b", "1", "2.5", "'x'", "(", ")", "[", "]", ".", "has", "all", "map", "size", "+", "&&", "||", "==", "<", "?", ":", ",", "in", "-", "!", "null",
        ]), 0..24)
    ) {
        let text = parts.join(" ");
        if let Ok(expression) = text.parse::<Expression>() {
            let _ = expression.evaluate(&json!({"a": [1, {"b": 2}], "b": true}));
            prop_assert_eq!(expression.to_string(), text);
        }
    }
}
