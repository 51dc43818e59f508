//! Checks that each program of `examples/` has a row in the README and a test that starts it, and
//! that no row or test refers to a removed program. The test only reads files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// Returns the programs as cargo finds them: a file, or a folder with a `main.rs`.
pub(crate) fn programs() -> BTreeSet<String> {
    let entries =
        fs::read_dir(examples().join("src/bin")).unwrap().map(|entry| entry.unwrap().path());
    let is_program = |path: &PathBuf| match path.is_dir() {
        true => path.join("main.rs").is_file(),
        false => path.extension().is_some_and(|kind| kind == "rs"),
    };
    let programs = entries.filter(is_program);
    programs.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Returns the names in the rows of a table and their links.
fn rows(readme: &str) -> Vec<(String, String)> {
    let name_and_rest = |line: &str| {
        let (name, rest) = line.strip_prefix("| [`")?.split_once("`](")?;
        Some((name.to_owned(), rest.split_once(')')?.0.to_owned()))
    };
    readme.lines().filter_map(name_and_rest).collect()
}

/// Returns the programs that a test starts.
fn started(test: &str) -> BTreeSet<String> {
    let begins = test.match_indices("CARGO_BIN_EXE_").map(|(at, begin)| &test[at + begin.len()..]);
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    begins.map(|rest| rest.chars().take_while(|c| is_name(*c)).collect()).collect()
}

#[test]
fn every_program_has_a_row() {
    let rows = rows(&fs::read_to_string(examples().join("README.md")).unwrap());
    let names: BTreeSet<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(
        names,
        programs(),
        "a program without a row in examples/README.md, or a row without a program"
    );
    assert_eq!(names.len(), rows.len(), "a program has two rows in examples/README.md");
    for (name, link) in &rows {
        let own = [format!("src/bin/{name}.rs"), format!("src/bin/{name}/main.rs")];
        assert!(own.contains(link), "the row of `{name}` in examples/README.md leads to {link}");
        assert!(
            examples().join(link).is_file(),
            "the row of `{name}` in examples/README.md leads nowhere: {link}"
        );
    }
}

#[test]
fn every_program_is_started_by_a_test() {
    let tests =
        fs::read_dir(examples().join("tests/programs")).unwrap().map(|entry| entry.unwrap().path());
    let texts = tests
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        .map(fs::read_to_string);
    let tested: BTreeSet<String> = texts.flat_map(|text| started(&text.unwrap())).collect();
    assert_eq!(tested, programs(), "a program that no file of examples/tests/programs starts");
}

#[test]
fn a_missing_row_and_a_missing_test_are_seen() {
    let readme = "| name |\n| [`one`](src/bin/one.rs) | text with [`two`](x) |\n| `three` |\n";
    assert_eq!(rows(readme), [("one".to_owned(), "src/bin/one.rs".to_owned())]);
    let test = "env!(\"CARGO_BIN_EXE_one\") and env!(\"CARGO_BIN_EXE_two_more\")";
    assert_eq!(started(test).into_iter().collect::<Vec<_>>(), ["one", "two_more"]);
}
