//! Implementation detail of the `agentflow-sdk` crate: its attribute macros. Programs do not name this crate.
//!
//! A macro here never panics, never drops the item that it is on and never stops at the first mistake. It expands to calls
//! of `agentflow::__private`, which does the work; `tests/expansion` shows what it writes.

mod agent;
mod docs;
mod duration;
mod errors;
#[cfg(test)]
mod expansions;
mod fallback;
mod function;
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

/// Makes a function a tool; documented at `agentflow::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

/// Makes a function without a body an agent; documented at `agentflow::agent`.
#[proc_macro_attribute]
pub fn agent(options: TokenStream, item: TokenStream) -> TokenStream {
    agent::expand(options.into(), item.into()).into()
}

/// Makes a function a workflow; documented at `agentflow::workflow`.
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    workflow::expand(options.into(), item.into()).into()
}

/// Expands `tools![..]`, whose input begins with `($crate)`; documented at `agentflow::tools`.
#[proc_macro]
pub fn tool_refs(input: TokenStream) -> TokenStream {
    paths::tool_refs(input.into()).into()
}
