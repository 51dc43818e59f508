//! Tests of the project itself: crates, files, public API, module layers and wording. They do not
//! link the library.

mod aliases;
mod bare_waits;
mod crate_budget;
mod crate_map;
mod example_names;
mod example_pages;
mod layers;
mod limits;
mod listed_examples;
mod overview;
mod sentences;
mod surface;
mod words;
mod workspace;
