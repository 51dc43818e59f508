//! Tests that a `#[workflow]` means what its function means. Generates random programs, *interprets*
//! each as a plain function and as the expansion of the macro, and compares results, errors, effects
//! and their order. A program takes some 20 milliseconds, where the test program `generated` compiles
//! each with `rustc`.
//!
//! `generator` and `kit` share the generator and the judge with that test program. `code` is the
//! form of Rust that is interpreted, `compile` reads it, `globals` holds functions and types, and
//! `eval` and `builtins` execute it. `types` infers types, because the expansion asks the compiler
//! for them. `builder` executes the builder calls of an expansion, `plan` places the nodes with the
//! code of the library, and `machine` and `step` run them. `world` holds what programs change.
//! `campaign` runs many programs.
//!
//! The expansion is interpreted and not the model of the macro, because the expansion decides when a
//! view is computed again, which handles a node reads, and which names a step sees.
//!
//! Not covered: types and lifetimes, hygiene, the JSON form of values, timeouts and retries.

#![allow(clippy::print_stderr, clippy::panic, reason = "tests report what differs")]
#![allow(unreachable_pub, dead_code, missing_docs, reason = "shared with another test program")]

mod builder;
mod builtins;
mod campaign;
mod compile;
mod eval;
mod generator;
mod globals;
mod interpreted_code;
mod kit;
mod machine;
mod plan;
mod program;
mod step;
mod types;
mod value;
mod waiting_code;
mod world;

use std::collections::BTreeSet;

use campaign::Campaign;

use crate::workflow::mutations::Mutation;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number and not `{text}`")),
        Err(_) => default,
    }
}

fn campaign(programs: usize) -> Campaign {
    let without = std::env::var("AGENTFLOW_WITHOUT").unwrap_or_default();
    let without: BTreeSet<String> =
        without.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Campaign {
        seed: number("AGENTFLOW_SEED", 1),
        programs,
        size: number("AGENTFLOW_SIZE", 7) as usize,
        schedules: 3,
        crashes: number("AGENTFLOW_CRASHES", 3) as usize,
        without,
        mutation: None,
        stops: false,
    }
}

/// Runs the body of a function with the inputs `item: Item` and `n: i64`, and returns the classes of
/// its differences as a workflow.
fn differences(body: &str) -> Vec<String> {
    let text = |attribute: &str| {
        format!(
            "mod program {{ {attribute} pub async fn hand(item: Item, n: i64) -> Result<String, Fault> {{ {body} }} }}"
        )
    };
    let kit = std::rc::Rc::new(globals::Globals::of_kit(kit::FUNCTIONS));
    let texts = [text(""), text("#[workflow]")];
    let mut read = program::Interpreted::read_texts("hand", &texts, &kit, None)
        .unwrap_or_else(|refusal| panic!("{body} is refused: {refusal}"));
    let item = "Item { number: 3, label: \"a\".to_owned(), tags: Vec::new() }".to_owned();
    let cases = ["1", "8"].map(|n| vec![item.clone(), n.to_owned()]);
    read.cases = read.inputs(&cases, false);
    let campaign = Campaign { schedules: 20, crashes: 20, ..campaign(1) };
    let found = campaign.runs(&read, &mut campaign::Findings::default());
    found
        .iter()
        .map(|found| format!("{}: {}", found.difference.class, found.difference.text))
        .collect()
}

#[test]
fn values_of_the_programs_own_types_are_computed_at_their_place() {
    for body in [
        // A helper of the program changes what the operator reads.
        "let t = turn(1, n).await?; let x = item + 3; Ok(format!(\"{x} {t}\"))",
        "let x = item.clone() + 3; let t = turn(1, n).await?; let y = item + 3; Ok(format!(\"{x} {y} {t}\"))",
        "let t = turn(1, n).await?; let x = double(2, item + 3).await?; Ok(format!(\"{x} {t}\"))",
        "let t = turn(1, n).await?; let x = item.clone() + 1 + n + t; Ok(format!(\"{x}\"))",
        "let t = turn(1, n).await?; let x = { let mut s = t; s += item + n; s }; Ok(format!(\"{x}\"))",
        "let t = turn(1, n).await?; let x = rated(n); Ok(format!(\"{x} {t}\"))",
        "let t = turn(1, n).await?; let x = DIAL.max(n); Ok(format!(\"{x} {t}\"))",
        "let t = turn(1, n).await?; if item.clone() + n > 9 { mail(2, format!(\"{n}\")).await?; } Ok(format!(\"{t}\"))",
        "let t = turn(1, n).await?; for i in vec![item.clone() + n] { mail(2, format!(\"{i}\")).await?; } Ok(format!(\"{t}\"))",
    ] {
        assert_eq!(differences(body), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn faults_of_the_macro_are_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let campaign = Campaign { mutation: Some(mutation), stops: true, ..campaign(2_000) };
        let findings = campaign.run();
        let at: Vec<_> = findings.differing.iter().map(|(class, all)| (class, all[0])).collect();
        eprintln!("{mutation:?}: {at:?} after {} programs", findings.programs);
        if !findings.broken.is_empty() {
            eprintln!(
                "  {} not interpreted, such as {:?}",
                findings.broken.len(),
                findings.broken[0]
            );
        }
        if findings.differing.is_empty() {
            missed.push(mutation);
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn expansions_mean_what_the_functions_mean() {
    let campaign = campaign(number("AGENTFLOW_PROGRAMS", 300) as usize);
    if let Ok(program) = std::env::var("AGENTFLOW_SHOW") {
        let number = program.trim_start_matches('p').parse().expect("a program, such as p7");
        return campaign.show(number);
    }
    std::panic::set_hook(Box::new(|_| {}));
    let began = std::time::Instant::now();
    let findings = campaign.run();
    eprintln!("seed {}, {:?}: {}", campaign.seed, began.elapsed(), findings.report());
    for (class, programs) in findings.differing.iter().take(4) {
        let (program, found) = campaign.shrink(&campaign.program(programs[0]), *class);
        eprintln!(
            "{class} in p{}, made smaller:\n{}",
            programs[0],
            campaign::shown(&program, &found)
        );
    }
    let _ = std::panic::take_hook();
    assert!(findings.broken.is_empty(), "the interpreter does not know all programs");
    assert!(findings.differing.is_empty(), "programs differ");
}
