//! Benchmark that runs every case with divan and shows the spread of times, allocations and bytes.
//!
//! `cargo bench --bench times [-- PART OF A NAME]`. The numbers are for a whole run, not for one
//! step.

#[expect(dead_code, reason = "each program needs its own part of a case")]
mod cases;

use divan::{AllocProfiler, Bencher};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

fn names() -> Vec<String> {
    cases::all().into_iter().map(|case| case.name).collect()
}

fn case(name: &str) -> cases::Case {
    cases::all().into_iter().find(|case| case.name == name).expect("a name of `names`")
}

#[divan::bench(args = names())]
fn floor(bencher: Bencher<'_, '_>, name: &str) {
    bencher.bench_local(case(name).floor);
}

#[divan::bench(args = names())]
fn ours(bencher: Bencher<'_, '_>, name: &str) {
    bencher.bench_local(case(name).ours);
}
