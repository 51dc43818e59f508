//! The stores: their rules, what can be wrong with a file, and several processes and threads at one file.

mod sqlite_errors;
mod sqlite_processes;
mod sqlite_threads;
mod store;
