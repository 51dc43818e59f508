//! The two OpenAI wire formats, and what they share: the server and its key, the meaning of errors, strict schemas.
//!
//! Nothing shared knows a request or an answer of either format.

#[cfg(feature = "openai-chat")]
pub mod chat;
mod error_body;
mod fields;
#[cfg(feature = "openai-responses")]
pub mod responses;
pub(in crate::model) mod server;
mod strict_schema;
