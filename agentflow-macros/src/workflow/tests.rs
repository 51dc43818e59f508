//! Broken input, and the shape of what is written: whatever stands there, nothing panics and no token is lost.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

fn expand(options: &str, item: &str) -> TokenStream {
    let options = TokenStream::from_str(options).expect("options lex");
    let item = TokenStream::from_str(item).expect("the item lexes");
    super::expand(options, item)
}

/// The single tokens, in their order.
fn flat(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => flat(group.stream()),
            other => vec![other.to_string()],
        })
        .collect()
}

/// Whether all tokens of one are among those of the other.
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
        crate::function::function(TokenStream::from_str(&body(body_text)).expect("it lexes"), "").expect("a function");
    let (_, inputs) = super::signature::parameters(&function, &mut errors);
    let block = syn::parse2(function.body).expect("a block");
    super::body::body(block, &inputs, &mut errors);
    errors.messages()
}

#[test]
fn half_typed_items_are_kept_and_told() {
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
        // An unbalanced delimiter never reaches a macro; it is tried as far as it lexes.
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
        assert!(output.to_string().contains("struct f"), "{item}: `f::workflow()` would be a second error: {output}");
    }
}

#[test]
fn half_typed_options_are_told() {
    for options in
        ["name", "name = 5", "name = \"\"", "concurrency = 0", "stop", "stop = never", "crate =", "nmae = \"x\"", ", ,"]
    {
        let item = body("Ok(a)");
        let output = expand(options, &item);
        assert!(holds(&output, &item), "{options} became {output}");
        assert!(output.to_string().contains("compile_error"), "{options} became {output}");
    }
}

#[test]
fn every_mistake_is_told() {
    let all = errors(
        "step(a).await?; let x = step(a).await?; let x = step(b).await?; return Ok(x); for y in x { step(y).await? }; \
         #[after(z)] let w = gate!(); let v = parse(a)?; fn inner() {}",
    );
    let starts = [
        "`return` would end",
        "a loop has no fixed graph",
        "a workflow ends with its output",
        "a step that is not bound",
        "two nodes are named `x`",
        "there is no node `z`",
        "write `.await?` behind the form",
        "a gate asks a question",
        "no step is awaited here",
        "a workflow consists of steps",
    ];
    for start in starts {
        assert!(all.iter().any(|message| message.starts_with(start)), "{start}: {all:#?}");
    }
    assert_eq!(all.len(), starts.len(), "{all:#?}");
}

#[test]
fn what_is_allowed_is_not_told() {
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
    ] {
        assert_eq!(errors(text), Vec::<String>::new(), "{text}");
    }
}

/// What stands between the braces of the function with the nodes, as one line.
fn nodes(text: &str) -> String {
    let output = expand("", &body(text)).to_string();
    assert!(!output.contains("compile_error"), "{output}");
    let (_, nodes) = output.split_once("type __AgentflowError").expect("there are nodes");
    nodes.to_owned()
}

#[test]
fn each_node_reads_what_its_expression_names() {
    let chain = nodes("let x = step(a).await?; let y = step(x).await?; Ok(y)");
    assert_eq!(chain.matches(". call ::").count(), 2, "{chain}");
    assert!(chain.contains("(a ,)") && chain.contains("(x ,)") && chain.contains("(y ,)"), "{chain}");
    let diamond = nodes("let x = step(a).await?; let y = step(a).await?; let z = both(x, y).await?; Ok(z)");
    assert!(diamond.contains("(x , y ,)"), "{diamond}");
    // Glue costs no node: its reader reads what it reads.
    let glue = nodes("let x = step(a).await?; let y = x.len() + b; let z = step(format!(\"{y}\")).await?; Ok(z)");
    assert!(glue.contains("(b , x ,)"), "{glue}");
    assert_eq!(glue.matches("let y = x . len () + b").count(), 1, "{glue}");
    // A pattern is a hidden node and glue.
    let taken = nodes("let (x, y) = pair(a).await?; let z = step(y).await?; Ok(z)");
    assert_eq!(taken.matches("let (x , y) = output_").count(), 1, "{taken}");
    // What nobody reads is written out once, for the compiler.
    let unread = nodes("let x = a.len(); let (y, z) = pair(a).await?; Ok(b)");
    assert!(unread.contains("let x = a . len () ;") && unread.contains("; let (y , z) = output_"), "{unread}");
    // A name that is bound twice means what it meant where it was read.
    let hidden =
        nodes("let x = a.len(); #[node(id = \"second\")] let a = step(x).await?; let y = step(a, x).await?; Ok(y)");
    assert!(hidden.contains("let a = value_"), "{hidden}");
}

#[test]
fn a_local_function_is_no_item() {
    let local = nodes("let f = |x: u32| async move { Result::Ok(x) }; let x = f(b).await?; Ok(x)");
    assert!(local.contains(". step ::") && !local.contains(". call ::"), "{local}");
    let method = nodes("let x = a.fetch(b).await?; Ok(x)");
    assert!(method.contains(". step ::"), "{method}");
}
