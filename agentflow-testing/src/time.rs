//! `TestClock` and sequential ids: time and ids under the control of a test.
//!
//! The clock reads tokio's time and never the system's time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use agentflow::runtime::RuntimeBuilder;
use agentflow::time::{Clock, Timestamp};
use agentflow::{RunId, Runtime};
use tokio::time::Instant;

/// A clock that starts at a fixed time and advances with tokio's time.
///
/// Under `#[tokio::test(start_paused = true)]`, time advances only when every task waits, and then
/// jumps to the next timer. A time-out of an hour takes no real time, and every timestamp is the
/// same in each execution. If time is not paused, the clock advances with real time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
///
/// use agentflow::time::Clock;
/// use agentflow_testing::TestClock;
///
/// let clock = TestClock::new();
/// assert_eq!(clock.now(), TestClock::START);
/// tokio::time::sleep(Duration::from_secs(60 * 60)).await;
/// assert_eq!(clock.now().since(TestClock::START), Duration::from_secs(60 * 60));
/// # }
/// ```
///
/// Clones show the same time. A test that restarts its program gives a clone to each runtime.
#[derive(Clone)]
pub struct TestClock {
    began: Arc<OnceLock<Instant>>,
}

impl TestClock {
    /// The time at which every test clock starts: 2026-01-01 00:00 UTC.
    pub const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    /// Creates a clock that starts now. Outside of a tokio runtime, it starts when it is first
    /// read.
    pub fn new() -> Self {
        let began = OnceLock::new();
        if tokio::runtime::Handle::try_current().is_ok() {
            began.get_or_init(Instant::now);
        }
        Self { began: Arc::new(began) }
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let passed = self.began.get_or_init(Instant::now).elapsed();
        Timestamp::from_millis(
            Self::START.as_millis() + u64::try_from(passed.as_millis()).unwrap_or(u64::MAX / 2),
        )
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestClock").field(&self.began.get()).finish()
    }
}

/// Creates a generator of run ids with consecutive numbers: `run-1`, `run-2`, ... for
/// `sequential_ids("run")`. Pass it to
/// [`RuntimeBuilder::run_ids`](agentflow::runtime::RuntimeBuilder::run_ids).
pub fn sequential_ids(prefix: impl Into<String>) -> impl Fn() -> RunId + Send + Sync + 'static {
    let (prefix, last) = (prefix.into(), AtomicU64::new(0));
    move || RunId::new(format!("{prefix}-{}", last.fetch_add(1, Ordering::Relaxed) + 1))
}

/// Creates a builder for a deterministic runtime: it has a [`TestClock`] and the run ids `run-1`,
/// `run-2`, ... Add resources, sinks and models, then call `build()`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::Agent;
/// use agentflow_testing::{ScriptedModel, TestClock, Turn, test_runtime};
///
/// let model = ScriptedModel::new([Turn::text("Hello.")]);
/// let result = Agent::new(model).runtime(&test_runtime().build()).run("Hi").await?;
/// assert_eq!(result.run_id().as_str(), "run-1");
/// assert_eq!(result.events()[0].time, TestClock::START);
/// # Ok(())
/// # }
/// ```
pub fn test_runtime() -> RuntimeBuilder {
    Runtime::builder().clock(TestClock::new()).run_ids(sequential_ids("run"))
}
