//! The crates of the workspace and their source folders. The helpers read files and link no crate.

use std::path::{Path, PathBuf};

/// Source folders of the crates that programs link, each after the crates that it depends on.
pub(crate) const LIBRARIES: [&str; 17] = [
    "crates/schema/src",
    "crates/http/src",
    "crates/layout/src",
    "crates/core/src",
    "crates/front/src",
    "crates/models/src",
    "crates/sqlite/src",
    "crates/postgres/src",
    "crates/views/src",
    "crates/tools/src",
    "crates/mcp/src",
    "crates/a2a/src",
    "crates/server/src",
    "crates/config/src",
    "crates/cli/src",
    "agentflow/src",
    "agentflow-testing/src",
];

/// Source folders of all published code, and of the examples.
pub(crate) const SOURCES: [&str; 20] = [
    "crates/schema/src",
    "crates/http/src",
    "crates/layout/src",
    "crates/core/src",
    "crates/front/src",
    "crates/models/src",
    "crates/sqlite/src",
    "crates/postgres/src",
    "crates/views/src",
    "crates/tools/src",
    "crates/mcp/src",
    "crates/a2a/src",
    "crates/server/src",
    "crates/config/src",
    "crates/cli/src",
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

/// Files of the crates above the core whose public items serve only other crates: they are hidden, or
/// in the hidden module `__private` of `agentflow-tools`.
const HIDDEN_FILES: [&str; 10] = [
    "crates/front/src/caller_slots.rs",
    "crates/front/src/http_front.rs",
    "crates/front/src/listener.rs",
    "crates/front/src/peer_address.rs",
    "crates/mcp/src/mcp/authorization/auth_requests.rs",
    "crates/tools/src/http/guarded_request.rs",
    "crates/tools/src/http/http_address.rs",
    "crates/tools/src/http/http_post.rs",
    "crates/tools/src/http/oauth_tokens.rs",
    "crates/tools/src/process_group.rs",
];

/// Returns `true` for a file of a crate whose items serve only other crates, so that programs do not
/// name them.
pub(crate) fn is_internal(path: &Path) -> bool {
    let hides = |folder: &str, api: &[&str]| {
        path.starts_with(root().join(folder)) && !api.iter().any(|file| path.ends_with(file))
    };
    let is_hidden = HIDDEN_FILES.iter().any(|file| path == root().join(file));
    is_hidden || hides("crates/schema", &SCHEMA_API) || hides("crates/http", &HTTP_API)
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
    folders
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no crate has the file {file}"))
}
