//! Benchmark that measures each case in pairs of short rounds (hand-written, agentflow,
//! hand-written, ..), so that other load on the machine affects both. It prints the time per unit
//! of work, the ratio and the target.
//!
//! `cargo bench --bench ratios [-- PART OF A NAME]`

mod cases;

use std::hint::black_box;
use std::time::{Duration, Instant};

use cases::{Case, Work};

const ROUNDS: usize = 501;
const ROUND: Duration = Duration::from_micros(300);
/// Time limit of a case. Cases with long rounds have fewer rounds.
const CASE: Duration = Duration::from_secs(6);

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let wanted =
        std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:<50} {:>12} {:>12} {:>7} {:>8}", "case", "floor", "ours", "ratio", "target");
    for mut case in cases::all().into_iter().filter(|case| case.name.contains(&wanted)) {
        let (floor, ours, ratio) = measure(&mut case);
        let missed = if ratio > case.target { " missed" } else { "" };
        println!(
            "{:<50} {floor:>9.1} ns {ours:>9.1} ns {ratio:>7.2} {:>8}{missed}",
            case.name,
            format!("<= {}", case.target)
        );
    }
}

/// Returns the nanoseconds per unit for the hand-written version and for agentflow, and their
/// ratio. The fastest round of each counts, because other load only increases a time.
fn measure(case: &mut Case) -> (f64, f64, f64) {
    let floor_calls = calls_in_a_round(&mut case.floor);
    let our_calls = calls_in_a_round(&mut case.ours);
    let (mut floor, mut ours) = (f64::MAX, f64::MAX);
    let began = Instant::now();
    for _ in 0..ROUNDS {
        floor = floor.min(time(&mut case.floor, floor_calls));
        ours = ours.min(time(&mut case.ours, our_calls));
        if began.elapsed() > CASE {
            break;
        }
    }
    let units = f64::from(case.units);
    (floor / units, ours / units, ours / floor)
}

fn calls_in_a_round(work: &mut Work) -> u32 {
    let mut calls = 1;
    // Doubles the calls until a round is long enough for the clock.
    while time(work, calls) * f64::from(calls) < ROUND.as_nanos() as f64 {
        calls *= 2;
    }
    calls
}

/// Returns the nanoseconds of one call.
fn time(work: &mut Work, calls: u32) -> f64 {
    let began = Instant::now();
    for _ in 0..calls {
        black_box(work());
    }
    began.elapsed().as_nanos() as f64 / f64::from(calls)
}
