//! How large the project is: its crates, its files, its surface. Nothing here links the library.

mod crate_budget;
mod layers;
mod surface;
mod words;
