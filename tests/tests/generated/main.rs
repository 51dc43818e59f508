//! A generator of random programs in the Rust that `#[workflow]` accepts.
mod campaign;
mod choose;
mod compile;
#[allow(dead_code, unused_imports, unreachable_pub, reason = "generated programs use it")]
mod kit;
mod shrink;
mod syntax;
mod vocabulary;
mod write;

use std::collections::BTreeSet;

use campaign::Campaign;
use compile::Libraries;
use vocabulary::UNPROMISED;

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
    let [with, mut without] = ["AGENTFLOW_WITH", "AGENTFLOW_WITHOUT"].map(names);
    without.extend(UNPROMISED.iter().map(|name| (*name).to_owned()).filter(|name| !with.contains(name)));
    let campaign = Campaign {
        seed: number("AGENTFLOW_SEED", 1),
        programs,
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
    let each = number("AGENTFLOW_SHRINK", 2) as usize;
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
