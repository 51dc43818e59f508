//! Checks the document on its own and against the function that declares its types.

use std::path::{Path, PathBuf};

use agentflow::__private::unknown_tools;
use agentflow::document::{Document, DocumentError};

use crate::parse::{Function, Options};

/// The name of the workflow, or all mistakes.
pub(crate) type Checked = Result<String, syn::Error>;

pub(crate) fn document(options: &Options, function: &Function) -> Checked {
    // Some editors provide no file location. The compiler then checks the document in the build.
    match path(options) {
        Some(path) => document_at(&path, options, function),
        None => Ok(function.signature.ident.to_string()),
    }
}

pub(crate) fn document_at(path: &Path, options: &Options, function: &Function) -> Checked {
    let document = match Document::open(path) {
        Ok(document) => document,
        Err(error) => return Err(reports(options, &error)),
    };
    let mut wrong = Vec::new();
    if let Some(tools) = &options.tools {
        let names: Vec<String> =
            tools.iter().filter_map(|path| Some(path.segments.last()?.ident.to_string())).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        wrong.extend(unknown_tools(&document, &names).err().map(|error| reports(options, &error)));
        let named = document.tools();
        // A misspelt name in the document is already reported above.
        for path in tools.iter().filter(|_| wrong.is_empty()).collect::<Vec<_>>() {
            let Some(last) =
                path.segments.last().filter(|last| !named.contains(&&*last.ident.to_string()))
            else {
                continue;
            };
            let problem =
                format!("the document names no tool `{}`; remove it from `tools`", last.ident);
            wrong.push(syn::Error::new_spanned(path, problem));
        }
    }
    let inputs: Vec<&str> = document.graph().inputs().map(|input| input.name.as_str()).collect();
    let ident = &function.signature.ident;
    for input in
        inputs.iter().filter(|input| !function.inputs.iter().any(|known| known.name() == **input))
    {
        let problem = format!(
            "the document has the input `{input}`, and `{ident}` has no parameter of this name"
        );
        wrong.push(syn::Error::new_spanned(ident, problem));
    }
    for input in function.inputs.iter().filter(|input| !inputs.contains(&input.name().as_str())) {
        let name = input.name();
        let hint = match nearest(&name, &inputs) {
            Some(near) => format!("; did you mean `{near}`?"),
            None if inputs.is_empty() => "; it has none".to_owned(),
            None => format!("; its inputs are `{}`", inputs.join("`, `")),
        };
        wrong.push(syn::Error::new_spanned(
            &input.ident,
            format!("the document has no input `{name}`{hint}"),
        ));
    }
    let all = wrong.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    match all {
        None => Ok(document.name().to_owned()),
        Some(wrong) => Err(wrong),
    }
}

/// Returns the path of the document, relative to the source file.
fn path(options: &Options) -> Option<PathBuf> {
    let source = options.file.span().unwrap().local_file()?;
    Some(source.parent()?.join(options.file.value()))
}

/// Returns an error for each problem, with its position and line in the document.
fn reports(options: &Options, error: &DocumentError) -> syn::Error {
    let text = error.to_string();
    let mut reports =
        text.split("\n\nerror: ").map(|report| report.strip_prefix("error: ").unwrap_or(report));
    let first = syn::Error::new(options.file.span(), reports.next().unwrap_or_default());
    reports.fold(first, |mut all, report| {
        all.combine(syn::Error::new(options.file.span(), report));
        all
    })
}

/// Returns the most similar known name, if at most a third of the letters differ.
fn nearest<'n>(wrong: &str, names: &[&'n str]) -> Option<&'n str> {
    let allowed = (wrong.chars().count() / 3).max(1);
    let near = names.iter().map(|name| (strsim::osa_distance(wrong, name), *name));
    near.filter(|(distance, _)| *distance <= allowed).min().map(|(_, name)| name)
}
