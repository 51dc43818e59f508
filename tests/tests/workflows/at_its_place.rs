//! A value that looks at a clock, at chance or at what others change is computed at its place: after the steps that are
//! written above it, as in a function. A value that is made of values alone delays nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentflow::prelude::*;
use tokio::time::{Instant, sleep};

/// Milliseconds on the clock of the test.
fn now_ms() -> u64 {
    thread_local! {
        static BEGIN: Instant = Instant::now();
    }
    u64::try_from(BEGIN.with(Instant::elapsed).as_millis()).unwrap()
}

async fn slow(n: u64) -> Result<u64> {
    sleep(Duration::from_millis(30)).await;
    Ok(n)
}

#[workflow]
async fn elapsed(n: u64) -> Result<u64> {
    let begin = now_ms();
    let m = slow(n).await?;
    let took = now_ms() - begin;
    Ok(took * m)
}

static READERS: AtomicU64 = AtomicU64::new(0);

async fn counted(n: u64) -> Result<u64> {
    sleep(Duration::from_millis(5)).await;
    Ok(READERS.fetch_add(1, Ordering::SeqCst) + n)
}

#[workflow]
async fn looked_at(n: u64) -> Result<u64> {
    let first = counted(n).await?;
    let readers = READERS.load(Ordering::SeqCst);
    Ok(readers * 100 + first)
}

async fn stamped(n: u64, at: u64) -> Result<u64> {
    Ok(at - n)
}

#[workflow]
async fn stamped_in_an_argument(n: u64) -> Result<u64> {
    let begin = now_ms();
    let m = slow(n).await?;
    let took = stamped(begin, now_ms()).await?;
    Ok(took + m)
}

fn label(n: u64) -> String {
    format!("label {n}")
}

/// `name` is made of an input, so `second` does not wait for `first`.
#[workflow]
async fn beside(n: u64) -> Result<u64> {
    let first = slow(n).await?;
    let name = label(n);
    let empty: Vec<u64> = Vec::new();
    let second = slow(name.len() as u64 + empty.len() as u64).await?;
    Ok(first + second)
}

#[tokio::test(start_paused = true)]
async fn a_clock_is_read_after_the_steps_above() {
    assert_eq!(elapsed(1).await.unwrap(), 30);
    let runtime = Runtime::builder().build();
    assert_eq!(runtime.start(elapsed::workflow(), 2).await.unwrap().result().await.unwrap(), 60);
    assert_eq!(stamped_in_an_argument(1).await.unwrap(), 31);
}

#[tokio::test(start_paused = true)]
async fn a_static_is_read_after_the_steps_above() {
    assert_eq!(looked_at(7).await.unwrap(), 107);
}

#[tokio::test(start_paused = true)]
async fn what_is_made_of_values_delays_nothing() {
    let began = Instant::now();
    assert_eq!(beside(1).await.unwrap(), 8);
    assert_eq!(began.elapsed(), Duration::from_millis(30), "both steps ran at the same time");
}
