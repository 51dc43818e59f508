//! The generator of random programs, which is shared with the program `generated` of the tests.

#[path = "../../../tests/tests/generated/choose.rs"]
pub(super) mod choose;
#[path = "../../../tests/tests/generated/phrases.rs"]
mod phrases;
#[path = "../../../tests/tests/generated/shrink.rs"]
pub(super) mod shrink;
#[path = "../../../tests/tests/generated/syntax.rs"]
pub(super) mod syntax;
#[path = "../../../tests/tests/generated/vocabulary.rs"]
pub(super) mod vocabulary;
#[path = "../../../tests/tests/generated/write.rs"]
pub(super) mod write;
