//! An answer of Chat Completions.
#![no_main]

#[allow(dead_code, reason = "each target uses its part")]
#[path = "../../agentflow/tests/hostile_input/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::answer(check::Format::Chat, bytes);
});
