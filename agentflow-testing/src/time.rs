//! `TestClock` and predictable ids: time and ids that a test controls.
//!
//! The clock reads tokio's paused time: it stands still until somebody waits and then jumps. It never reads the
//! system's time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use agentflow::runtime::RuntimeBuilder;
use agentflow::time::{Clock, Timestamp};
use agentflow::{RunId, Runtime};
use tokio::time::Instant;

/// A clock that begins at a fixed moment and continues with tokio's time.
///
/// In a test under `#[tokio::test(start_paused = true)]` time moves only when every task waits for it, and then at once
/// to the next moment somebody waits for: a time-out of an hour costs nothing and every timestamp is the same in every
/// run. Without paused time the clock shows how much real time has passed.
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
/// Clones tell the same time: the runtimes of a test that restarts its program have one each.
#[derive(Clone)]
pub struct TestClock {
    began: Arc<OnceLock<Instant>>,
}

impl TestClock {
    /// The moment at which every test clock begins: 2026-01-01 00:00 UTC.
    pub const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    /// A clock that begins now; when made outside of a tokio runtime, at its first reading.
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
        Timestamp::from_millis(Self::START.as_millis() + u64::try_from(passed.as_millis()).unwrap_or(u64::MAX / 2))
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestClock").field(&self.began.get()).finish()
    }
}

/// Run ids in order: `run-1`, `run-2`, ... for `sequential_ids("run")`. For
/// [`RuntimeBuilder::run_ids`](agentflow::runtime::RuntimeBuilder::run_ids).
pub fn sequential_ids(prefix: impl Into<String>) -> impl Fn() -> RunId + Send + Sync + 'static {
    let (prefix, last) = (prefix.into(), AtomicU64::new(0));
    move || RunId::new(format!("{prefix}-{}", last.fetch_add(1, Ordering::Relaxed) + 1))
}

/// A runtime to be described whose time and ids are the same in every run: a [`TestClock`] and the ids `run-1`,
/// `run-2`, ... Add resources, sinks and models, then `build()`.
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
