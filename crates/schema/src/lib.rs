//! Schemas, expressions, templates and texts: the parts of agentflow that read JSON and text as data and do not
//! depend on tools, agents or workflows.
//!
//! Programs use these types through the crate `agentflow`: `agentflow::schema`, `agentflow::expression` and
//! `agentflow::template`. The other modules serve the crates of agentflow and have no stability promise.

pub mod expression;
pub mod schema;
#[cfg(feature = "check")]
pub mod schema_check;
pub mod strict;
pub mod template;
#[doc(hidden)]
pub mod text;
#[cfg(feature = "tree")]
pub mod text_tree;
