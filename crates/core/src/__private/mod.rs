//! Items for the expansions of the macros, one file per macro, and for the other crates of the
//! workspace. They are not a stable API: the macro crate and the library are released together.

pub mod adapters;
mod agent;
mod asking_tool;
#[cfg(feature = "documents")]
mod document;
mod exit_tool;
pub mod extension;
mod memory_paths;
mod tool;
mod workflow;

pub use std::any::TypeId;
pub use std::boxed::Box;
pub use std::clone::Clone;
pub use std::default::Default;
pub use std::format;
pub use std::iter::{IntoIterator, Iterator};
pub use std::option::Option::{None, Some};
pub use std::result::Result::{self, Ok};
pub use std::string::String;
pub use std::sync::OnceLock;
pub use std::time::Duration;
pub use std::vec::Vec;
pub use std::{concat, file, include_str, line};

pub use agentflow_macros::tool_refs;
pub use inventory;

pub use self::agent::*;
pub use self::asking_tool::ask_user;
#[cfg(feature = "documents")]
pub use self::document::{
    IncludedDocument, IncludedInputs, NodeValue, run_included, start_included, unknown_tools,
};
pub use self::exit_tool::exit_loop;
pub use self::memory_paths::{forget, recall, remember};
pub use self::tool::*;
pub use self::workflow::*;
pub use crate::context::Context;
/// For agentflow-sqlite.
pub use crate::definition::sha256::sha256;
/// For the scripts of agentflow-testing.
pub use crate::error::{last_error, watch_errors};
pub use crate::linked::{Linked, function_id};
/// For agentflow-sqlite.
pub use crate::memory::words::{MOST_WORDS, words};
/// For the tests of the workspace.
pub use crate::panics::assume_abort;
/// For agentflow-sqlite.
pub use crate::private_file::private;
/// For agentflow-views.
pub use crate::run::saved_values::state_of;
/// For agentflow-views.
pub use crate::runtime::ProcessedRequest;
/// For agentflow-views.
pub use crate::state::reserved::{EXIT, is_reserved};
/// For agentflow-sqlite and agentflow-postgres.
pub use crate::store::address::StoreOpener;
pub use crate::tool::probe::{Probe, Probed};
pub use crate::tool::{Effects, Param, ToolFuture};
/// For the lines of agentflow-testing.
pub use agentflow_schema::text::OneLine;
