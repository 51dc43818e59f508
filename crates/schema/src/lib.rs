//! Schemas, expressions, templates and text parsers for agentflow. This crate treats JSON and text
//! as data and does not depend on tools, agents or workflows.
//!
//! Main modules: [`schema`] compares JSON Schemas and samples values, [`expression`] evaluates
//! expressions, [`template`] fills in strings with placeholders, [`strict`] checks JSON for
//! duplicate keys.
//!
//! Programs use these types through the crate `agentflow`: `agentflow::schema`,
//! `agentflow::expression` and `agentflow::template`. The other modules are for the crates of
//! agentflow and have no stability promise.

pub mod diagnostic;
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
