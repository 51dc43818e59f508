//! The two OpenAI wire formats, and what they share: error bodies, typed answers, strict schemas.
//!
//! Nothing shared knows a request or an answer of either format.

#[cfg(feature = "openai-chat")]
pub mod chat;
mod error_body;
mod fields;
mod output_mode;
#[cfg(feature = "openai-responses")]
pub mod responses;
mod strict_schema;
