//! The parts of the generated programs' library that need no runtime: actions, tokens, and the
//! comparison of two runs. The functions of the library are interpreted from their source.

#[path = "../../../tests/tests/generated/kit/actions.rs"]
pub(super) mod actions;
#[path = "../../../tests/tests/generated/kit/judge.rs"]
pub(super) mod judge;
#[path = "../../../tests/tests/generated/kit/tokens.rs"]
pub(super) mod tokens;

/// Source of the functions that generated programs call.
pub(super) const FUNCTIONS: &str = include_str!("../../../tests/tests/generated/kit/functions.rs");
