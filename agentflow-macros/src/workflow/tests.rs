//! Tests with invalid input: the macro must not panic, and no token may be lost.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

fn expand(options: &str, item: &str) -> TokenStream {
    let options = TokenStream::from_str(options).expect("options lex");
    let item = TokenStream::from_str(item).expect("the item lexes");
    super::expand(options, item)
}

/// Returns the individual tokens in order.
fn flat(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => flat(group.stream()),
            other => vec![other.to_string()],
        })
        .collect()
}

/// Returns `true` if `output` contains all tokens of `item`.
fn holds(output: &TokenStream, item: &str) -> bool {
    let output = flat(output.clone());
    flat(TokenStream::from_str(item).expect("it lexes")).iter().all(|token| output.contains(token))
}

fn body(body: &str) -> String {
    format!("async fn f(cx: &Context, a: String, b: u32) -> Result<String> {{ {body} }}")
}

fn errors(body_text: &str) -> Vec<String> {
    let mut errors = crate::errors::Errors::default();
    let function =
        crate::function::function(TokenStream::from_str(&body(body_text)).expect("it lexes"), "")
            .expect("a function");
    let (_, inputs, _) = super::signature::parameters(&function, &mut errors);
    let block = syn::parse2(function.body).expect("a block");
    super::body::body(block, &inputs, &mut errors);
    errors.messages()
}

#[test]
fn half_typed_items_are_kept_and_reported() {
    for item in [
        "",
        "fn",
        "fn f(",
        "async fn f",
        "async fn f()",
        "async fn f(a)",
        "async fn f(a: ) -> Result<()> {}",
        "async fn f() -> {}",
        "async fn f() -> Result<()>;",
        "async fn f<T",
        "pub(",
        "/// Text.",
        "struct S { a: i64 }",
        "impl S { async fn f(&self) {} }",
        "f();",
        "@ # $ %",
    ] {
        // The compiler never passes unbalanced delimiters to a macro, so such inputs are skipped.
        let Ok(_) = TokenStream::from_str(item) else { continue };
        let output = expand("", item);
        assert!(holds(&output, item), "{item} became {output}");
        assert!(output.to_string().contains("compile_error"), "{item} became {output}");
    }
}

#[test]
fn half_typed_bodies_are_kept() {
    for text in [
        "",
        "let",
        "let x",
        "let x =",
        "let x = ;",
        "let x = step(a.).await?;",
        "let x = step(a).",
        "let x = step(a).await?; x.",
        "let x = step(a).await; match x {",
        "match a { }",
        "let x = match a { Some(y) => };",
        "let x = match a { Some(y) => step(y).await?, _ };",
        "if a { step(a).await }",
        "let x = if a { };",
        "let x = if a { step(a).await? } else ;",
        "let x = gate!(",
        "let x = gate!().await?;",
        "let x = gate!(\"a\", ).await?;",
        "let x = map!(a, |).await?;",
        "let x = map!(a, |x|).await?;",
        "let x = race!(,).await?;",
        "let x = repeat!(a, |x| step(x), max = ).await?;",
        "let x = repeat!(a, |x| step(x), max).await?;",
        "let x = timeout!(5, step(a)).await?;",
        "let x = timeout!(\"5s\").await?;",
        "#[node] let x = step(a).await?; Ok(x)",
        "#[node(] let x = step(a).await?;",
        "#[node(retry =)] let x = step(a).await?; Ok(x)",
        "#[after] let x = step(a).await?; Ok(x)",
        "#[after()] let x = step(a).await?; Ok(x)",
        "#[after(5)] let x = step(a).await?; Ok(x)",
        "let (a, = step(a).await?;",
        "let Some(x) = step(a).await? else { return };",
        "fn inner() {} inner",
        "a + ;",
        "step(a).await?",
        "Ok(",
        "return",
        "'a: loop { break 'a }",
        "loop {}",
        "{}",
        "{ let x = step(a).await?; }",
    ] {
        let item = body(text);
        let Ok(_) = TokenStream::from_str(&item) else { continue };
        let output = expand("", &item);
        assert!(holds(&output, &item), "{item} became {output}");
        assert!(
            output.to_string().contains("struct f"),
            "{item}: `f::workflow()` would be a second error: {output}"
        );
    }
}

#[test]
fn half_typed_options_are_reported() {
    for options in [
        "name",
        "name = 5",
        "name = \"\"",
        "concurrency = 0",
        "stop",
        "stop = never",
        "crate =",
        "nmae = \"x\"",
        ", ,",
    ] {
        let item = body("Ok(a)");
        let output = expand(options, &item);
        assert!(holds(&output, &item), "{options} became {output}");
        assert!(output.to_string().contains("compile_error"), "{options} became {output}");
    }
}

#[test]
fn every_mistake_is_reported() {
    let all = errors(
        "let mut x = step(a).await?; x += 1; return Ok(x); \
         #[after(z)] let w = gate!(); let f = async { 1 }; for y in x { if y { return Ok(y); } step(y).await?; } \
         let c = Cell::new(b); f(return Ok(a)).await?; let d: &str = f(a);",
    );
    let starts = [
        "`return` cannot end the workflow from within",
        "a value is recorded, so it owns its data",
        "a workflow ends with its output",
        "a value cannot change in a workflow",
        "nothing after this `return`",
        "there is no node `z`",
        "add `.await?` after the form",
        "`gate!` takes a question",
        "this block is not awaited",
        "this can change while steps read it",
        "`return` can end a workflow only",
    ];
    for start in starts {
        assert!(all.iter().any(|message| message.starts_with(start)), "{start}: {all:#?}");
    }
    assert_eq!(all.len(), starts.len(), "{all:#?}");
}

#[test]
fn what_is_allowed_is_not_reported() {
    for text in [
        "Ok(a)",
        "step(a).await",
        "let x = { let mut sum = 0; for n in 0..b { sum += n; if sum > 5 { break; } } sum }; Ok(x)",
        "let x = step(async { return 5 }).await?; Ok(x)",
        "let f = |x: u32| { if x > 1 { return 2; } x }; Ok(f(b))",
        "let x = step(a).await?; let y = x; let y = y + 1; Ok(y)",
        "let (x, Some(y)) = step(a).await?; #[after(x)] let z = step(y).await?; Ok(z)",
        "#[node(id = \"again\")] let a = step(a).await?; Ok(a)",
        "let _ = step(a).await?; let _ = step(b).await?; Ok(())",
        "let x = agentflow::gate!(\"a {b}\", a, answer = Vec<u32>).await?; Ok(x)",
        "Ok(map!(a, |(x, y)| step(x, y)).await?)",
        "map!(a, |x| step(x)).await",
        "match b { 1 => step(a).await, 2 => { let x = step(a).await?; Ok(x) } _ => Ok(a) }",
        "let x = timeout!(\"1s\", race!(one(a), two(a))).await?; Ok(x)",
        "step(a).await?; step(b).await?; Ok(())",
        "loop { if step(b).await? { break; } } while step(b).await? {} for x in a { if step(x).await? { continue; } } Ok(a)",
        "let x = step(a).await?; let x = step(x).await?; Ok(x)",
        "let v = parse(a)?; check(v)?; assert!(v > 1); println!(\"{v}\"); Ok(v)",
        "fn inner() {} use std::fmt; const N: u32 = 1; Ok(a)",
        "if b > 1 { step(a).await?; } Ok(a)",
        "if b > 1 { return Ok(a); } step(a).await",
        "let Some(x) = step(a).await? else { return Ok(b) }; Ok(x)",
        "let x = match step(a).await { Ok(x) => step(x).await?, Err(e) => return Err(e.into()) }; Ok(x)",
        "for x in a { let y = step(x).await?; step(y).await?; } Ok(b)",
        "let x = map!(a, |x| { let y = step(x).await?; step(y).await? }).await?; Ok(x)",
        // An arm without a value.
        "if step(a).await? && b > 1 { step(b).await } else if step(b).await? { Ok(a) } else { panic!(\"neither\") }",
        "#[cfg(unix)] let x = step(a).await?; #[cfg(not(unix))] let x = step(b).await?; Ok(x)",
        "let x = match b { #[cfg(unix)] 1 => step(b).await?, _ => b }; Ok(x)",
        "match b { Some(mut x) if let Some(y) = &a => step(x).await, _ => unreachable!() }",
    ] {
        assert_eq!(errors(text), Vec::<String>::new(), "{text}");
    }
}

/// Each `MARK` is a position where an attribute may be written. No attribute may be dropped: it is
/// in the expansion, or it is an error.
#[test]
fn no_attribute_is_dropped() {
    let places = [
        "MARK let x = step(a).await?; Ok(x)",
        "let x = MARK step(a).await?; Ok(x)",
        "let x = (MARK step(a)).await?; Ok(x)",
        "MARK let x: u32 = step(a).await?; Ok(x)",
        "MARK let (x, y) = step(a).await?; Ok(x + y)",
        "MARK let _ = step(a).await?; Ok(a)",
        "MARK let x = 5; Ok(x)",
        "MARK let x = gate!(\"a\").await?; Ok(x)",
        "let x = MARK gate!(\"a\").await?; Ok(x)",
        "let x = (MARK gate!(\"a\")).await?; Ok(x)",
        "let x = gate!(MARK \"a\", b).await?; Ok(x)",
        "let x = gate!(\"a\", MARK b).await?; Ok(x)",
        "let x = map!(MARK a, |x| step(x)).await?; Ok(x)",
        "let x = map!(a, MARK |x| step(x)).await?; Ok(x)",
        "let x = map!(a, |MARK x| step(x)).await?; Ok(x)",
        "let x = map!(a, |x| MARK step(x)).await?; Ok(x)",
        "let x = race!(MARK one(a), two(a)).await?; Ok(x)",
        "let x = repeat!(MARK a, |x| step(x), max = 5).await?; Ok(x)",
        "let x = repeat!(a, |x| step(x), until = MARK |x| x, max = 5).await?; Ok(x)",
        "let x = repeat!(a, |x| step(x), max = MARK 5).await?; Ok(x)",
        "let x = timeout!(MARK \"5s\", step(a)).await?; Ok(x)",
        "let x = timeout!(\"5s\", MARK step(a)).await?; Ok(x)",
        "let x = timeout!(\"5s\", MARK gate!(\"a\")).await?; Ok(x)",
        "MARK let x = if a { step(b).await? } else { b }; Ok(x)",
        "let x = MARK if a { step(b).await? } else { b }; Ok(x)",
        "let x = if a { MARK step(b).await? } else { b }; Ok(x)",
        "let x = if a { step(b).await? } else { MARK b }; Ok(x)",
        "let x = match MARK a { 1 => step(b).await?, _ => b }; Ok(x)",
        "let x = MARK match a { 1 => step(b).await?, _ => b }; Ok(x)",
        "let x = match a { MARK 1 => step(b).await?, _ => b }; Ok(x)",
        "let x = match a { MARK 1 => { step(b).await? } _ => b }; Ok(x)",
        "let x = match a { 1 => MARK step(b).await?, _ => b }; Ok(x)",
        "let x = match a { 1 => MARK { step(b).await? } _ => b }; Ok(x)",
        "let x = match a { 1 => MARK gate!(\"a\").await?, _ => b }; Ok(x)",
        "let x = match a { 1 => MARK match b { 1 => step(b).await?, _ => b }, _ => b }; Ok(x)",
        "let x = match a { 1 => { MARK let y = step(b).await?; y } _ => b }; Ok(x)",
        "MARK Ok(a)",
        "Ok(MARK a)",
        "MARK step(a).await",
        "MARK Ok(step(a).await?)",
        "Ok(MARK step(a).await?)",
        "MARK gate!(\"a\").await",
        "MARK gate!(\"a\")",
        "Ok(MARK gate!(\"a\").await?)",
        "MARK Ok(gate!(\"a\").await?)",
        "MARK match a { 1 => step(b).await, _ => Ok(b) }",
        "MARK if a { step(b).await } else { Ok(b) }",
        "Ok(MARK if a { step(b).await? } else { b })",
        "MARK { step(a).await }",
        "MARK async { step(a).await }.await",
        "MARK a.step(b).await",
        "MARK (step(a).await)",
        "MARK step(a).await?;",
        "MARK fn inner() {} Ok(a)",
        "MARK step!(); Ok(a)",
    ];
    for place in places {
        for attribute in [
            "#[zebra]",
            "#[cfg(zebra)]",
            "#[allow(zebra)]",
            "/** zebra */",
            "#[node(zebra = 1)]",
            "#[after(zebra)]",
        ] {
            let text = place.replace("MARK", attribute);
            let refused = !errors(&text).is_empty();
            // The compiler reports attributes that it does not know.
            let written = || expand("", &body(&text)).to_string().contains("zebra");
            assert!(refused || written(), "{text}");
        }
    }
    for inner in [
        "if a { #![zebra] step(b).await } else { Ok(b) }",
        "match a { #![zebra] _ => step(b).await }",
        "#![zebra] Ok(a)",
    ] {
        let written = expand("", &body(inner)).to_string();
        assert!(written.contains("zebra") || written.contains("compile_error"), "{inner}");
    }
}

#[test]
fn what_cannot_be_conditional() {
    for (conditional, expected) in [
        (
            "#[cfg_attr(unix, node(retry = 1))] let x = step(a).await?; Ok(x)",
            "a node's options cannot be conditional",
        ),
        ("#[cfg(unix)] step(a).await", "the end of a workflow cannot be conditional"),
        ("#[cfg(unix)] let (x, y) = step(a).await?; Ok(x)", "a pattern cannot be conditional"),
    ] {
        let all = errors(conditional);
        assert!(all[0].starts_with(expected), "{conditional}: {all:?}");
    }
}

#[test]
fn options_of_what_a_body_ends_with() {
    for (text, expected) in [
        ("#[node(retri = 1)] gate!(\"a\").await", "`#[node]` has no option `retri`"),
        ("#[node(retry = 1)] gate!(\"a\").await", "a gate has no `retry`"),
        ("Ok(#[node(retry = 1)] gate!(\"a\").await?)", "a gate has no `retry`"),
        ("#[node(retry = 1)] Ok(a)", "these options are for a node"),
        (
            "#[node(retry = 1)] if b { step(a).await } else { Ok(a) }",
            "an `if` or `match` is not a step",
        ),
        (
            "match b { 1 => #[node(concurrency = 2)] step(a).await, _ => Ok(a) }",
            "`concurrency` is for `map!`",
        ),
        ("match b { #[node(retry = 2)] 1 => step(a).await, _ => Ok(a) }", "an arm is not a node"),
        (
            "match b { 1 => #[node(retry = 2)] { step(a).await } _ => Ok(a) }",
            "an arm is not a node",
        ),
        ("let x = step(a).await?; #[node(id = \"x\")] step(x).await", "two nodes are named `x`"),
        ("#[after(x)] step(a).await", "there is no node `x` before this one"),
        (
            "#[node(timeout = \"1s\")] timeout!(\"2s\", step(a)).await",
            "this node has a second time limit",
        ),
        ("#[node(repeatable = false)] gate!(\"a\").await", "a gate has no `retry`"),
        ("#[node(tap)] gate!(\"a\").await", "a gate never changes the state; remove `tap`"),
        (
            "#[node(on_error = route(other(a)))] step(a).await.context(1)",
            "`on_error = route(..)` needs",
        ),
    ] {
        let all = errors(text);
        assert!(all.len() == 1 && all[0].starts_with(expected), "{text}: {all:#?}");
    }
    for text in [
        "#[node(retry = 1, id = \"last\")] step(a).await",
        "#[node(concurrency = 1)] map!(a, |x| step(x)).await",
        "Ok(#[node(concurrency = 1)] map!(a, |x| step(x)).await?)",
        "#[node(timeout = \"7d\")] Ok(gate!(\"a\").await?)",
        "let x = step(a).await?; #[after(x)] step(b).await",
        "match b { 1 => #[node(retry = 2)] step(a).await, _ => { #[node(retry = 2)] step(b).await } }",
        "#[node(id = \"choice\")] match b { 1 => step(a).await, _ => Ok(a) }",
        "#[node(on_error = route(other(a)))] step(a).await",
        "#[node(on_error = route(other(a)))] Ok(step(a).await?)",
    ] {
        assert_eq!(errors(text), Vec::<String>::new(), "{text}");
    }
}
