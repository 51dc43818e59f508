//! Output lines with which a batch of generated programs reports its results to the campaign.

use std::io::Write as _;
use std::panic;

use agentflow::serde_json::{Value, json};

use super::play::{Effort, Program, Seen, play};

/// Plays the selected programs and prints a line for each. The first three arguments are the seed,
/// the number of schedules and the number of crashes; the others are program names, by default all.
pub fn main(programs: &[Program]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize| arguments[at].parse::<u64>().expect("the first three arguments are numbers");
    let effort =
        Effort { seed: number(0), schedules: number(1) as usize, crashes: number(2) as usize };
    let only = &arguments[3..];
    // Failing checks are part of the programs.
    panic::set_hook(Box::new(|_| {}));
    for program in programs
        .iter()
        .filter(|program| only.is_empty() || only.iter().any(|name| name == program.name))
    {
        let seen = panic::catch_unwind(|| run(program, effort));
        say(&match seen {
            Ok(seen) => line(program.name, &seen),
            Err(_) => json!({ "program": program.name, "panicked": true }),
        });
    }
}

fn run(program: &Program, effort: Effort) -> Seen {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread can be made").block_on(play(program, effort))
}

fn line(name: &str, seen: &Seen) -> Value {
    let differences: Vec<Value> = seen
        .differences
        .iter()
        .map(|(difference, how)| json!([difference.class.to_string(), difference.text, how]))
        .collect();
    json!({
        "program": name,
        "runs": seen.runs,
        "crashes": seen.crashes,
        "failing": seen.failing,
        "entries": seen.entries,
        "differences": differences,
        "journal": seen.journal,
    })
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("standard output takes a line");
}
