//! The two OpenAI wire formats.
//!
//! `chat` is the Chat Completions format and `responses` is the Responses format. The other
//! modules are shared: error bodies, output modes and strict schemas. They do not depend on the
//! requests and responses of either format.

#[cfg(feature = "openai-chat")]
pub mod chat;
mod error_body;
mod fields;
mod output_mode;
#[cfg(feature = "openai-responses")]
pub mod responses;
mod strict_schema;
