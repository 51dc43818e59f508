//! Benchmark of startup: the time until a program with 1,000 `#[tool]` functions has built the
//! registry, looked up a tool in a runtime, and built the schemas of all tools.
//!
//! `cargo bench -p agentflow-sdk --bench startup`. It writes a crate into the target folder and
//! builds it once. The work happens once per process, so each round is a separate process. The
//! fastest round counts.

#[path = "cases/generated_crate.rs"]
mod generated_crate;

use std::fmt::Write as _;

use generated_crate::GeneratedCrate;

const TOOLS: usize = 1_000;
/// The tools are compiled with few optimizations to save time: the measured code is in the library.
const MORE: &str = "tokio = { version = \"1\", features = [\"macros\", \"rt\"] }\n\n[profile.release]\nopt-level = 1\n\n\
                    [profile.release.package.\"*\"]\nopt-level = 3";
const ROUNDS: usize = 20;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let generated =
        GeneratedCrate::new("startup-bench", MORE, [("thousand".to_owned(), program())]);
    let mut best: Vec<(String, f64)> = Vec::new();
    for _ in 0..ROUNDS {
        let printed = generated.cargo(&["run", "--release", "--bin", "thousand"]);
        for (at, line) in printed.lines().enumerate() {
            let (name, time) = line.rsplit_once(' ').expect("a name and a time");
            let time: f64 = time.parse().expect("microseconds");
            match best.get_mut(at) {
                Some((_, best)) => *best = best.min(time),
                None => best.push((name.to_owned(), time)),
            }
        }
    }
    println!("{:<50} {:>12}", format!("{TOOLS} tools, the first time in a process"), "µs");
    for (name, time) in best {
        println!("{name:<50} {time:>12.1}");
    }
}

/// Writes tools with three parameters of different types, and the measured code.
fn program() -> String {
    let mut text = String::from(
        "use std::time::Instant;\n\nuse agentflow::Registry;\nuse agentflow::prelude::*;\n\n",
    );
    for tool in 0..TOOLS {
        let _ = write!(
            text,
            "/// Find the order of a number.\n#[tool(effects = \"read\")]\n\
             fn tool_{tool}(number: u64, name: String, tags: Vec<String>) -> String {{\n    \
                 format!(\"{{number}} {{name}} {{tags:?}}\")\n}}\n\n",
        );
    }
    text.push_str(
        "fn timed<T>(name: &str, work: impl FnOnce() -> T) -> T {\n    \
             let began = Instant::now();\n    let made = work();\n    \
             println!(\"{name} {}\", began.elapsed().as_nanos() as f64 / 1e3);\n    made\n}\n\n\
         #[tokio::main(flavor = \"current_thread\")]\nasync fn main() {\n    \
             let registry = timed(\"Registry::linked\", || Registry::linked().unwrap());\n    \
             let runtime = timed(\"Runtime::builder().build()\", || agentflow::Runtime::builder().build());\n    \
             let began = Instant::now();\n    runtime.catalogue().tool(\"tool_500\").await.unwrap();\n    \
             println!(\"CatalogueReader::tool {}\", began.elapsed().as_nanos() as f64 / 1e3);\n    \
             timed(\"the schemas of all\", || registry.manifest());\n}\n",
    );
    text
}
