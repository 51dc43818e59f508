//! Tests that a `#[workflow]` behaves like its function. Generates random programs, each as a plain
//! `async fn` and as a `#[workflow]` with the same body, compiles and runs them, and compares
//! results, errors, effects and their order.
//!
//! `syntax` represents a program, `vocabulary` lists its building blocks, `choose` and `phrases`
//! generate one at random, and `write` formats it as text. `compile` calls `rustc` with the
//! libraries of this test program. `campaign` tests many programs, and `shrink` reduces a differing
//! one. `kit` is the library of the programs: their tools, and the player. The player runs a
//! program as the function, as the workflow called like a function, without a store with steps of
//! random lengths, in a store, and with crashes at random writes. After a crash it resumes in a
//! simulated process with other ids, another clock and other hash seeds.
//!
//! This is a test program instead of a separate command, so that `cargo test` runs it without
//! further setup. A program that is accepted and differs is a fault of the library. A refused
//! program is counted and reported. A program whose plain function does not compile is a fault of
//! the generator.
//!
//! Not covered: agents and models; timeouts that expire, and retries; `race!`, whose winner depends
//! on timing; `on_error`; borrowed and `mut` values; methods and closures as steps; errors of
//! several types; resuming with a changed program; SQLite. If the function fails within a `map!`,
//! neither the effects of the other items nor the failing item are compared. Two reads are compared
//! by their count, not by their order. A branch of a `fallback!` that panics is caught in the plain
//! function, too.

#![allow(clippy::print_stderr, reason = "it says what differs, and how far a long campaign is")]

mod campaign;
mod choose;
mod compile;
#[allow(dead_code, unused_imports, unreachable_pub, reason = "generated programs use it")]
mod kit;
mod phrases;
mod shrink;
mod syntax;
mod vocabulary;
mod write;

use std::collections::BTreeSet;

use campaign::Campaign;
use compile::Libraries;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number and not `{text}`")),
        Err(_) => default,
    }
}

fn names(variable: &str) -> BTreeSet<String> {
    let names = std::env::var(variable).unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn accepted_programs_do_what_the_functions_do() {
    let programs = number("AGENTFLOW_PROGRAMS", 60) as usize;
    let without = names("AGENTFLOW_WITHOUT");
    let campaign = Campaign {
        seed: number("AGENTFLOW_SEED", 1),
        programs,
        size: number("AGENTFLOW_SIZE", 7) as usize,
        batch: number("AGENTFLOW_BATCH", 60) as usize,
        schedules: 2,
        crashes: number("AGENTFLOW_CRASHES", 12) as usize,
        jobs: 2,
        without,
    };
    let libraries = Libraries::new();
    if let Ok(names) = std::env::var("AGENTFLOW_SHOW") {
        for name in names.split(',') {
            let number = name
                .trim_start_matches('p')
                .parse()
                .expect("AGENTFLOW_SHOW names programs, such as p7");
            show(&campaign, &libraries, &campaign.program(number));
        }
        return;
    }
    let findings = campaign.run(&libraries);
    eprintln!("seed {}: {}", campaign.seed, findings.report());
    for (message, (_, example)) in findings.refused.iter().take(10) {
        eprintln!("refused: {message}\n{example}");
    }
    let each = number("AGENTFLOW_SHRINK", 1) as usize;
    for (class, programs) in findings.by_class() {
        for name in programs.into_iter().take(each) {
            let program = campaign
                .program(name.trim_start_matches('p').parse().expect("programs are numbered"));
            let smaller = campaign.shrink(&libraries, &program, class, 12);
            eprintln!("{class} in {name}, made smaller:");
            show(&campaign, &libraries, &smaller);
        }
    }
    assert!(findings.broken.is_empty(), "the generator has faults");
    assert!(findings.faults.is_empty(), "programs differ");
}

/// Prints a program and its differences.
fn show(campaign: &Campaign, libraries: &Libraries, program: &syntax::Program) {
    eprintln!("{}", write::shown(program));
    let found =
        campaign.batch(libraries, &format!("show-{}", program.name), std::slice::from_ref(program));
    eprintln!("{}", found.report());
    for (_, example) in found.refused.values() {
        eprintln!("{example}");
    }
    for class in found.by_class().keys() {
        for fault in found.faults.iter().filter(|fault| fault.class == **class).take(3) {
            eprintln!("  {class}: {} ({})", fault.text, fault.how);
        }
    }
    for line in found.journals.values().flatten() {
        eprintln!("{line}");
    }
}
