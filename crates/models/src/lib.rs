//! Model adapters for the HTTP APIs of providers.
//!
//! Programs use this crate through `agentflow`, as `agentflow::model`. Linking it registers the
//! models of its adapters by name: each adapter submits itself to a list of the core.
//!
//! Each provider has a module (`anthropic`, `gemini`, `openai`), which encodes requests and decodes
//! responses. `http` sends the requests of all adapters ([`HttpModel`]) and does not depend on wire
//! formats. `assembly`, `loose` and `sent_call` are shared helpers for the adapters.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg_attr(
    not(feature = "openai-chat"),
    allow(dead_code, unused_imports, reason = "no adapter uses all of it")
)]
mod assembly;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg_attr(
    not(feature = "openai-chat"),
    allow(dead_code, unused_imports, reason = "no adapter uses all of it")
)]
mod http;
#[cfg_attr(
    not(feature = "openai-chat"),
    allow(dead_code, unused_imports, reason = "no adapter uses all of it")
)]
mod loose;
#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
#[cfg_attr(
    not(feature = "openai-chat"),
    allow(dead_code, reason = "the Chat adapter uses all of it")
)]
mod openai;
#[cfg_attr(
    not(feature = "openai-chat"),
    allow(dead_code, unused_imports, reason = "no adapter uses all of it")
)]
mod sent_call;

#[cfg(test)]
mod decoder_tests;

pub use self::http::{HttpModel, HttpModelBuilder};
#[cfg(feature = "openai-chat")]
pub use self::openai::chat as openai_chat;
#[cfg(feature = "openai-responses")]
pub use self::openai::responses as openai_responses;
