//! Benchmark that counts the instructions of every case. Other load on the machine does not affect
//! the count.
//!
//! `cargo bench --bench instructions [-- PART OF A NAME]`. It needs valgrind. The program runs
//! itself under `valgrind --tool=callgrind` and counts only inside of [`counted`], so startup and
//! one-time initialization are excluded. Only the calling thread is counted; a server on another
//! thread is not.

#[expect(dead_code, reason = "each program needs its own part of a case")]
mod cases;

use std::hint::black_box;
use std::process::Command;

use cases::{Case, Work};

/// Number of warm-up calls before the counted calls.
const WARM: u64 = 2;

/// The function in which callgrind counts.
const COUNTED: &str = "instructions::counted";

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [mode, name, side, calls] = arguments.as_slice()
        && mode == "--inside"
    {
        return work(name, side, calls.parse().expect("a number of calls"));
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: there is no valgrind");
        return;
    }
    let wanted = arguments.first().map_or("", String::as_str);
    println!("{:<50} {:>12} {:>12} {:>7}", "instructions", "floor", "ours", "ratio");
    for case in cases::all().into_iter().filter(|case| case.name.contains(wanted)) {
        let [floor, ours] = ["floor", "ours"].map(|side| instructions(&case, side));
        println!("{:<50} {floor:>12.0} {ours:>12.0} {:>7.2}", case.name, ours / floor);
    }
}

fn work(name: &str, side: &str, calls: u64) {
    let case = cases::all().into_iter().find(|case| case.name == name).expect("the name of a case");
    let mut work = if side == "floor" { case.floor } else { case.ours };
    // The first calls initialize caches, which later calls reuse.
    for _ in 0..WARM {
        black_box(work());
    }
    counted(&mut work, calls);
}

/// Makes the counted calls.
#[inline(never)]
fn counted(work: &mut Work, calls: u64) {
    for _ in 0..calls {
        black_box(work());
    }
}

/// Returns the number of instructions per unit of work.
fn instructions(case: &Case, side: &str) -> f64 {
    let calls = (1000 / u64::from(case.units)).max(1);
    collected(&case.name, side, calls) as f64 / (calls * u64::from(case.units)) as f64
}

/// Returns the number of instructions that callgrind counted for `calls` calls.
fn collected(name: &str, side: &str, calls: u64) -> u64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            &format!("--toggle-collect={COUNTED}"),
        ])
        .arg(program)
        .args(["--inside", name, side, &calls.to_string()])
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
        .unwrap_or_else(|| panic!("callgrind says what it counted, but said: {said}"))
}
