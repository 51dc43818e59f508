//! The proof that a `#[workflow]` means what its function means: writes random programs, each as a plain `async fn` and as
//! a `#[workflow]` with the same body, compiles them, runs them and compares results, errors, effects and their order.
//!
//! `syntax` is what a program is, `vocabulary` what it can say, `choose` and `phrases` make one of chance, `write` makes it text,
//! `compile` calls `rustc` with the libraries that this test program has itself, `campaign` does many at once, and `shrink`
//! makes a program that differs smaller. `kit` is the library of the programs: their tools, and the player, which runs a
//! program as the function, as the workflow called like a function, without a store with steps of random lengths, in a
//! store, and with crashes at random writes, each resumed in a process whose ids, clock and hash seeds are others.
//!
//! A test program of its own and no separate command, so that `cargo test` keeps the proof and nothing else is needed. A
//! program that is accepted and differs is a fault of the library; one that is refused is counted and shown; one whose
//! plain function does not compile is a fault of the generator.
//!
//! It does not cover: agents and models; time-outs that pass, and retries; `race!`, whose winner is a matter of time;
//! `on_error`; borrowed and `mut` values; methods and closures as steps; errors of several types; resuming with a
//! changed program; SQLite. Where the function fails within a `map!`, the effects of its other items are not compared, and
//! neither is which of them fails. Two reads are compared by how often they happen, not by their order. A branch of a
//! `fallback!` that panics is caught in the plain function, too.

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
            let number = name.trim_start_matches('p').parse().expect("AGENTFLOW_SHOW names programs, such as p7");
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
            let program = campaign.program(name.trim_start_matches('p').parse().expect("programs are numbered"));
            let smaller = campaign.shrink(&libraries, &program, class, 12);
            eprintln!("{class} in {name}, made smaller:");
            show(&campaign, &libraries, &smaller);
        }
    }
    assert!(findings.broken.is_empty(), "the generator has faults");
    assert!(findings.faults.is_empty(), "programs differ");
}

/// A program, and what is different.
fn show(campaign: &Campaign, libraries: &Libraries, program: &syntax::Program) {
    eprintln!("{}", write::shown(program));
    let found = campaign.batch(libraries, &format!("show-{}", program.name), std::slice::from_ref(program));
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
