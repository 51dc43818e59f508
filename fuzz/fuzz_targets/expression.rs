//! An expression in CEL and its variables.
#![no_main]

#[allow(dead_code, reason = "other targets use the rest")]
#[path = "../../agentflow/tests/hostile_input/reader_check.rs"]
mod reader_check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    reader_check::expression(bytes);
});
