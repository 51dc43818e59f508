//! Benchmark case: a call of a `#[tool]` function outside of a workflow step. The overhead is one
//! check of the current task.

use std::hint::black_box;

use agentflow::tool;
use futures_util::FutureExt;

use super::Case;

const CALLS: u32 = 1000;
/// The check takes about three nanoseconds, and the work below about twenty.
const TARGET: f64 = 1.25;

fn sum(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A check sum.
#[tool(effects = "none")]
fn check_sum(length: u32, seed: u64) -> u64 {
    sum(&[u8::try_from(seed & 0x7f).unwrap_or_default(); 32][..length as usize])
}

#[inline(never)]
fn check_sum_by_hand(length: u32, seed: u64) -> u64 {
    sum(&[u8::try_from(seed & 0x7f).unwrap_or_default(); 32][..length as usize])
}

/// A check sum, later.
#[tool(effects = "none")]
async fn check_sum_later(length: u32, seed: u64) -> u64 {
    check_sum_by_hand(length, seed)
}

#[inline(never)]
async fn check_sum_later_by_hand(length: u32, seed: u64) -> u64 {
    check_sum_by_hand(length, seed)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case("a plain call of a tool", check_sum_by_hand, check_sum),
        case(
            "a plain call of an async tool",
            |length, seed| check_sum_later_by_hand(length, seed).now_or_never().unwrap_or_default(),
            |length, seed| check_sum_later(length, seed).now_or_never().unwrap_or_default(),
        ),
    ]
}

fn case(
    name: &str,
    floor: impl Fn(u32, u64) -> u64 + 'static,
    ours: impl Fn(u32, u64) -> u64 + 'static,
) -> Case {
    fn many(call: impl Fn(u32, u64) -> u64) -> usize {
        let all = (0..u64::from(CALLS))
            .fold(0_u64, |all, seed| all.wrapping_add(call(black_box(32), black_box(seed))));
        usize::try_from(all & 0xffff).unwrap_or_default()
    }
    Case {
        name: name.to_owned(),
        units: CALLS,
        target: TARGET,
        floor: Box::new(move || many(&floor)),
        ours: Box::new(move || many(&ours)),
    }
}
