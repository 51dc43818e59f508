//! Benchmark of compile time: a `#[workflow]` with 50 and 200 steps compared with the same body as
//! a plain `async fn`.
//!
//! `cargo bench --bench compile`. It writes a crate into the target folder, builds its dependencies
//! once, and then alternates: each round touches one program and runs `cargo check` or
//! `cargo build`. The fastest round counts. It measures the wall time of the whole `cargo` call, so
//! use an idle machine.

#[path = "cases/generated_crate.rs"]
mod generated_crate;

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use generated_crate::GeneratedCrate;

const STEPS: [usize; 2] = [50, 200];
const ROUNDS: usize = 5;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let generated = write_crate();
    for command in ["check", "build"] {
        cargo(&generated, command, None);
    }
    println!("{:<16} {:>12} {:>12} {:>7}", "", "async fn", "workflow", "ratio");
    for command in ["check", "build"] {
        for steps in STEPS {
            let mut best = [Duration::MAX; 2];
            for _ in 0..ROUNDS {
                for (best, kind) in best.iter_mut().zip(["plain", "flow"]) {
                    *best =
                        (*best).min(cargo(&generated, command, Some(&format!("{kind}_{steps}"))));
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

/// Runs cargo on all programs, or on one program after touching it. Returns the elapsed time.
fn cargo(generated: &GeneratedCrate, command: &str, program: Option<&str>) -> Duration {
    let mut arguments = vec![command];
    if let Some(program) = program {
        let file = std::fs::File::options().append(true).open(generated.source(program));
        file.and_then(|file| file.set_modified(SystemTime::now()))
            .expect("the program can be touched");
        arguments.extend(["--bin", program]);
    }
    let began = Instant::now();
    generated.cargo(&arguments);
    began.elapsed()
}

fn write_crate() -> GeneratedCrate {
    let kinds = [("plain", ""), ("flow", "#[workflow]\n")];
    let programs = STEPS.iter().flat_map(|steps| {
        kinds.map(|(kind, attribute)| (format!("{kind}_{steps}"), program(*steps, attribute)))
    });
    GeneratedCrate::new("compile-bench", "\n[profile.dev]\nincremental = false", programs)
}

/// Writes a chain of steps in which every third step also reads the output of a much earlier step.
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
            0 => {
                writeln!(text, "    let s{at} = both(s{last}.clone(), s{}.clone()).await?;", at / 2)
            }
            _ => writeln!(text, "    let s{at} = step(s{last}.clone()).await?;"),
        };
    }
    let _ = writeln!(text, "    Ok(s{steps})\n}}\n");
    text.push_str("fn main() {\n    drop(run(String::new()));\n}\n");
    text
}
