//! Beginning and end of a runtime.
//!
//! `boot` builds a runtime and checks its dependencies in phases; it fails with all errors of the
//! first phase that has any. `health` repeats the checks later, without changing anything. `drain`
//! ends the work of a runtime before the program exits: runs with a store stop between two steps
//! and are left to another process, other runs may finish until the deadline. None of the three
//! starts or resumes runs.

pub(crate) mod boot;
pub(crate) mod drain;
pub(crate) mod health;
