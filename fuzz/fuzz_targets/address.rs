//! A template of an address and a value.
#![no_main]

#[path = "../../agentflow/tests/hostile_input/address_check.rs"]
mod address_check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    address_check::address(bytes);
});
