//! A document of a workflow.
#![no_main]

#[path = "../../agentflow/tests/hostile_input/document_check.rs"]
mod document_check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    document_check::document(bytes);
});
