//! `#[include_workflow]`: a document that is part of the program. It is read when the program is compiled, with the
//! library's own reader, so that all that is wrong with it is a compile error with its place in the document.
//!
//! `parse` reads the attribute and its function, `check` the document, `expand` writes the code. The macro looks up no
//! name of a program: tools are paths, which the compiler judges, and all else is found when a runtime is built.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use quote::quote;

/// Makes a workflow of a document and of the function that says its types:
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
/// // Within another workflow, or by itself:
/// assert_eq!(words("one".to_owned()).await?, 1);
/// # Ok(())
/// # }
/// ```
///
/// The path is relative to the source file, as that of `include_str!` is, and a change of the file compiles the program
/// again. The parameters are the inputs of the document, by their names and in any order; the first one may be
/// `cx: &Context`. The function returns a `Result` whose error is made of an `agentflow::Error`.
///
/// What can be known of the document alone is checked by the compiler: its syntax, its fields, the names of its nodes, cycles,
/// and that the function has its inputs. `tools = [..]` are paths of the tools that it names; then a name that is not among
/// them is a mistake, and the compiler sees to it that each is a tool and is linked. A tool is meant by the last name of its path;
/// a name with a dot may be that of a toolset, and is looked up later. Without `tools`, all tools are.
///
/// Every runtime knows the workflow by its name. Its names and types are checked where it is first used, by
/// `Runtime::catalogue` and by `RuntimeBuilder::boot`: that everything that it names is there, that the types of the
/// parameters fit what they are given to, and that its output fits the type that the function returns.
///
/// `NAME::start(&runtime, ..)` is a run that is about to be started, as `Runtime::start` gives it.
#[proc_macro_attribute]
pub fn include_workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, function) = match parse::read(options.into(), item.clone().into()) {
        Ok(read) => read,
        Err(errors) => {
            // Without a function there is nothing whose use could be an error of its own.
            let errors = errors.to_compile_error();
            return quote!(#errors).into();
        }
    };
    let checked = check::document(&options, &function);
    expand::workflow(&options, &function, checked).into()
}
