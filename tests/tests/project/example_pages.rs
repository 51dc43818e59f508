//! Pages of the examples: each program has a page with its command, the README's table links to it,
//! and its links are valid. The test only reads files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::listed_examples::{examples, programs};

/// Returns the links of a page to files of the repository.
fn links(page: &str) -> Vec<&str> {
    let ends =
        page.match_indices("](").filter_map(|(at, begin)| page[at + begin.len()..].split_once(')'));
    ends.map(|(link, _)| link).filter(|link| !link.contains("://")).collect()
}

#[test]
fn every_program_has_a_page() {
    let entries =
        fs::read_dir(examples().join("pages")).unwrap().map(|entry| entry.unwrap().path());
    let names: BTreeSet<String> =
        entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(
        names,
        programs(),
        "a program without a page in examples/pages, or a page without a program"
    );
    let readme = fs::read_to_string(examples().join("README.md")).unwrap();
    for name in names {
        let row = readme.lines().find(|line| line.starts_with(&format!("| [`{name}`]"))).unwrap();
        assert!(
            row.contains(&format!("[page](pages/{name}.md)")),
            "the row of `{name}` does not lead to its page"
        );
        let page = fs::read_to_string(examples().join(format!("pages/{name}.md"))).unwrap();
        assert!(page.starts_with(&format!("# {name}\n")), "{name}");
        assert!(
            page.contains(&format!("cargo run -p agentflow-examples --bin {name}")),
            "{name} has no command"
        );
        for link in links(&page) {
            let leads = examples().join("pages").join(link);
            assert!(leads.is_file(), "the page of `{name}` leads nowhere: {link}");
        }
        // The page names each file of the program.
        let folder = examples().join("src/bin").join(&name);
        let files = fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path());
        for file in files.filter(|path| path.is_file()) {
            let file = file.strip_prefix(examples()).map(Path::to_path_buf).unwrap();
            let link = format!("](../{})", file.display());
            assert!(
                page.contains(&link),
                "the page of `{name}` does not say what {} is",
                file.display()
            );
        }
    }
}

#[test]
fn a_link_is_seen() {
    assert_eq!(links("a [`b`](c.rs) and [d](https://e.org), [f](../g)"), ["c.rs", "../g"]);
}
