//! Code shared by the tests: processes that end with the test, third-party tools, recorded traffic.
//! It asserts nothing about agentflow.
//!
//! A test that lacks a prerequisite (Python, network, recorded traffic) prints `skipped: why` on
//! standard error and passes. With `AGENTFLOW_NO_SKIP=1` it fails instead.

mod agentwf;
mod blessed;
mod elsewhere;
mod guard;
mod http;
mod install;
pub mod journal;
pub mod kill;
mod llama_cpp;
pub mod order;
mod postgres_server;
mod process;
mod store_of_processes;
mod wire_cases;

use std::io::Write;

pub use self::agentwf::{Agentwf, Ended};
pub use self::blessed::words_are_blessed;
pub use self::elsewhere::Elsewhere;
pub use self::guard::ChildGuard;
pub use self::http::{Answer, get, post};
pub use self::install::{
    Python, a2a_ag2, a2a_agent_framework, a2a_google_adk, a2a_langgraph, a2a_linter,
    a2a_pydantic_ai, a2a_python, a2a_rust_client, aimock, llmock, mcp_conformance, mcp_everything,
    mcp_fetch, mcp_filesystem, mcp_inspector, mcp_memory, mcp_python, mcp_time, sdk_types,
};
pub use self::llama_cpp::LlamaServer;
pub use self::postgres_server::PostgresServer;
pub use self::process::{
    Process, free_port, freeze, interrupt, lines_of, target_folder, terminate, test_as_process,
    unfreeze,
};
pub use self::store_of_processes::ProcessStore;
pub use self::wire_cases::{Replay, VARIANTS, WireCase, WireTurn, relevant, run_all, wire_cases};

/// Reports why a test is skipped. Bypasses the capture of test output, so that a skipped test is
/// visible.
///
/// # Panics
/// With `AGENTFLOW_NO_SKIP=1`.
pub fn skipped(why: impl std::fmt::Display) {
    assert!(
        std::env::var_os("AGENTFLOW_NO_SKIP").is_none(),
        "skipped although AGENTFLOW_NO_SKIP is set: {why}"
    );
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
