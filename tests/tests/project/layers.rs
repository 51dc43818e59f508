//! The modules of each crate and their imports, read from the `use crate::` lines and compared with
//! one list.
//!
//! A room is a file or folder directly below the source folder of a crate. It imports only from
//! rooms above it in the list, so rooms form no cycles. Within a room, files may import each other,
//! up to a limit. Cargo refuses cycles between crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::workspace::root;

/// Crates with rooms, and the rooms of each from the bottom to the top layer.
const CRATES: [(&str, &[&str]); 14] = [
    ("crates/schema/src", SCHEMA),
    ("crates/http/src", HTTP),
    ("crates/layout/src", LAYOUT),
    ("crates/core/src", CORE),
    ("crates/front/src", FRONT),
    ("crates/models/src", MODELS),
    ("crates/sqlite/src", SQLITE),
    ("crates/postgres/src", POSTGRES),
    ("crates/views/src", VIEWS),
    ("crates/tools/src", TOOLS),
    ("crates/mcp/src", MCP),
    ("crates/a2a/src", A2A),
    ("crates/server/src", SERVER),
    ("crates/config/src", CONFIG),
];

/// Crates whose files form a single room: the commands of `agentflow-cli` share their arguments and
/// their output.
const SINGLE_ROOMS: [&str; 1] = ["crates/cli/src"];

/// Rooms of `agentflow-schema`.
const SCHEMA: &[&str] = &[
    "text",
    "diagnostic",
    "template",
    "expression",
    "schema",
    "schema_check",
    "strict",
    "text_tree",
    "lib",
];

/// Rooms of `agentflow-http`.
const HTTP: &[&str] = &[
    "url_parts",
    "wait_times",
    "secret_header",
    "sse",
    "address_guard",
    "client_error",
    "trusted_roots",
    "client",
    "lib",
];

/// Rooms of `agentflow-layout`.
const LAYOUT: &[&str] = &[
    "diagram",
    "placed",
    "font_widths",
    "text_width",
    "label_size",
    "layered",
    "curve",
    "nesting",
    "assembly",
    "svg",
    "lib",
];

/// Rooms of `agentflow-front`.
const FRONT: &[&str] = &[
    "caller_slots",
    "host_header",
    "allowed_origins",
    "peer_address",
    "authenticate",
    "bearer_token",
    "http_front",
    "listener",
    "lib",
];

/// Rooms of `agentflow-core`.
const CORE: &[&str] = &[
    // Vocabulary.
    "tuples",
    "text_file",
    "mask",
    "panics",
    "private_file",
    "wire",
    "value",
    "artifact",
    "state",
    "time",
    "path",
    "mailbox",
    "resource",
    "caller",
    "access_action",
    "failure_problem",
    "failure",
    "future",
    "message",
    "on_timeout",
    "tool_definition",
    "dry_run",
    "definition",
    "linked",
    // Models, events and storage.
    "model",
    "event",
    "store",
    "error",
    "memory",
    "session",
    "access",
    // Runs, independent of their content.
    "run",
    "executor",
    "context",
    "telemetry",
    "middleware",
    "tool",
    // Agents and workflows.
    "agent",
    "workflow",
    // Workflows from operators and from files.
    "pipeline",
    "document",
    // The only room that depends on both.
    "runtime",
    // For macro expansions and the other crates.
    "__private",
    "diagnostic",
    "lib",
];

/// Rooms of `agentflow-models`.
const MODELS: &[&str] = &[
    "loose",
    "http",
    "sent_call",
    "assembly",
    "openai",
    "anthropic",
    "gemini",
    "decoder_tests",
    "lib",
];

/// Rooms of `agentflow-sqlite`.
const SQLITE: &[&str] = &["private_file", "store", "memory", "lib"];

/// Rooms of `agentflow-postgres`.
const POSTGRES: &[&str] = &["store", "lib"];

/// Rooms of `agentflow-views`.
const VIEWS: &[&str] = &[
    "screen_event",
    "agent_event",
    "task_chunk",
    "task_request",
    "task_result",
    "task_start",
    "process_request",
    "graph_diagram",
    "lib",
];

/// Rooms of `agentflow-server`.
const SERVER: &[&str] = &[
    "problem",
    "api_error",
    "cross_origin",
    "server_options",
    "continue_run",
    "page",
    "extract",
    "idempotency_key",
    "operation",
    "open_api",
    "resources",
    "stream",
    "api",
    "request_guard",
    "server_error",
    "listener",
    "server",
    "lib",
];

/// Rooms of `agentflow-tools`. `private` is the file of its hidden module `__private`.
const TOOLS: &[&str] = &[
    "computing",
    "condition_tool",
    "json_path",
    "transform_tool",
    "process_group",
    "programs",
    "writable_folders",
    "storage",
    "http",
    "api",
    "private",
    "lib",
];

/// Rooms of `agentflow-mcp`.
const MCP: &[&str] = &["mcp", "mcp_server", "lib"];

/// Rooms of `agentflow-a2a`.
const A2A: &[&str] = &["a2a", "a2a_server", "lib"];

/// Rooms of `agentflow-config`.
const CONFIG: &[&str] = &[
    "config_error",
    "entry_problem",
    "configured_models",
    "configured_servers",
    "configured_tools",
    "runtime_config",
    "configure_runtime",
    "lib",
];

/// Maximum number of files within one room that import each other.
const CIRCLE: usize = 6;

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "bin" && name != "docs") {
            files(&path, all);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            all.push(path);
        }
    }
}

/// Returns the code of a file without comments and tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the paths that follow a prefix such as `crate::`, split into their parts.
fn named(code: &str, begin: &str) -> Vec<Vec<String>> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices(begin) {
        if code[..at].ends_with(|c: char| is_name(c) || c == ':' || c == '$') {
            continue;
        }
        let mut parts = Vec::new();
        let mut rest = &code[at + begin.len()..];
        loop {
            let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
            if name.is_empty() {
                break;
            }
            rest = &rest[name.len()..];
            parts.push(name);
            match rest.strip_prefix("::") {
                Some(more) => rest = more,
                None => break,
            }
        }
        found.push(parts);
    }
    found
}

fn room_of(source: &Path, path: &Path) -> String {
    let within = path.strip_prefix(source).unwrap();
    let first = within.components().next().unwrap().as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn a_room_imports_only_from_rooms_above_it() {
    for (folder, rooms) in CRATES {
        check_rooms(&root().join(folder), rooms);
    }
}

fn check_rooms(source: &Path, rooms: &[&str]) {
    let mut all = Vec::new();
    files(source, &mut all);
    let place = |room: &str| rooms.iter().position(|of| *of == room);
    let (mut seen, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    for path in &all {
        let room = room_of(source, path);
        let Some(own) = place(&room) else {
            wrong.insert(format!("`{room}` is a room that the list does not have"));
            continue;
        };
        for to in
            named(&code(path), "crate::").into_iter().filter_map(|parts| parts.into_iter().next())
        {
            match place(&to) {
                Some(other) if other > own => {
                    wrong.insert(format!(
                        "{}: `{room}` imports from `{to}`, which stands below it",
                        path.display()
                    ));
                }
                _ => {}
            }
        }
        seen.insert(room);
    }
    let gone: Vec<_> = rooms.iter().filter(|room| !seen.contains(**room)).collect();
    assert!(wrong.is_empty() && gone.is_empty(), "{wrong:#?}\nrooms without a file: {gone:?}");
}

#[test]
fn circles_stay_small_and_within_a_room() {
    for (folder, _) in CRATES {
        check_circles(&root().join(folder), false);
    }
    for folder in SINGLE_ROOMS {
        check_circles(&root().join(folder), true);
    }
}

fn check_circles(source: &Path, is_single_room: bool) {
    let mut all = Vec::new();
    files(source, &mut all);
    // Maps each file to its module path, such as `workflow::driver::task`.
    let module = |path: &Path| {
        let within = path.strip_prefix(source).unwrap().with_extension("");
        let mut parts: Vec<String> =
            within.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        parts
    };
    let modules: BTreeMap<Vec<String>, &PathBuf> =
        all.iter().map(|path| (module(path), path)).collect();
    let mut arrows: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> = BTreeMap::new();
    for (of, path) in &modules {
        let code = code(path);
        let mut named_here: Vec<Vec<String>> = named(&code, "crate::");
        for (begin, up) in [("self::", 0), ("super::super::", 2), ("super::", 1)] {
            let above: Vec<String> = of[..of.len().saturating_sub(up)].to_vec();
            named_here.extend(
                named(&code, begin).into_iter().map(|parts| [above.clone(), parts].concat()),
            );
        }
        for mut to in named_here {
            while !to.is_empty() && !modules.contains_key(&to) {
                to.pop();
            }
            // A folder's own module file re-exports names, so its imports from below do not count
            // as dependencies.
            let is_door = |folder: &Vec<String>, file: &Vec<String>| {
                file.starts_with(folder) && file != folder
            };
            if let Some((to, _)) = modules.get_key_value(&to)
                && to != of
                && !to.is_empty()
                && !is_door(of, to)
            {
                arrows.entry(of).or_default().insert(to);
            }
        }
    }
    let reach = |from: &Vec<String>| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            for to in arrows.get(at).into_iter().flatten() {
                if seen.insert(*to) {
                    next.push(*to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = modules.keys().map(|of| (of, reach(of))).collect();
    for (of, to) in &reached {
        let circle: Vec<String> = to
            .iter()
            .filter(|other| reached[**other].contains(*of))
            .map(|other| other.join("::"))
            .collect();
        let rooms: BTreeSet<&str> =
            circle.iter().map(|file| file.split("::").next().unwrap_or_default()).collect();
        assert!(
            is_single_room || rooms.len() <= 1,
            "files of several rooms import each other: {circle:?}"
        );
        assert!(circle.len() <= CIRCLE, "{} files import each other: {circle:?}", circle.len());
    }
}
