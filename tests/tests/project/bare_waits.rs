//! Checks that no test waits without a limit: a missing event fails the test instead of hanging it.
//!
//! Works on the source text. A wait is bounded if it is an argument of a call with a limit, or if
//! the line above it kills the process or has waited for its end.

use std::ops::Range;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Functions that limit the waits in their arguments.
const LIMITED: &str = r"\b(?:within|wait_until|timeout|timeout_at|in_time)\(";

/// Waits without a time limit.
const WAITS: [&str; 6] = [
    r"\.(?:notified|changed|acquire|recv)\(\)\s*\.await",
    // Channels and threads of the standard library, and child processes.
    r"\.recv\(\)",
    r"\.join\(\)\s*\.(?:unwrap|expect|is_)",
    r"\.(?:wait|wait_with_output)\(\)",
    // Events of runs, and updates of tasks.
    r"\b(?:events|stream|run|updates)\.next\(\)\s*\.await",
    r"StreamExt::next\(&mut \w+\)\s*\.await",
];

/// Polling inside a loop.
const LOOKS: &str = r"yield_now\(\)|\bsleep\(";

/// Limit of a loop.
const OWN_LIMIT: &str = r"elapsed\(\)|\bin_time\(|\bwithin\(|\btimeout\(";

/// Allowed waits outside of the tests themselves, each with the reason. The text is part of the
/// line.
const ALLOWED: [(&str, &str, &str); 18] = [
    ("runs/elsewhere_deliveries.rs", "thread.join()", "every thread has finished"),
    (
        "src/elsewhere.rs",
        "self.said.lock().await.recv()",
        "a worker is told to stop by the run, or never",
    ),
    ("src/wire_cases.rs", "worker.join()", "each job has a limit"),
    (
        "generated/campaign.rs",
        "child.wait_with_output()",
        "each program ends itself after its patience",
    ),
    ("generated/kit/play.rs", "loop {", "it ends itself after its patience"),
    ("generated/kit/play.rs", "events.next()", "its caller gives up after its patience"),
    ("support/mod.rs", "while matches!", "a server that ends when its client has gone"),
    ("stores/sqlite_processes.rs", "loop {", "it is waited for with a limit"),
    (
        "hostile_input/check.rs",
        "stream.next()",
        "the model has limits, and fuzz targets share the file",
    ),
    ("http_requests.rs", "while stream.write_all", "a server that ends when its client has gone"),
    ("kill/forms.rs", "while round.kills", "it kills something each time"),
    ("runs/stories.rs", "loop {", "a person who answers until the run has ended"),
    (
        "runs/unpolled_calls.rs",
        "loop {",
        "an operator who cancels until the run has ended, which has a limit",
    ),
    ("versions/resumed.rs", "loop {", "a person who agrees until the run has ended"),
    ("stores/sqlite_processes.rs", "start.wait()", "threads that begin at the same time"),
    ("stores/sqlite_processes.rs", "thread.join()", "they open a store, which has a limit"),
    ("programs/support_desk.rs", "join()", "each question of the threads has a limit"),
    ("programs/support_desk.rs", "while !all_answered", "a person who agrees until the test ends"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the source files of the tests of all packages, with their shared code. Tests of compiler
/// messages are excluded because they do not run, and programs in `bin` because tests end the
/// programs they start.
fn files() -> Vec<PathBuf> {
    let folders =
        ["tests/tests", "tests/src", "tests/include", "examples/tests", "agentflow/tests"];
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !["ui", "bin", "project", "target"].contains(&&*name) {
                open.push(path);
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Returns the ranges of a text that are arguments of a call with a limit.
fn limited(text: &str, call: &Regex) -> Vec<Range<usize>> {
    let end = |begin: usize| {
        let mut depth = 1;
        let close = text[begin..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        close.map_or(text.len(), |(at, _)| begin + at)
    };
    call.find_iter(text).map(|found| found.end()..end(found.end())).collect()
}

/// Returns the lines of the block that starts at a line.
fn block<'t>(lines: &[&'t str], at: usize) -> Vec<&'t str> {
    let indent = lines[at].len() - lines[at].trim_start().len();
    let close = format!("{}}}", " ".repeat(indent));
    let is_open = lines[at].trim_end().ends_with('{');
    let length =
        lines[at + 1..].iter().position(|line| line.starts_with(&close)).filter(|_| is_open);
    lines[at..=at + length.map_or(0, |length| length + 1)].to_vec()
}

/// Returns the unbounded waits of a file with their line numbers.
fn bare_waits(text: &str) -> Vec<(usize, String)> {
    let pattern = |text: &str| Regex::new(text).unwrap();
    let (call, waits, looks) = (pattern(LIMITED), pattern(&WAITS.join("|")), pattern(LOOKS));
    let (head, own_limit) = (pattern(r"^\s*(?:while |loop \{)"), pattern(OWN_LIMIT));
    let limited = limited(text, &call);
    let is_limited = |at: usize| limited.iter().any(|range| range.contains(&at));
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for wait in waits.find_iter(text).filter(|wait| !is_limited(wait.start())) {
        let at = text[..wait.start()].matches('\n').count();
        let above = at.checked_sub(1).map_or("", |above| lines[above]);
        // A loop over a channel ends when its senders are dropped.
        let is_loop = lines[at].contains("while let ") && wait.as_str().contains("recv");
        let is_ended = above.contains(".kill()") || above.contains("wait_until(");
        if !is_loop && !is_ended && !lines[at].trim_start().starts_with("//") {
            found.push((at + 1, lines[at].trim().to_owned()));
        }
    }
    let mut start = 0;
    for (at, line) in lines.iter().enumerate() {
        let block = if head.is_match(line) { block(&lines, at) } else { Vec::new() };
        let text = block.join("\n");
        let is_service = line.contains("while let ");
        let looks_again =
            looks.is_match(&text) || text.trim_end().ends_with("{}") && line.contains(".await");
        if looks_again && !is_service && !is_limited(start) && !own_limit.is_match(&text) {
            found.push((at + 1, line.trim().to_owned()));
        }
        start += line.len() + 1;
    }
    found
}

#[test]
fn waits_have_a_limit() {
    let mut used = [false; ALLOWED.len()];
    let mut bare = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        for (line, wait) in bare_waits(&text) {
            match ALLOWED
                .iter()
                .position(|(file, text, _)| path.ends_with(file) && wait.contains(text))
            {
                Some(allowed) => used[allowed] = true,
                None => bare.push(format!("{}:{line}: {wait}", path.display())),
            }
        }
    }
    assert!(
        bare.is_empty(),
        "wait with `within` or `wait_until` of agentflow-testing:\n{}",
        bare.join("\n")
    );
    let unused: Vec<_> =
        ALLOWED.iter().zip(used).filter(|(_, used)| !used).map(|(allowed, _)| allowed).collect();
    assert!(unused.is_empty(), "these waits are there no more: {unused:#?}");
}

#[test]
fn bare_waits_are_found() {
    for bare in [
        "    begun.notified().await;",
        "    let got = received.recv().await.unwrap();",
        "    let _ = stuck.recv();",
        "    thread.join().unwrap();",
        "    child.wait().unwrap();",
        "    while let Some(event) = events.next().await {\n    }",
        "    while store.record(&id).await.is_none() {\n        tokio::task::yield_now().await;\n    }",
        "    loop {\n        std::thread::sleep(PAUSE);\n    }",
        "    while begin(\"ann\").await.is_none() {}",
    ] {
        assert_eq!(bare_waits(bare).len(), 1, "{bare}");
    }
    for bounded in [
        "    within(\"it\", begun.notified()).await;",
        "    child.kill().unwrap();\n    child.wait().unwrap();",
        "    wait_until(\"it\", || thread.is_finished().then_some(()));\n    thread.join().unwrap();",
        "    within(\"it\", async {\n        while look().await {\n            yield_now().await;\n        }\n    })\n    .await;",
        "    while let Some(bytes) = inbox.recv().await {\n    }",
    ] {
        assert_eq!(bare_waits(bounded), [], "{bounded}");
    }
}
