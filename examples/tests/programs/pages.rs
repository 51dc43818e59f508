//! Checks that the pages of the examples agree with the programs: output shown on a page is
//! compared with the real output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs whose pages show their complete output.
const PROGRAMS: [(&str, &str); 8] = [
    ("coding_agent", env!("CARGO_BIN_EXE_coding_agent")),
    ("exchange_tracker", env!("CARGO_BIN_EXE_exchange_tracker")),
    ("levels", env!("CARGO_BIN_EXE_levels")),
    ("middleware", env!("CARGO_BIN_EXE_middleware")),
    ("opaque", env!("CARGO_BIN_EXE_opaque")),
    ("review_board", env!("CARGO_BIN_EXE_review_board")),
    ("support_triage", env!("CARGO_BIN_EXE_support_triage")),
    ("web_research", env!("CARGO_BIN_EXE_web_research")),
];

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("pages")
}

/// Returns the block of text below a line.
fn block<'p>(page: &'p str, line: &str) -> Option<&'p str> {
    let (_, rest) = page.split_once(&format!("{line}\n\n```text\n"))?;
    rest.split_once("```\n").map(|(block, _)| block)
}

#[test]
fn what_a_page_shows_is_printed() {
    for (name, program) in PROGRAMS {
        if cfg!(not(unix)) && name == "coding_agent" {
            continue;
        }
        let page = fs::read_to_string(pages().join(format!("{name}.md"))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        let output =
            command.current_dir(folder.path()).env_remove("AGENTFLOW_MODEL").output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(block(&page, "It prints:"), Some(&*printed), "pages/{name}.md says otherwise");
        if let Some(said) = block(&page, "On standard error it says:") {
            assert_eq!(
                said,
                String::from_utf8(output.stderr).unwrap(),
                "pages/{name}.md says otherwise"
            );
        }
    }
}

#[test]
fn no_page_shows_what_nobody_holds_it_to() {
    let shows = |name: &str| fs::read_to_string(pages().join(name)).unwrap().contains("It prints:");
    let entries = fs::read_dir(pages())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut shown: Vec<String> = entries.filter(|name| shows(name)).collect();
    shown.sort();
    assert_eq!(shown, PROGRAMS.map(|(name, _)| format!("{name}.md")));
}
