//! The named items of a runtime: tools, toolsets, agents, workflows, model providers and schemas.
//!
//! `registered_items` keeps the items in a snapshot ([`lookup::Given`]) that can be replaced while
//! runs are executed. [`CatalogueReader`](reader::CatalogueReader) is the public access: it looks
//! up single items, and `listing` returns all of them as a
//! [`Catalogue`](catalogue_entry::Catalogue).
//! `lookup` finds items by name among those that are registered and those that are linked into the
//! program. `graphs` resolves the names in workflows that are registered as data.
//!
//! `added_tools` is the only writer besides the builder and the documents.

pub(crate) mod added_tools;
pub(crate) mod catalogue_entry;
#[cfg(feature = "dynamic")]
pub(crate) mod graphs;
mod listing;
pub(crate) mod lookup;
pub(crate) mod name_arguments;
pub(crate) mod reader;
pub(crate) mod registered_items;
#[cfg(feature = "dynamic")]
pub(crate) mod unusable_item;
