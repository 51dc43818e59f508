//! Tests all mistakes with an included document, in the form that the compiler shows.

use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use quote::quote;

use crate::{check, parse};

/// Writes a document and returns its mistakes for a function: one text per error, without the
/// folder's name.
fn wrong(text: &str, tools: TokenStream, function: TokenStream) -> Vec<String> {
    let folder = tempfile::tempdir().expect("there is a folder");
    let path = folder.path().join("it.yaml");
    std::fs::write(&path, text).expect("it is written");
    errors(&path, quote!("it.yaml" #tools), function)
}

fn errors(path: &Path, options: TokenStream, function: TokenStream) -> Vec<String> {
    let (options, function) = match parse::read(options, function) {
        Ok(read) => read,
        Err(errors) => return errors.into_iter().map(|error| error.to_string()).collect(),
    };
    let folder = format!("{}/", path.parent().expect("it is in a folder").display());
    match check::document_at(path, &options, &function) {
        Ok(_) => Vec::new(),
        Err(errors) => {
            errors.into_iter().map(|error| error.to_string().replace(&folder, "")).collect()
        }
    }
}

const WORDS: &str = "id: words\nnodes:\n  - id: counted\n    tool: count_words\n    args_template: {text: \"{topic}\"}\n";

fn words() -> TokenStream {
    quote!(
        async fn words(topic: String) -> Result<usize>;
    )
}

#[test]
fn a_document_without_mistakes_is_taken() {
    assert_eq!(wrong(WORDS, quote!(), words()), [""; 0]);
    assert_eq!(wrong(WORDS, quote!(, tools = [shop::count_words],), words()), [""; 0]);
    let with_context = quote!(
        pub async fn words(cx: &agentflow::Context, topic: String) -> agentflow::Result<usize>;
    );
    assert_eq!(wrong(WORDS, quote!(), with_context), [""; 0]);
}

#[test]
fn mistakes_of_the_document_have_their_lines() {
    let text = WORDS.replace("args_", "arg_") + "    depends_on: [fuond]\n";
    let [field, node] = wrong(&text, quote!(), words()).try_into().expect("two");
    assert_eq!(
        field,
        "a node has no `arg_template`; did you mean `args_template`?\n --> it.yaml:5:5\n  |\n5 |     arg_template: {text: \
         \"{topic}\"}\n  |     ^^^^^^^^^^^^"
    );
    assert!(node.contains("there is no such node") && node.contains("--> it.yaml:6:18"), "{node}");
    let syntax = wrong("id: words\nnodes:\n  - id: one\n   tool: two\n", quote!(), words());
    assert!(syntax.len() == 1 && syntax[0].contains("--> it.yaml:4:4"), "{syntax:?}");
    let cycle = "id: c\nnodes:\n  - {id: one, tool: t, args_template: {a: '{two}'}}\n  - {id: two, tool: t, args_template: {a: '{one}'}}\n";
    let cycle = wrong(
        cycle,
        quote!(),
        quote!(
            async fn c() -> Result<usize>;
        ),
    );
    assert!(
        cycle.len() == 1 && cycle[0].starts_with("these nodes wait for each other: `one`, `two`"),
        "{cycle:?}"
    );
    let missing = errors(&PathBuf::from("no/such.yaml"), quote!("such.yaml"), words());
    assert!(
        missing.len() == 1 && missing[0].starts_with("the file cannot be read: "),
        "{missing:?}"
    );
}

#[test]
fn tools_are_those_of_the_attribute() {
    let unknown = wrong(
        &WORDS.replace("count_words", "count_wrods"),
        quote!(, tools = [count_words]),
        words(),
    );
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert!(
        unknown[0].starts_with(
            "`count_wrods` is not one of the tools that the document is given; did you mean `count_words`?\n --> it.yaml:4:11\n"
        ),
        "{unknown:?}"
    );
    let add = wrong(WORDS, quote!(, tools = []), words());
    assert!(
        add[0].starts_with(
            "`count_words` is not one of the tools that the document is given; add it to `tools = [..]`\n"
        )
    );
    let unused = wrong(WORDS, quote!(, tools = [count_words, other]), words());
    assert_eq!(unused, ["the document names no tool `other`; remove it from `tools`"]);
    // A name with a dot may belong to a toolset.
    assert_eq!(
        wrong(&WORDS.replace("count_words", "mcp.files.count"), quote!(, tools = []), words()),
        [""; 0]
    );
}

#[test]
fn parameters_are_the_inputs() {
    let differ = wrong(
        WORDS,
        quote!(),
        quote!(
            async fn words(topics: String) -> Result<usize>;
        ),
    );
    assert_eq!(
        differ,
        [
            "the document has the input `topic`, and `words` has no parameter of this name",
            "the document has no input `topics`; did you mean `topic`?"
        ]
    );
}

#[test]
fn a_function_that_cannot_be_one_of_a_document_is_refused() {
    let expected = "`#[include_workflow]` applies to a function without a body, as in `async fn review(text: String) -> \
                    Result<Verdict>;`";
    for (function, problems) in [
        (
            quote!(
                fn words(topic: String) -> Result<usize>;
            ),
            &["a workflow takes time; write `async fn`"][..],
        ),
        (
            quote!(
                async fn words(topic: String) -> Result<usize> {
                    Ok(1)
                }
            ),
            &[expected],
        ),
        (
            quote!(
                struct Words;
            ),
            &[expected],
        ),
        (
            quote!(
                async fn words<T>(self, (a, b): T, topic: &str);
            ),
            &[
                "a document has one form for all types; write the types themselves",
                "a document has no `self`; write the workflow outside of the `impl`",
                "an input of a document has a name; write `name: Type`",
                "an input is recorded, so it owns its data; write `String` for `&str`",
                "a run can fail; write the output, as in `-> Result<Verdict>`",
            ],
        ),
        (
            quote!(
                async fn words(topic: String) -> usize;
            ),
            &["a run can fail; write `Result<..>` around the output"],
        ),
    ] {
        assert_eq!(wrong(WORDS, quote!(), function), problems);
    }
    let option = wrong(WORDS, quote!(, tool = [a]), words());
    assert!(
        option[0].starts_with(
            "`tool` is not an option of `#[include_workflow]`; write `#[include_workflow(\"review"
        ),
        "{option:?}"
    );
    assert!(
        errors(Path::new("x"), quote!(file = "x"), words())[0]
            .contains("expected string literal; write")
    );
}
