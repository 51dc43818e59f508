//! Checks that the crate diagram in `ARCHITECTURE.md` has the dependencies that Cargo reports. The
//! test runs `cargo metadata` and links no crate.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::workspace::root;

/// Returns the arrows `from --> to` of a text.
fn drawn(text: &str) -> BTreeSet<String> {
    let arrows = text.lines().map(str::trim).filter(|line| line.contains(" --> "));
    arrows.map(str::to_owned).collect()
}

/// Returns the arrows between published packages. Dependencies of tests are left out.
fn known_to_cargo() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let published: Vec<&Value> =
        packages.iter().filter(|package| package["publish"] != serde_json::json!([])).collect();
    let names: BTreeSet<&str> =
        published.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut arrows = BTreeSet::new();
    for package in &published {
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            if dependency["kind"].is_null() && names.contains(name) {
                arrows.insert(format!("{} --> {name}", package["name"].as_str().unwrap()));
            }
        }
    }
    arrows
}

#[test]
fn the_picture_of_the_crates_is_true() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = page.split("\n## Crates\n").nth(1).expect("a section about the crates");
    let section = section.split("\n## ").next().unwrap_or_default();
    let arrows = known_to_cargo();
    assert!(arrows.contains("agentflow-sdk --> agentflow-core"), "{arrows:?}");
    assert_eq!(drawn(section), arrows);
}
