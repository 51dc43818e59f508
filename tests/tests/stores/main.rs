//! The stores: rules of the `Store` trait, faults of a file, and several processes with one file.

mod artifact_files;
mod artifacts;
mod deleted_bytes;
mod deletion;
mod formats;
mod inbox;
mod lone_writer;
mod memory;
mod paused_time;
mod private_files;
mod release_file;
mod sqlite_errors;
mod sqlite_processes;
mod store;
mod stored_documents;
mod stored_versions;
