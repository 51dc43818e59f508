//! Waits with a time limit: `within` for futures, and `wait_until` for conditions that a thread
//! polls.

use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of one wait. It is long because a machine that runs other tests is slow; successful
/// waits end earlier.
const LIMIT: Duration = Duration::from_secs(120);

/// Time between two polls.
const PAUSE: Duration = Duration::from_millis(5);

/// Awaits a future for at most two minutes, so that a test fails instead of hanging.
///
/// The limit is real time, also under `#[tokio::test(start_paused = true)]`, where the paused clock
/// advances independently of the limit. Dropping the returned future drops `future`.
///
/// ```
/// use agentflow_testing::within;
/// use tokio::sync::Notify;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let began = Notify::new();
/// began.notify_one();
/// within("the step to begin", began.notified()).await;
/// # }
/// ```
///
/// # Panics
/// After the limit, with `what` and the location of the caller.
#[track_caller]
pub fn within<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    within_limit(what, Location::caller(), LIMIT, future)
}

async fn within_limit<F: Future>(
    what: &str,
    caller: &Location<'_>,
    limit: Duration,
    future: F,
) -> F::Output {
    let end = Instant::now() + limit;
    let mut future = pin!(future);
    let mut alarm: Option<Alarm> = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(output);
        }
        assert!(Instant::now() < end, "{caller}: waited {limit:?} for {what}");
        alarm.get_or_insert_with(|| Alarm::new(end)).set(cx.waker());
        Poll::Pending
    })
    .await
}

/// A thread that wakes a task at a point in real time. A tokio timer would follow a paused clock.
/// Dropping the alarm ends the thread.
struct Alarm {
    waker: Arc<Mutex<Option<Waker>>>,
    _running: mpsc::Sender<()>,
}

impl Alarm {
    fn new(end: Instant) -> Self {
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let (running, dropped) = mpsc::channel();
        let woken = Arc::clone(&waker);
        thread::spawn(move || {
            if dropped.recv_timeout(end.saturating_duration_since(Instant::now()))
                == Err(RecvTimeoutError::Timeout)
                && let Some(waker) = woken.lock().unwrap_or_else(PoisonError::into_inner).take()
            {
                waker.wake();
            }
        });
        Self { waker, _running: running }
    }

    fn set(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }
}

/// Calls `look` repeatedly until it returns a value, for at most two minutes. It blocks the thread.
/// Use it for child processes, threads and files.
///
/// ```
/// use agentflow_testing::wait_until;
///
/// let worker = std::thread::spawn(|| 7);
/// wait_until("the worker to end", || worker.is_finished().then_some(()));
/// assert_eq!(worker.join().unwrap(), 7);
/// ```
///
/// # Panics
/// After the limit, with `what` and the location of the caller.
#[track_caller]
pub fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::panic::Location;
    use std::time::Duration;

    use super::within_limit;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 20ms for nothing")]
    async fn a_wait_ends_under_a_paused_clock() {
        within_limit("nothing", Location::caller(), Duration::from_millis(20), pending::<()>())
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_moves_meanwhile() {
        let hour = tokio::time::sleep(Duration::from_secs(3600));
        within_limit("an hour", Location::caller(), Duration::from_secs(60), hour).await;
    }
}
