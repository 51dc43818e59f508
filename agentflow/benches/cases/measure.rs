//! Measures wall time and CPU time of work on several threads. Linux only, because it reads
//! `/proc`.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Returns the wall time and the CPU time of all threads, in microseconds.
pub(crate) async fn measured<T>(work: impl Future<Output = T>) -> (f64, f64) {
    let (cpu, began) = (cpu_time(), Instant::now());
    black_box(work.await);
    let wall = began.elapsed();
    (wall.as_secs_f64() * 1e6, (cpu_time() - cpu).as_secs_f64() * 1e6)
}

/// Returns the processor time of all threads of this process.
fn cpu_time() -> Duration {
    let threads =
        std::fs::read_dir("/proc/self/task").expect("the kernel tells about this process");
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|times| times.split_whitespace().next()?.parse().ok())
        .map(Duration::from_nanos)
        .sum()
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
