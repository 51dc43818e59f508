//! Bench: the compile time of a `#[workflow]` with 50 and 200 steps, beside the same body in a plain `async fn`.
//!
//! `cargo bench --bench compile`. It writes a crate below the target folder, builds its dependencies once, and then
//! takes turns: each round touches one program and runs `cargo check` or `cargo build`; the fastest round counts. It
//! measures the wall time of the whole `cargo` call, so an idle machine matters.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const STEPS: [usize; 2] = [50, 200];
const ROUNDS: usize = 5;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let folder = write_crate();
    for command in ["check", "build"] {
        cargo(&folder, command, None);
    }
    println!("{:<16} {:>12} {:>12} {:>7}", "", "async fn", "workflow", "ratio");
    for command in ["check", "build"] {
        for steps in STEPS {
            let mut best = [Duration::MAX; 2];
            for _ in 0..ROUNDS {
                for (best, kind) in best.iter_mut().zip(["plain", "flow"]) {
                    *best = (*best).min(cargo(&folder, command, Some(&format!("{kind}_{steps}"))));
                }
            }
            let [plain, flow] = best.map(|time| time.as_secs_f64());
            println!(
                "{:<16} {plain:>10.2} s {flow:>10.2} s {:>7.2}",
                format!("{command}, {steps} steps"),
                flow / plain
            );
        }
    }
}

/// Runs cargo in the crate, for one program after a change to it, or for all of them; gives the time it took.
fn cargo(folder: &Path, command: &str, program: Option<&str>) -> Duration {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([command, "--quiet"]).current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    if let Some(program) = program {
        cargo.args(["--bin", program]);
        let file = std::fs::File::options().append(true).open(folder.join(format!("src/bin/{program}.rs")));
        file.and_then(|file| file.set_modified(std::time::SystemTime::now())).expect("the program can be touched");
    }
    let began = Instant::now();
    let output = cargo.output().expect("there is a cargo");
    let took = began.elapsed();
    assert!(output.status.success(), "cargo {command} failed: {}", String::from_utf8_lossy(&output.stderr));
    took
}

fn write_crate() -> PathBuf {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile-bench");
    std::fs::create_dir_all(folder.join("src/bin")).expect("the target folder can be written to");
    let manifest = format!(
        "[package]\nname = \"compile-bench\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         agentflow = {{ package = \"agentflow-sdk\", path = {library:?}, default-features = false }}\n\n\
         [profile.dev]\nincremental = false\n\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("the manifest can be written");
    // The versions that this repository is tested with.
    let _ = std::fs::copy(library.join("../Cargo.lock"), folder.join("Cargo.lock"));
    for steps in STEPS {
        for (kind, attribute) in [("plain", ""), ("flow", "#[workflow]\n")] {
            let file = folder.join(format!("src/bin/{kind}_{steps}.rs"));
            std::fs::write(file, program(steps, attribute)).expect("the program can be written");
        }
    }
    folder
}

/// A chain in which every third step also reads one from further back.
fn program(steps: usize, attribute: &str) -> String {
    let mut text = String::from(
        "#![allow(unused_imports)]\nuse agentflow::prelude::*;\n\n\
         async fn step(text: String) -> Result<String> {\n    Ok(text)\n}\n\n\
         async fn both(a: String, b: String) -> Result<String> {\n    Ok(a + &b)\n}\n\n",
    );
    let _ = writeln!(text, "{attribute}async fn run(s0: String) -> Result<String> {{");
    for at in 1..=steps {
        let last = at - 1;
        let _ = match at % 3 {
            0 => writeln!(text, "    let s{at} = both(s{last}.clone(), s{}.clone()).await?;", at / 2),
            _ => writeln!(text, "    let s{at} = step(s{last}.clone()).await?;"),
        };
    }
    let _ = writeln!(text, "    Ok(s{steps})\n}}\n");
    text.push_str("fn main() {\n    drop(run(String::new()));\n}\n");
    text
}
