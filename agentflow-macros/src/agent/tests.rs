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
        "async",
        "async fn",
        "async fn f",
        "async fn f(",
        "async fn f(a)",
        "async fn f(a:) -> R;",
        "async fn f(a: , b: i64) -> R;",
        "async fn f(a: i64,, b: i64) -> R;",
        "async fn f() ->",
        "async fn f() -> ;",
        "async fn f<T",
        "pub(",
        "/// Text.",
        "struct S { a: i64 }",
        "mod m {}",
        "impl S { async fn f(&self) {} }",
        "const X: i64 = 5;",
        "f();",
        "@ # $ %",
    ] {
        // The compiler never passes unbalanced delimiters to a macro, so such inputs are skipped.
        let Ok(tokens) = TokenStream::from_str(item) else { continue };
        let output = expand("", item);
        assert!(output.contains(&tokens.to_string()), "{item} became {output}");
        assert!(output.contains("compile_error"), "{item} became {output}");
    }
}

#[test]
fn a_body_is_refused_and_kept() {
    for body in ["{ let x = }", "{ if 1 }", "{ a. }", "{ @ }", "{ } trailing", ""] {
        let Ok(tokens) = TokenStream::from_str(body) else { continue };
        let output = expand("", &format!("/// Text.\nasync fn f(a: i64) -> R {tokens}"));
        assert!(output.contains(&format!("async fn f (a : i64) -> R {tokens}")), "{output}");
        assert_eq!(output.matches("compile_error").count(), 1, "{output}");
    }
    let output = expand("", "/// Text.\nasync fn f(a: i64) -> R; trailing");
    assert_eq!(output.matches("compile_error").count(), 1, "{output}");
}

#[test]
fn half_typed_options_are_reported_and_the_agent_is_written() {
    let item = "/// Text.\nasync fn f(a: i64) -> R;";
    for options in [
        "m",
        "model",
        "model =",
        "model = 5",
        "model = \"\"",
        "model = \" \"",
        "model = \"openai/\"",
        "model = \"/gpt-5-mini\"",
        "model = \"openai/gpt-5-mini \"",
        "model = \"a/b\" tools = [c]",
        "tools",
        "tools = search",
        "tools = [search",
        "tools = [\"search\"]",
        "tools(search)",
        "temperature = \"0\"",
        "temperature = -1",
        "temperature = 1e999",
        "temperature = warm",
        "prompt_cache = \"10m\"",
        "prompt_cache",
        "max_tokens = 0",
        "max_tokens = 1.5",
        "max_steps = 0",
        "output_retries = -1",
        "name = \"two words\"",
        "crate = \"renamed\"",
        ",",
    ] {
        let Ok(_) = TokenStream::from_str(options) else { continue };
        let output = expand(options, item);
        assert_eq!(output.matches("compile_error").count(), 1, "{options} became {output}");
        assert!(output.contains("async fn f (a : i64) -> R { < R as"), "{options} became {output}");
        assert!(output.contains("fn definition"), "{options} became {output}");
    }
}

#[test]
fn every_mistake_is_reported() {
    let item = "/// {x}\n/// {y} {\nunsafe fn f<T>(mut a: &str, (b, c): (i64, i64), d: impl Copy, e: &Context, _: u8) {}";
    let output = expand("nmae = \"x\", temperature = -1, max_steps = 1, max_steps = 2", item);
    // Three mistakes in the options, three in placeholders, and eleven in the signature: not async,
    // unsafe, generic, no return type, a body, `mut`, two patterns, `impl`, a borrowed first
    // parameter, and a context that is not first.
    assert_eq!(output.matches("compile_error").count(), 17, "{output}");
    assert!(output.contains("unsafe fn f < T > (mut a : & str"), "{output}");
    assert!(output.contains("struct f { }"), "{output}");
}

#[test]
fn an_agent_needs_an_instruction() {
    for item in ["async fn f(a: i64) -> R;", "///\n#[doc(hidden)]\nasync fn f(a: i64) -> R;"] {
        let output = expand("", item);
        assert!(output.contains("an agent needs an instruction"), "{output}");
    }
}
