//! The crates of the workspace and their source folders. The helpers read files and link no crate.

use std::path::{Path, PathBuf};

/// Source folders of the crates that programs link, each after the crates that it depends on.
pub(crate) const LIBRARIES: [&str; 8] = [
    "crates/schema/src",
    "crates/http/src",
    "crates/core/src",
    "crates/models/src",
    "crates/sqlite/src",
    "crates/views/src",
    "agentflow/src",
    "agentflow-testing/src",
];

/// Source folders of all published code, and of the examples.
pub(crate) const SOURCES: [&str; 11] = [
    "crates/schema/src",
    "crates/http/src",
    "crates/core/src",
    "crates/models/src",
    "crates/sqlite/src",
    "crates/views/src",
    "agentflow/src",
    "agentflow-include/src",
    "agentflow-macros/src",
    "agentflow-testing/src",
    "examples/src",
];

/// Files of `agentflow-schema` whose items `agentflow` re-exports.
const SCHEMA_API: [&str; 3] = ["expression/mod.rs", "schema/mod.rs", "template.rs"];

/// Files of `agentflow-http` whose items `agentflow` re-exports.
const HTTP_API: [&str; 1] = ["address_guard.rs"];

/// Returns `true` for a file of a lower crate whose items serve only other crates, so that programs
/// do not name them.
pub(crate) fn is_internal(path: &Path) -> bool {
    let hides = |folder: &str, api: &[&str]| {
        path.starts_with(root().join(folder)) && !api.iter().any(|file| path.ends_with(file))
    };
    hides("crates/schema", &SCHEMA_API) || hides("crates/http", &HTTP_API)
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the path of a library's source file, such as `text.rs`.
///
/// # Panics
/// When no library has it.
pub(crate) fn library_file(file: &str) -> PathBuf {
    let folders = LIBRARIES.iter().map(|folder| root().join(folder).join(file));
    folders.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no crate has the file {file}"))
}
