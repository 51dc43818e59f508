//! Implementation detail of the `agentflow-sdk` crate: its attribute macros. Nobody names this crate.

use proc_macro::TokenStream;

/// Makes a function a tool.
#[proc_macro_attribute]
pub fn tool(_args: TokenStream, item: TokenStream) -> TokenStream {
    item
}
