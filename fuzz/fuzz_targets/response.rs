//! A whole HTTP response to a model call.
#![no_main]

#[allow(dead_code, reason = "other targets use the rest")]
#[path = "../../agentflow/tests/hostile_input/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::response(bytes);
});
