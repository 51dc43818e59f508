//! What the two OpenAI wire formats share: the server and its key, the meaning of errors, strict schemas.
//!
//! Nothing here knows what a request or an answer of either format looks like.

pub(super) mod fields;
pub(super) mod problem;
pub(super) mod server;
pub(super) mod strict_schema;
