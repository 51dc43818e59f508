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

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number and not `{text}`")),
        Err(_) => default,
    }
}

#[test]
fn accepted_programs_do_what_the_functions_do() {
    let programs = number("AGENTFLOW_PROGRAMS", 60) as usize;
    let without = std::env::var("AGENTFLOW_WITHOUT").unwrap_or_default();
    let campaign = Campaign {
        seed: number("AGENTFLOW_SEED", 1),
        programs,
        batch: number("AGENTFLOW_BATCH", 60) as usize,
        schedules: 2,
        crashes: number("AGENTFLOW_CRASHES", 12) as usize,
        jobs: 2,
        without: without.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>(),
    };
    let libraries = Libraries::new();
    if let Ok(program) = std::env::var("AGENTFLOW_SHOW") {
        let program = campaign.program(program.trim_start_matches('p').parse().unwrap());
        eprintln!("{}", write::shown(&program));
        let found = campaign.batch(&libraries, "show", &[program]);
        eprintln!("{}", found.report());
        for (message, (_, example)) in &found.refused {
            eprintln!("{message}\n{example}");
        }
        for fault in &found.faults {
            eprintln!("{} {} ({})", fault.class, fault.text, fault.how);
        }
        return;
    }
    let findings = campaign.run(&libraries);
    eprintln!("seed {}: {}", campaign.seed, findings.report());
    assert!(findings.broken.is_empty());
    assert!(findings.faults.is_empty());
}
