//! The result of an MCP server.
#![no_main]

#[allow(dead_code, reason = "other targets use the rest")]
#[path = "../../agentflow/tests/hostile_input/peer_check.rs"]
mod peer_check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    peer_check::mcp(bytes);
});
