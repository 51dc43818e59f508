//! Attribute macros of the `agentflow-sdk` crate. Programs use the re-exports of that crate.
//!
//! `#[tool]`, `#[agent]` and `#[workflow]` each parse a function into a model, validate it and
//! expand it. The expansion contains no logic: it calls functions of `agentflow::__private`.
//! `tests/expansion` shows examples. The macros never panic, never drop the item, and report all
//! mistakes at once, each at its token.

mod agent;
mod docs;
mod duration;
mod errors;
#[cfg(test)]
mod expansions;
mod fallback;
mod function;
// Not in `src`, since it is not a part of the library. A module, because it needs private items.
#[cfg(test)]
#[path = "../tests/meaning/mod.rs"]
mod meaning;
mod options;
mod paths;
mod patterns;
mod place;
mod placeholders;
mod scope;
mod tool;
mod unanswered;
mod workflow;

use proc_macro::TokenStream;

/// Makes a function a tool. Documented at `agentflow::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

/// Makes a function without a body an agent. Documented at `agentflow::agent`.
#[proc_macro_attribute]
pub fn agent(options: TokenStream, item: TokenStream) -> TokenStream {
    agent::expand(options.into(), item.into()).into()
}

/// Makes a function a workflow. Documented at `agentflow::workflow`.
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    workflow::expand(options.into(), item.into()).into()
}

/// Expands `tools![..]`, whose input starts with `($crate)`. Documented at `agentflow::tools`.
#[proc_macro]
pub fn tool_refs(input: TokenStream) -> TokenStream {
    paths::tool_refs(input.into()).into()
}
