//! Beginning and end of a runtime. `boot` builds a runtime and checks its dependencies in phases,
//! `health` repeats the checks later, and `drain` ends the work of a runtime before the program
//! exits. None of them starts or resumes runs.

pub(crate) mod boot;
pub(crate) mod drain;
pub(crate) mod health;
