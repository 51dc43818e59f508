//! An OpenAPI document.
#![no_main]

#[allow(dead_code, reason = "other targets use the rest")]
#[path = "../../agentflow/tests/hostile_input/reader_check.rs"]
mod reader_check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    reader_check::open_api(bytes);
});
