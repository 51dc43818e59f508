//! A value that depends on a clock, on chance or on shared data is computed at its place: after the
//! steps above it, as in a function. A value that depends only on other values delays no step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentflow::prelude::*;
use tokio::time::{Instant, sleep};

/// Returns the milliseconds on the clock of the test.
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

/// `name` is computed from an input by known methods, so `second` does not wait for `first`.
#[workflow]
async fn beside(n: u64) -> Result<u64> {
    let first = slow(n).await?;
    let words = ["label".to_owned(), n.to_string()];
    let name = words.iter().map(|word| word.trim()).collect::<Vec<_>>().join(" ");
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

static RATE: AtomicU64 = AtomicU64::new(0);
static RATES: std::sync::Mutex<Vec<u64>> = std::sync::Mutex::new(Vec::new());

/// Changes the shared rate after a while.
async fn refresh(rate: u64) -> Result<u64> {
    sleep(Duration::from_millis(5)).await;
    RATE.store(rate, Ordering::SeqCst);
    RATES.lock().unwrap().push(rate);
    Ok(rate)
}

fn in_euro(cents: u64) -> u64 {
    cents * RATE.load(Ordering::SeqCst)
}

/// A type of the program whose methods depend on shared data.
struct Converter;

impl Converter {
    fn len(&self) -> u64 {
        RATE.load(Ordering::SeqCst)
    }
}

static CONVERTER: Converter = Converter;

async fn shown(n: u64) -> Result<u64> {
    Ok(n)
}

/// Reads the rate after `refresh` has set it, in each body.
macro_rules! rates {
    ($($name:ident ($rate:ident, $cents:ident) $body:tt)*) => {
        $(#[workflow]
        async fn $name($rate: u64, $cents: u64) -> Result<u64> $body)*

        #[tokio::test(start_paused = true)]
        async fn values_that_may_read_an_effect_wait_for_the_steps_above() {
            $(
                RATE.store(0, Ordering::SeqCst);
                RATES.lock().unwrap().clear();
                assert_eq!($name(7, 10).await.unwrap(), 77, stringify!($name));
            )*
        }
    };
}

rates! {
    in_a_helper(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = in_euro(cents);
        Ok(loaded + euro)
    }
    in_the_output(rate, cents) {
        let loaded = refresh(rate).await?;
        Ok(loaded + in_euro(cents))
    }
    in_a_macro(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = format!("{}", in_euro(cents));
        Ok(loaded + euro.parse::<u64>().unwrap_or(0))
    }
    in_a_closure(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro: u64 = [cents].iter().map(|cents| in_euro(*cents)).sum();
        Ok(loaded + euro)
    }
    in_a_closure_of_its_own(rate, cents) {
        let convert = |cents: u64| cents * RATE.load(Ordering::SeqCst);
        let loaded = refresh(rate).await?;
        let euro = convert(cents);
        Ok(loaded + euro)
    }
    in_an_argument(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = shown(in_euro(cents)).await?;
        Ok(loaded + euro)
    }
    in_a_condition(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = if in_euro(cents) == 70 { shown(70).await? } else { shown(0).await? };
        Ok(loaded + euro)
    }
    in_a_head(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = match in_euro(cents) {
            0 => shown(0).await?,
            n => shown(n).await?,
        };
        Ok(loaded + euro)
    }
    in_a_method(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = CONVERTER.len() * cents;
        Ok(loaded + euro)
    }
    in_a_list(rate, cents) {
        let loaded = refresh(rate).await?;
        let all = map!(vec![in_euro(cents)], |n| shown(n)).await?;
        Ok(loaded + all[0])
    }
    in_a_branch(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = fallback!(shown(in_euro(cents)), shown(1)).await?;
        Ok(loaded + euro)
    }
    in_a_first_round(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = repeat!(in_euro(cents), |n| shown(n), max = 1).await?;
        Ok(loaded + euro)
    }
    in_an_assertion(rate, cents) {
        let loaded = refresh(rate).await?;
        assert!(in_euro(cents) == 70);
        Ok(loaded + 70)
    }
    in_a_let_else(rate, cents) {
        let loaded = refresh(rate).await?;
        let Some(euro) = in_euro(cents).checked_sub(1) else { return Ok(0) };
        let euro = shown(euro).await?;
        Ok(loaded + euro + 1)
    }
    in_a_lock(rate, cents) {
        let loaded = refresh(rate).await?;
        let euro = RATES.lock().unwrap().iter().map(|rate| rate * cents).sum::<u64>();
        Ok(loaded + euro)
    }
}

#[workflow]
async fn asked_about(rate: u64, cents: u64) -> Result<u64> {
    let loaded = refresh(rate).await?;
    let answer = gate!("{cents} are {rate}?", in_euro(cents)).await?;
    Ok(loaded + u64::from(answer.is_granted()))
}

async fn kept(path: std::path::PathBuf) -> std::io::Result<usize> {
    sleep(Duration::from_millis(5)).await;
    std::fs::write(&path, "kept").map(|()| 4)
}

#[workflow]
async fn looks_at_a_file(
    path: std::path::PathBuf,
) -> Result<(usize, bool, String), Box<dyn std::error::Error + Send + Sync>> {
    let written = kept(path.clone()).await?;
    let exists = path.exists();
    let text = read(&path);
    Ok((written, exists, text))
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_file_is_read_after_the_steps_above() {
    let folder = std::env::temp_dir().join(format!("agentflow-looked-at-{}", std::process::id()));
    let _ = std::fs::remove_file(&folder);
    assert_eq!(looks_at_a_file(folder.clone()).await.unwrap(), (4, true, "kept".to_owned()));
    std::fs::remove_file(folder).unwrap();
}

/// The values of a gate are computed after the steps above. Known pure reads do not wait.
#[test]
fn only_values_that_may_read_an_effect_wait() {
    let order = |graph: &agentflow::workflow::Graph, node: &str| {
        let node = graph.node(node).unwrap();
        node.order.iter().map(|edge| edge.node.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(&asked_about::workflow().graph(), "answer"), ["loaded"]);
    let graph = beside::workflow().graph();
    assert_eq!(order(&graph, "name"), Vec::<String>::new(), "{graph:#?}");
    assert_eq!(order(&graph, "second"), Vec::<String>::new());
}

static FACTOR: AtomicU64 = AtomicU64::new(2);

/// An amount whose operators depend on a factor that steps change.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Scaled {
    cents: u64,
}

impl std::ops::Add<u64> for Scaled {
    type Output = u64;

    fn add(self, cents: u64) -> u64 {
        (self.cents + cents) * FACTOR.load(Ordering::SeqCst)
    }
}

async fn set_factor(n: u64) -> Result<u64> {
    sleep(Duration::from_millis(5)).await;
    FACTOR.store(n, Ordering::SeqCst);
    Ok(n)
}

#[workflow]
async fn scaled(amount: Scaled, n: u64) -> Result<u64> {
    let factor = set_factor(n).await?;
    let sum = amount + 1;
    Ok(sum + factor)
}

#[tokio::test(start_paused = true)]
async fn an_operator_of_a_type_of_the_program_is_computed_after_the_steps_above() {
    assert_eq!(scaled(Scaled { cents: 4 }, 3).await.unwrap(), 18);
}
