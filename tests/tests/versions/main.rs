//! Two versions of one workflow: which changes make them different definitions, and what happens
//! when the second version resumes a run of the first. The versions share a name, so these tests
//! have their own program.

mod definitions;
mod parts;
mod resumed;
mod second;
