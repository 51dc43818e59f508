//! What is public, counted: a surface grows by decision, not by accident.

/// An agent's own methods are the first thing a newcomer sees when he types a dot; more than fourteen are a list and no
/// longer a menu. Rarer things belong into `Limits`, `ModelSettings`, `RunRequest` or `Runtime`.
#[test]
fn an_agent_has_at_most_fourteen_methods() {
    let source = include_str!("../../../agentflow/src/agent/mod.rs");
    let methods: Vec<&str> = source
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("pub fn ") || line.starts_with("pub async fn "))
        .collect();
    assert!((10..=14).contains(&methods.len()), "{} methods: {methods:#?}", methods.len());
}

/// Every source file says in its first line what it is for, and none outgrows a reader's head.
#[test]
fn every_file_opens_with_its_purpose_and_stays_short() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut checked = 0;
    for folder in ["agentflow/src", "agentflow-macros/src", "agentflow-testing/src", "examples/src"] {
        let mut open = vec![root.join(folder)];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    // `hello` is the README's first example, line for line.
                    let opens = text.starts_with("//!")
                        || text.starts_with("#![doc = include_str!")
                        || path.ends_with("examples/src/bin/hello.rs");
                    assert!(opens, "{} does not say what it is for", path.display());
                    let lines = text.lines().count();
                    assert!(lines <= 600, "{} has {lines} lines", path.display());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 30, "only {checked} files were found");
}
