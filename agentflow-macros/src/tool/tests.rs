//! Tests with invalid input: the macro must not panic, and the item must be kept.

use std::str::FromStr;

use proc_macro2::TokenStream;

fn expand(options: &str, item: &str) -> String {
    let options = TokenStream::from_str(options).expect("options lex");
    let item = TokenStream::from_str(item).expect("the item lexes");
    super::expand(options, item).to_string()
}

#[test]
fn half_typed_items_are_kept_and_reported() {
    for item in [
        "",
        "fn",
        "fn f",
        "fn f(",
        "fn f()",
        "fn f(a)",
        "fn f(a:)",
        "fn f(a: , b: i64) {}",
        "fn f(a: i64,, b: i64) {}",
        "fn f() -> {}",
        "fn f<T",
        "pub(",
        "async",
        "unsafe extern",
        "/// Text.",
        "struct S { a: i64 }",
        "enum E { A }",
        "mod m {}",
        "impl S { fn f(&self) {} }",
        "const X: i64 = 5;",
        "f();",
        "@ # $ %",
    ] {
        // The compiler never passes unbalanced delimiters to a macro, so such inputs are skipped.
        let Ok(tokens) = TokenStream::from_str(item) else { continue };
        let output = expand("", item);
        assert!(
            output.starts_with(&tokens.to_string()) || item == "fn f()",
            "{item} became {output}"
        );
        assert!(output.contains("compile_error") || item == "fn f()", "{item} became {output}");
    }
}

#[test]
fn a_body_is_not_read() {
    for body in ["{ let x = }", "{ if 1 }", "{ match a { ", "{ a. }", "{ @ }", "{ } trailing"] {
        let Ok(tokens) = TokenStream::from_str(body) else { continue };
        let output = expand("", &format!("fn f(a: i64) -> i64 {tokens}"));
        // The expansion closes its own block after the user's block, so `trailing` follows that
        // brace.
        let (block, rest) = tokens
            .to_string()
            .split_once(" trailing")
            .map_or((tokens.to_string(), ""), |(block, _)| (block.to_owned(), "} trailing"));
        assert!(output.contains(&block) && output.contains(rest), "{output}");
        assert!(output.contains("ToolFn1"), "{output}");
    }
}

#[test]
fn half_typed_options_are_reported() {
    let item = "fn f(a: i64) -> i64 { a }";
    for options in [
        "n",
        "name",
        "name =",
        "name = 5",
        "name = \"a\" timeout = \"5s\"",
        "timeout = \"5\"",
        ", ,",
        "= 5",
        "scopes",
        "scopes()",
        "scopes(5)",
        "scopes[read]",
        "scopes(read read)",
        "blocking = true",
        "retry = \"3\"",
        "retry = 99999999999",
        "max_output = -1",
        "crate",
        "crate =",
        "crate = \"renamed\"",
        "effects = \"rite\"",
        "\"name\"",
    ] {
        let output = expand(options, item);
        assert!(output.contains("fn f (a : i64) -> i64 {"), "{options} became {output}");
        assert!(output.contains("{ a }"), "{options} became {output}");
        assert!(output.contains("compile_error"), "{options} became {output}");
        assert!(
            output.contains("struct f { }"),
            "{options}: `tools![f]` would be a second error: {output}"
        );
    }
}

#[test]
fn every_mistake_is_reported() {
    let item = "unsafe fn f<T>(#[tool(defalt = 1)] a: &str, (b, c): (i64, i64), d: impl Copy) {}";
    let output = expand("nmae = \"x\", timeout = \"5 parsecs\", retry = 1, retry = 2", item);
    assert_eq!(output.matches("compile_error").count(), 9, "{output}");
}
