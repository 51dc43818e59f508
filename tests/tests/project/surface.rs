//! Checks the size of the public API, so that it grows only by decision.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::workspace::{LIBRARIES, SOURCES, is_internal, root};

/// Exports of the crate root, without macros and public modules.
const ROOT: &[&str] = &[
    "Agent",
    "Approval",
    "Caller",
    "CallerClaims",
    "Context",
    "Error",
    "Event",
    "Hooks",
    "Inject",
    "Message",
    "Model",
    "Registry",
    "Result",
    "RunHandle",
    "RunId",
    "Runtime",
    "Tool",
    "Workflow",
    // Tools that the library provides.
    "ask_user",
    "exit_loop",
    "forget",
    "recall",
    "remember",
    // Forms of a workflow.
    "fallback",
    "gate",
    "map",
    "race",
    "repeat",
    "timeout",
    // The macro; the module of this name is `agentflow-tools`.
    "tools",
    // Re-exports of other crates for macro expansions and trait implementations.
    "async_trait",
    "opentelemetry",
    "schemars",
    "serde",
    "serde_json",
];

/// Crates whose types are in public signatures, each with the reason. A new major version of such a
/// crate requires a new major version of ours.
const FOREIGN: &[(&str, &str)] = &[
    (
        "axum",
        "`Router`, which a host mounts, and `HeaderMap`, which says who a client is, behind the feature `a2a-server`",
    ),
    ("futures_util", "`Stream`, the trait of streams until the standard library has one"),
    ("http", "`HeaderMap` and `HeaderValue`, by which a host checks who calls its server of tools"),
    ("opentelemetry", "`Meter`, behind the feature `metrics`"),
    ("schemars", "`JsonSchema`, from which schemas are made"),
    ("serde", "the traits of every value that crosses a boundary"),
    ("serde_json", "`Value`, for schemas and arguments that have no type"),
    (
        "tokio",
        "`AsyncRead`, `AsyncWrite` and `TcpListener`, over which a server of tools in the program is spoken with",
    ),
];

/// Returns the source files of a folder with their code.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut open, mut all) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                all.push((path, text));
            }
        }
    }
    all.sort();
    all
}

/// Returns the part of a file before its tests.
fn before_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default()
}

#[test]
fn the_root_has_few_names() {
    let lib = std::fs::read_to_string(root().join("agentflow/src/lib.rs")).unwrap();
    let (own, prelude) = lib.split_once("pub mod prelude").expect("there is a prelude");
    let mut names = BTreeSet::new();
    let mut before = "";
    for line in own.split("\npub use ") {
        // Modules of other crates are shown as own ones, and `__private` is hidden.
        let is_module = before.ends_with("#[doc(inline)]") || before.ends_with("#[doc(hidden)]");
        let is_first = before.is_empty();
        before = line;
        let path = line.split(';').next().unwrap_or_default();
        if is_first || is_module || path.starts_with("agentflow_macros") {
            continue;
        }
        let last = path.rsplit_once("::").map_or(path, |(_, last)| last);
        let of = path.split_once('{').map_or(last, |(_, of)| of.trim_end_matches('}'));
        names.extend(
            of.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()),
        );
    }
    let expected: BTreeSet<String> = ROOT.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names, expected);
    assert!(prelude.contains("Agent"));
}

/// Counts the methods of an agent: its own in all files, and those of traits in the prelude. The
/// limit keeps completion lists readable; rarer settings belong in `AgentSettings`, `Hooks`,
/// `RunRequest` or `Runtime`.
#[test]
fn methods_after_the_dot_are_counted() {
    let methods = |begin: &str| {
        let mut found = BTreeSet::new();
        for (_, text) in LIBRARIES.into_iter().flat_map(sources) {
            for block in before_tests(&text).split(begin).skip(1) {
                let block = block.split("\n}\n").next().unwrap_or_default();
                let lines = block.lines().map(str::trim);
                let lines = lines.filter(|line| {
                    line.starts_with("pub fn ") || line.starts_with("pub async fn ")
                });
                let lines = lines.filter(|line| line.contains("self"));
                found.extend(
                    lines
                        .filter_map(|line| line.split("fn ").nth(1)?.split(['(', '<']).next())
                        .map(str::to_owned),
                );
            }
        }
        found
    };
    let agent = methods("\nimpl<O: 'static> Agent<O> {");
    assert!((10..15).contains(&agent.len()), "{} methods: {agent:#?}", agent.len());
    let traits: BTreeSet<String> = sources("crates/core/src")
        .iter()
        .flat_map(|(_, text)| before_tests(text).lines().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|line| line.split_once(" for Agent<O> {").map(|(begin, _)| begin.to_owned()))
        .filter_map(|begin| begin.split([' ', ':']).next_back().map(str::to_owned))
        .collect();
    let lib = std::fs::read_to_string(root().join("agentflow/src/lib.rs")).unwrap();
    let (_, prelude) = lib.split_once("pub mod prelude").expect("there is a prelude");
    let brought: Vec<&String> =
        traits.iter().filter(|name| prelude.contains(name.as_str())).collect();
    assert!(traits.len() > 1 && brought.is_empty(), "the prelude brings {brought:?} of {traits:?}");
    let handle = methods("\nimpl<T> RunHandle<T> {");
    // Seven control requests, one for a message to the agent, one that waits for a question, two
    // for artifacts, and two for usage.
    assert!((8..=21).contains(&handle.len()), "{} methods: {handle:#?}", handle.len());
}

/// Each control request has the same name on the handle, on `RunRef` and on the command line.
#[test]
fn controls_have_one_name_everywhere() {
    let text = |file: &str| std::fs::read_to_string(root().join("crates").join(file)).unwrap();
    let (handle, by_id) =
        (text("core/src/run/handle.rs"), text("core/src/runtime/runs/run_ref.rs"));
    let cli = text("cli/src/args.rs");
    for control in ["pause", "unpause", "cancel", "retry", "approve"] {
        // An async function, or a function that returns an awaitable request.
        let methods = [format!("pub async fn {control}("), format!("pub fn {control}(")];
        let generic = format!("pub fn {control}<");
        let has = |text: &str| {
            methods.iter().any(|method| text.contains(method)) || text.contains(&generic)
        };
        let command = format!("    {}{}", control[..1].to_uppercase(), &control[1..]);
        assert!(has(&handle), "a handle has no `{control}`");
        assert!(has(&by_id), "`RunRef` has no `{control}`");
        assert!(cli.contains(&command), "the command line has no `{control}`");
    }
    assert!(
        !handle.contains("pub async fn resume("),
        "`resume` continues a run whose process ended"
    );
}

/// Public enums and structs with public fields are `#[non_exhaustive]`. The exceptions are listed
/// here with the reason.
#[test]
fn what_may_grow_is_non_exhaustive() {
    let fixed = BTreeMap::from([
        ("Approval", "a workflow matches on it, and both arms are the whole question"),
        ("Flow", "a hook lets the call continue or answers it"),
    ]);
    let mut wrong = Vec::new();
    for folder in LIBRARIES {
        for (path, text) in sources(folder) {
            let is_hidden = path.components().any(|part| part.as_os_str() == "__private");
            if is_hidden || is_internal(&path) || path.ends_with("agent/call.rs") {
                continue;
            }
            let lines: Vec<&str> = before_tests(&text).lines().collect();
            for (at, line) in lines.iter().enumerate() {
                let item =
                    line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct "));
                let Some(name) =
                    item.and_then(|item| item.split(|c: char| !c.is_alphanumeric()).next())
                else {
                    continue;
                };
                let body = lines[at + 1..].iter().take_while(|line| **line != "}");
                let fields = line.ends_with('{')
                    && body.clone().any(|line| line.starts_with("    pub ") && line.contains(':'));
                let above =
                    lines[..at].iter().rev().take_while(|line| !line.is_empty() && **line != "}");
                let hidden = above.clone().any(|line| line.contains("doc(hidden)"));
                let grows = above.clone().any(|line| line.contains("non_exhaustive"));
                if (line.starts_with("pub enum ") || fields)
                    && !grows
                    && !hidden
                    && !fixed.contains_key(name)
                {
                    wrong.push(format!("{}: `{name}`", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these may grow and are not `#[non_exhaustive]`: {wrong:#?}");
}

/// A test of `agents` lists all public types. Without it, a type that is not `Sync` would compile
/// until a program keeps it across an `.await`.
#[test]
fn public_types_are_listed_as_send_and_sync() {
    /// Types of macro expansions, which programs do not name, and a type that is not kept across an
    /// `.await`.
    const OTHERS: [&str; 16] = [
        "Json",
        "OutputKey",
        "Refusal",
        "SharedState",
        "LetValue",
        "Unbuilt",
        "GraphOf",
        "KillTest",
        "Bound",
        "Unawaited",
        "OneType",
        "IsStandard",
        "IsOther",
        "Told",
        "Looked",
        "Once",
    ];
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let listed =
        words(&std::fs::read_to_string(root().join("tests/tests/agents/thread_safe.rs")).unwrap());
    let of_expansions: String =
        sources("crates/core/src/__private").into_iter().map(|(_, text)| text).collect();
    let of_expansions = words(&of_expansions);
    let mut missing = Vec::new();
    for (path, text) in LIBRARIES.into_iter().flat_map(sources) {
        if path.components().any(|part| part.as_os_str() == "__private") || is_internal(&path) {
            continue;
        }
        let lines: Vec<&str> = before_tests(&text).lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let item = line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct "));
            let Some(name) =
                item.and_then(|item| item.split(|c: char| !c.is_alphanumeric()).next())
            else {
                continue;
            };
            let above =
                lines[..at].iter().rev().take_while(|line| !line.is_empty() && **line != "}");
            let is_hidden = above.clone().any(|line| line.contains("doc(hidden)"));
            if !is_hidden
                && !OTHERS.contains(&name)
                && !listed.contains(name)
                && !of_expansions.contains(name)
            {
                missing.push(format!("{}: `{name}`", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "add these to tests/tests/agents/thread_safe.rs: {missing:#?}");
    assert!(listed.len() > 300, "only {} words are listed", listed.len());
}

/// Reads the imports of each file, and finds types of other crates in the signatures of public
/// items.
#[test]
fn types_of_other_crates_in_signatures_are_few() {
    let own = [
        "std",
        "core",
        "crate",
        "self",
        "super",
        "agentflow",
        "agentflow_a2a",
        "agentflow_config",
        "agentflow_core",
        "agentflow_front",
        "agentflow_http",
        "agentflow_layout",
        "agentflow_macros",
        "agentflow_mcp",
        "agentflow_models",
        "agentflow_schema",
        "agentflow_tools",
    ];
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in LIBRARIES.into_iter().flat_map(sources) {
        if path.components().any(|part| part.as_os_str() == "__private") || is_internal(&path) {
            continue;
        }
        let text = before_tests(&text);
        let mut of: BTreeMap<String, String> = BTreeMap::new();
        for import in text.split("\nuse ").skip(1) {
            let import = import.split(';').next().unwrap_or_default();
            let krate = import.split("::").next().unwrap_or_default();
            if own.contains(&krate) {
                continue;
            }
            for name in import
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|name| !name.is_empty())
            {
                of.insert(name.to_owned(), krate.to_owned());
            }
        }
        for (at, _) in text.match_indices("pub ") {
            let item = &text[at..];
            let begin = text[..at].rsplit('\n').next().unwrap_or_default();
            let ends: &[char] =
                if item.starts_with("pub type") { &[';'] } else { &['{', ';', '='] };
            let end = item.find(ends).unwrap_or(item.len());
            let is_item = ["pub fn", "pub async fn", "pub type", "pub trait", "pub const fn"]
                .iter()
                .any(|kind| item.starts_with(kind));
            let is_field = item[..end.min(item.len())].contains(": ")
                && begin.trim().is_empty()
                && !item.starts_with("pub use");
            if !begin.trim().is_empty() || !(is_item || is_field) {
                continue;
            }
            // A function may share its name with a module of another crate.
            let (declared, signature) = item[..end].split_once('(').unwrap_or((&item[..end], ""));
            let called = declared.split_once("fn ").map_or("", |(_, called)| called);
            let (_, generics) = called.split_once('<').unwrap_or_default();
            let signature = if is_item && !called.is_empty() {
                format!("{generics}({signature}")
            } else {
                item[..end].to_owned()
            };
            for name in signature.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if let Some(krate) = of.get(name) {
                    found
                        .entry(krate.clone())
                        .or_default()
                        .insert(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    let allowed: BTreeSet<&str> = FOREIGN.iter().map(|(krate, _)| *krate).collect();
    let named: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(named, allowed, "public signatures name types of other crates: {found:#?}");
}

/// Every source file starts with a comment on its purpose, and no file has more than 660 lines
/// besides comments, which should not be saved on.
#[test]
fn every_file_opens_with_its_purpose_and_stays_short() {
    let mut checked = 0;
    for folder in SOURCES {
        let mut open = vec![root().join(folder)];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    // `hello` is the first example of the README, line by line.
                    let opens = text.starts_with("//!")
                        || text.starts_with("#![doc = include_str!")
                        || path.ends_with("examples/src/bin/hello.rs")
                        // A documentation page includes this file, so it has no header.
                        || path.ends_with("store/example_store.rs");
                    assert!(opens, "{} does not say what it is for", path.display());
                    let lines =
                        text.lines().filter(|line| !line.trim_start().starts_with("//")).count();
                    assert!(lines <= 660, "{} has {lines} lines", path.display());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 30, "only {checked} files were found");
}
