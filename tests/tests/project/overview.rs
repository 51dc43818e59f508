//! Checks that the overview page has exactly one row for each public module and each feature of the
//! library. The test only reads files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../agentflow")
}

fn read(file: &str) -> String {
    fs::read_to_string(library().join(file)).unwrap()
}

/// Returns the names in the first cells of a section's table.
fn rows(section: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let cell = line.strip_prefix("| ")?.split(" |").next()?;
        cell.split('`').nth(1).map(ToOwned::to_owned)
    };
    section.lines().filter_map(name).collect()
}

/// Returns the modules of the library: its own, and re-exported modules of other crates.
fn public_modules(lib: &str) -> BTreeSet<String> {
    let own =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.split([';', ' ']).next());
    let mut modules: BTreeSet<String> = own.map(str::to_owned).collect();
    for shown in lib.split("#[doc(inline)]\npub use ").skip(1) {
        let shown = shown.split(';').next().unwrap_or_default();
        // A re-exported crate is a module under another name.
        let (_, names) = shown.split_once("::").or_else(|| shown.split_once(" as ")).unwrap();
        let names =
            names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
        modules.extend(names.map(str::to_owned));
    }
    modules
}

#[test]
fn modules_of_other_crates_are_seen() {
    let lib = "#[doc(inline)]\npub use core::{\n    a, b,\n};\n#[doc(inline)]\npub use core::c;\n#[doc(inline)]\npub use whole as f;\npub use core::D;\npub mod e {}\n";
    assert_eq!(public_modules(lib), ["a", "b", "c", "e", "f"].map(String::from).into());
}

#[test]
fn the_overview_has_a_line_for_each_module_and_each_feature() {
    let page = read("src/docs/overview.md");
    let (modules, features) = page.split_once("# Features").unwrap();
    assert_eq!(rows(modules), public_modules(&read("src/lib.rs")));
    let manifest = read("Cargo.toml");
    let (_, rest) = manifest.split_once("\n[features]\n").unwrap();
    let section = rest.split("\n[").next().unwrap();
    let feature = |line: &str| Some(line.split_once(" = [")?.0.to_owned());
    let switched: BTreeSet<String> = section.lines().filter_map(feature).collect();
    assert_eq!(rows(features), switched);
}

#[test]
fn a_row_is_seen() {
    assert_eq!(
        rows("| module | x |\n| --- | --- |\n| [`a`](crate::a) | b |\n| `c-d` | e |"),
        ["a", "c-d"].map(String::from).into()
    );
}
