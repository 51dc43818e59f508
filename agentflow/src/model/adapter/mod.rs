//! The adapters: each provider's wire format behind the [`Model`](crate::model::Model) trait, one directory and one
//! cargo feature each.
//!
//! `http` is what all of them share: the client, the server, time-outs, retries, server-sent events. An adapter never
//! does its own HTTP, and nothing outside of this directory knows a provider.

#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, unused_imports, reason = "no adapter uses all of it"))]
mod assembly;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, unused_imports, reason = "no adapter uses all of it"))]
pub(super) mod http;
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, unused_imports, reason = "no adapter uses all of it"))]
mod loose;
#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
#[cfg_attr(not(feature = "openai-chat"), allow(dead_code, reason = "the Chat adapter uses all of it"))]
pub(super) mod openai;
