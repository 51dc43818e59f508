//! Implementation detail of the `agentflow-sdk` crate: its attribute macros. Nobody names this crate.
//!
//! A macro here never panics, never drops the item it stands on and never stops at the first mistake. What it writes are
//! calls of `agentflow::__private`; the work is done there.

mod agent;
mod docs;
mod duration;
mod errors;
mod fallback;
mod function;
mod options;
mod paths;
mod place;
mod tool;
mod workflow;

use proc_macro::TokenStream;

/// Makes a function a tool; the text for users stands at `agentflow::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

/// Makes a function without a body an agent; the text for users stands at `agentflow::agent`.
#[proc_macro_attribute]
pub fn agent(options: TokenStream, item: TokenStream) -> TokenStream {
    agent::expand(options.into(), item.into()).into()
}

/// Makes a function a workflow; the text for users stands at `agentflow::workflow`.
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    workflow::expand(options.into(), item.into()).into()
}

/// The tools behind the paths of `tools![..]`, after `($crate)`; the text for users stands at `agentflow::tools`.
#[proc_macro]
pub fn tool_refs(input: TokenStream) -> TokenStream {
    paths::tool_refs(input.into()).into()
}
