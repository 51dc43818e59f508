//! The attribute `#[include_workflow]`, which compiles a workflow document into the program. The
//! macro reads the document at compile time with the library's own reader. Mistakes become compile
//! errors with their position in the document.
//!
//! `parse` reads the attribute and its function, `check` the document, and `expand` writes the
//! code. The macro resolves no names of the program: the compiler checks the paths of tools, and
//! the runtime resolves other names when it is built.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use quote::quote;

/// Creates a workflow from a document and a function that declares its types:
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow_include::include_workflow;
///
/// /// Count the words of a text.
/// #[tool(effects = "none")]
/// fn count_words(text: String) -> usize {
///     text.split_whitespace().count()
/// }
///
/// /// Says how many words a topic has.
/// #[include_workflow("words.yaml", tools = [count_words])]
/// async fn words(topic: String) -> Result<usize>;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::default();
/// let run = words::start(&runtime, "plain words".to_owned()).await?;
/// assert_eq!(run.result().await?, 2);
/// // In another workflow, or called directly:
/// assert_eq!(words("one".to_owned()).await?, 1);
/// # Ok(())
/// # }
/// ```
///
/// The path is relative to the source file, as in `include_str!`, and a change of the document
/// triggers a recompilation. The parameters are the inputs of the document, by name and in any
/// order. The first parameter may be `cx: &Context`. The function returns a `Result` whose error
/// type implements `From<agentflow::Error>`.
///
/// The compiler reports mistakes that are visible in the document alone: its syntax, its fields,
/// the names of its nodes, cycles, and inputs that do not match the parameters. `tools = [..]`
/// lists the paths of the tools that the document uses. A tool that is not in the list is then a
/// mistake, and the compiler checks that each path is a tool and links it. The last segment of a
/// path is the name of the tool. A name with a dot may belong to a toolset and is resolved later.
/// Without `tools`, all tool names are resolved later.
///
/// Every runtime knows the workflow by its name. Its names and types are checked at its first use,
/// by `CatalogueReader::snapshot` and by `RuntimeBuilder::boot`: all names must exist, and the
/// types of the parameters and of the output must match the document.
///
/// `NAME::start(&runtime, ..)` returns a run that is about to start, like `Runtime::start`.
#[proc_macro_attribute]
pub fn include_workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, function) = match parse::read(options.into(), item.clone().into()) {
        Ok(read) => read,
        Err(errors) => {
            // Without a parsed function, no stub is written, because its name and types are
            // unknown.
            let errors = errors.to_compile_error();
            return quote!(#errors).into();
        }
    };
    let checked = check::document(&options, &function);
    expand::workflow(&options, &function, checked).into()
}
