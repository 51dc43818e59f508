//! Budgets for the number of crates that a user compiles. A dependency that exceeds one needs a
//! decision.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Crates of the library without default features.
const CORE: usize = 60;
/// Crates of the library without default features but with the MCP client, which needs `dynamic`.
const MCP: usize = 120;
/// Crates that the MCP client, including HTTP, adds to the default features with `dynamic`, which
/// validates arguments against the servers' schemas.
const MCP_HTTP: usize = 35;
/// Crates that the MCP client adds to the default features alone. Half of them are `jsonschema` and
/// its dependencies.
const MCP_HTTP_WITH_SCHEMAS: usize = 68;
/// Crates that the A2A client and server with notifications add to the HTTP client, schema
/// validation and `axum`.
const A2A: usize = 12;
/// Crates of a hello program with default features and tokio. The same program written with reqwest
/// has 93.
const HELLO: usize = 115;

#[test]
fn the_core_keeps_to_its_budget() {
    check("core", CORE, &crates(&workspace(), &["-p", "agentflow-sdk", "--no-default-features"]));
}

#[test]
fn the_client_of_servers_of_tools_keeps_to_its_budget() {
    let options = ["-p", "agentflow-sdk", "--no-default-features", "--features", "mcp"];
    check("mcp", MCP, &crates(&workspace(), &options));
}

#[test]
#[expect(clippy::print_stdout, reason = "the count is worth seeing")]
fn the_client_adds_few_crates() {
    let of =
        |features: &str| crates(&workspace(), &["-p", "agentflow-sdk", "--features", features]);
    let with = of("mcp,mcp-http");
    for (base, budget) in [("dynamic", MCP_HTTP), ("openai-chat", MCP_HTTP_WITH_SCHEMAS)] {
        let before = of(base);
        let added: Vec<&str> = with.difference(&before).map(String::as_str).collect();
        println!("mcp-http adds {} crates of {budget} to the default with `{base}`", added.len());
        assert!(before.is_subset(&with), "this is not a list: {with:?}");
        assert!(
            added.len() <= budget,
            "it adds {} crates, the budget is {budget}:\n{}",
            added.len(),
            added.join("\n")
        );
    }
}

#[test]
fn agents_of_other_programs_keep_to_their_budget() {
    let of = |features: &str| {
        crates(
            &workspace(),
            &["-p", "agentflow-sdk", "--no-default-features", "--features", features],
        )
    };
    let given: BTreeSet<String> =
        of("http,dynamic").into_iter().chain(crates(&workspace(), &["-p", "axum"])).collect();
    let mut more: BTreeSet<String> =
        of("a2a-client,a2a-push").difference(&given).cloned().collect();
    // The package itself is in both lists.
    more.insert(format!("agentflow-sdk v{}", env!("CARGO_PKG_VERSION")));
    check("a2a", A2A, &more);
}

#[test]
fn a_hello_program_keeps_to_its_budget() {
    let hello = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hello");
    let workspace = workspace();
    std::fs::create_dir_all(hello.join("src")).unwrap();
    std::fs::write(hello.join("src/main.rs"), "fn main() {}\n").unwrap();
    std::fs::copy(workspace.join("Cargo.lock"), hello.join("Cargo.lock")).unwrap();
    let library = workspace.join("agentflow");
    let manifest = format!(
        r#"
[package]
name = "hello"
edition = "2024"

[dependencies]
agentflow = {{ package = "agentflow-sdk", path = '{}' }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[workspace]
"#,
        library.display()
    );
    std::fs::write(hello.join("Cargo.toml"), manifest).unwrap();
    check("hello", HELLO, &crates(&hello, &[]));
}

fn workspace() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the crates compiled for the program itself as `name vVERSION`, without build scripts and
/// tests.
fn crates(folder: &Path, options: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--offline"])
        .args(options)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    tree.lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect()
}

#[expect(clippy::print_stdout, reason = "the count is worth seeing")]
fn check(what: &str, budget: usize, crates: &BTreeSet<String>) {
    println!("{what}: {} crates of {budget}", crates.len());
    let list = crates.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(
        crates.contains(&format!("agentflow-sdk v{}", env!("CARGO_PKG_VERSION"))),
        "this is not a list:\n{list}"
    );
    assert!(
        crates.len() <= budget,
        "{what} has {} crates, its budget is {budget}:\n{list}",
        crates.len()
    );
}
