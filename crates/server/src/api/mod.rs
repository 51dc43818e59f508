//! The operations of the API, a file for each theme. Each file lists its operations with their
//! documentation beside their handlers.

mod catalogue;
mod controls;
mod documents;
mod drawing;
mod health;
mod nodes;
mod questions;
mod runs;
mod sessions;
mod short_routes;
mod start_run;
mod workflows;

use crate::operation::Operation;

/// Returns all operations.
pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    all.extend(tagged("workflows", workflows::operations()));
    all.extend(tagged("documents", documents::operations()));
    all.extend(tagged("sessions", sessions::operations()));
    all.extend(tagged("runs", runs::operations()));
    all.extend(tagged("controls", controls::operations()));
    all.extend(tagged("nodes", nodes::operations()));
    all.extend(tagged("questions", questions::operations()));
    all.extend(tagged("catalogue", catalogue::operations()));
    all.extend(tagged("service", health::operations()));
    all.extend(tagged("short", short_routes::operations()));
    all
}

fn tagged(tag: &'static str, operations: Vec<Operation>) -> Vec<Operation> {
    operations.into_iter().map(|operation| operation.tagged(tag)).collect()
}
