//! Compares the expansion of each function in `tests/expansion` with the stored file. If `BLESS` is
//! set, it writes these files. Other tests check that expansions compile.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Meta};

#[test]
fn expansions_are_as_written_down() {
    let bless = std::env::var_os("BLESS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expansion");
    let mut different = Vec::new();
    let inputs = inputs(&folder);
    for input in &inputs {
        let source = fs::read_to_string(input).expect("an input can be read");
        let expanded = formatted(expand(&source));
        let snapshot = input.with_extension("expanded.rs");
        if bless {
            fs::write(&snapshot, expanded).expect("a snapshot can be written");
        } else if fs::read_to_string(&snapshot).unwrap_or_default() != expanded {
            different.push(format!("{}:\n{expanded}", snapshot.display()));
        }
    }
    assert!(inputs.len() >= 16, "there are only {} inputs in {}", inputs.len(), folder.display());
    assert!(
        different.is_empty(),
        "these expansions differ from their files; if that is intended, set BLESS=1 and read the difference\n{}",
        different.join("\n")
    );
}

/// Returns the input files, which contain one function each, in a defined order.
fn inputs(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for attribute in ["agent", "tool", "workflow"] {
        let entries = fs::read_dir(folder.join(attribute)).expect("the folder is there");
        all.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
    }
    all.retain(|path| {
        path.extension().is_some_and(|end| end == "rs")
            && !path.to_string_lossy().contains(".expanded.")
    });
    all.sort();
    all
}

/// Expands the attribute of this crate like the compiler does.
fn expand(source: &str) -> TokenStream {
    let read = |input: ParseStream<'_>| {
        Ok((input.call(Attribute::parse_outer)?, input.parse::<TokenStream>()?))
    };
    let (mut attrs, rest) = read.parse_str(source).expect("the input has attributes and an item");
    let is_ours = |attr: &Attribute| {
        ["tool", "agent", "workflow"].iter().any(|name| attr.path().is_ident(name))
    };
    let ours = attrs.remove(attrs.iter().position(is_ours).expect("one attribute is ours"));
    let options = match &ours.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let item = quote!(#(#attrs)* #rest);
    match ours.path() {
        path if path.is_ident("tool") => crate::tool::expand(options, item),
        path if path.is_ident("agent") => crate::agent::expand(options, item),
        _ => crate::workflow::expand(options, item),
    }
}

/// Formats an expansion for readers, with `__private` for `::agentflow::__private`.
fn formatted(expansion: TokenStream) -> String {
    let file = syn::parse2(shortened(expansion.clone()))
        .unwrap_or_else(|error| panic!("{error}: {expansion}"));
    joined(&prettyplease::unparse(&file))
}

fn shortened(tokens: TokenStream) -> TokenStream {
    let mut all: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let is_path = matches!(&token, TokenTree::Ident(last) if last == "__private");
        // `:: agentflow :: __private` is six tokens.
        if is_path
            && all.len() >= 5
            && all[all.len() - 5..].iter().map(ToString::to_string).eq([
                ":",
                ":",
                "agentflow",
                ":",
                ":",
            ])
        {
            all.truncate(all.len() - 5);
        }
        all.push(match token {
            TokenTree::Group(group) => {
                TokenTree::Group(Group::new(group.delimiter(), shortened(group.stream())))
            }
            other => other,
        });
    }
    all.into_iter().collect()
}

/// Puts generic arguments that the formatter has split over several lines onto one line if they
/// fit.
fn joined(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut written = String::new();
    let mut lines = text.lines().peekable();
    while let Some(first) = lines.next() {
        written.push_str(first);
        if first.ends_with('<') {
            let rest = lines.clone();
            let end = rest.clone().position(|line| indent(line) == indent(first));
            let arguments: Vec<&str> = rest.take(end.unwrap_or_default()).map(str::trim).collect();
            let arguments = arguments.join(" ");
            if first.len() + arguments.len() < 110 {
                written.push_str(arguments.trim_end_matches(','));
                lines.by_ref().take(end.unwrap_or_default()).for_each(drop);
                written.push_str(lines.next().unwrap_or_default().trim_start());
            }
        }
        written.push('\n');
    }
    written
}
