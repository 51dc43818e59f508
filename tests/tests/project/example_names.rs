//! Checks that the doc examples of a crate do not share names of workflows. rustdoc links the
//! examples of a crate into one program, and a runtime that looks for a workflow by name, such as
//! a worker, refuses a name that two workflows have.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::workspace::{SOURCES, root};

#[test]
fn workflows_of_doc_examples_have_names_of_their_own() {
    let mut found = String::new();
    for source in SOURCES {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut files = Vec::new();
        add_files(&root().join(source), &mut files);
        files.sort();
        for file in files {
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            let text = fs::read_to_string(&file).unwrap();
            for name in workflows_of_examples(&text, is_page) {
                let file = file.strip_prefix(root()).unwrap().display().to_string();
                names.entry(name).or_default().push(file);
            }
        }
        for (name, files) in names {
            if files.len() > 1 {
                let _ = writeln!(found, "{name}: {}", files.join(", "));
            }
        }
    }
    assert!(found.is_empty(), "rename the workflows of all but one example:\n{found}");
}

#[test]
fn examples_that_do_not_run_are_not_counted() {
    let page = "\
# A page

```
#[workflow]
async fn one(a: u8) -> Result<u8> { Ok(a) }
#[workflow(name = \"second\")]
async fn two(a: u8) -> Result<u8> { Ok(a) }
```

```compile_fail
#[workflow]
async fn three(a: u8) -> Result<u8> { Ok(a) }
```
";
    assert_eq!(workflows_of_examples(page, true), ["one", "second"]);
    let mut code = String::new();
    for line in page.lines() {
        let _ = writeln!(code, "    /// {line}");
    }
    assert_eq!(workflows_of_examples(&code, false), ["one", "second"]);
    assert!(workflows_of_examples(page, false).is_empty(), "a page is not code");
}

/// Returns the names of the workflows in the examples of a file that are compiled into one program.
fn workflows_of_examples(text: &str, is_page: bool) -> Vec<String> {
    let attribute = Regex::new(r#"#\[workflow(?:\(.*name = "(?<name>[^"]+)".*\))?"#).unwrap();
    let function = Regex::new(r"\bfn (?<name>[a-z_0-9]+)").unwrap();
    let mut names = Vec::new();
    let (mut is_example, mut is_compiled, mut is_expected) = (false, false, false);
    for line in text.lines() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(line) = doc.or(is_page.then_some(line)) else {
            // An example ends with its comment.
            is_example = false;
            continue;
        };
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_example = !is_example;
            is_compiled = !language.contains("fail") && !language.contains("text");
            continue;
        }
        if !is_example || !is_compiled {
            continue;
        }
        if let Some(found) = attribute.captures(line) {
            match found.name("name") {
                Some(name) => names.push(name.as_str().to_owned()),
                None => is_expected = true,
            }
        }
        if is_expected && let Some(found) = function.captures(line) {
            names.push(found["name"].to_owned());
            is_expected = false;
        }
    }
    names
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            files.push(path);
        }
    }
}
