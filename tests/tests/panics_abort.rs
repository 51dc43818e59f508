//! Tests a denied call in a program in which a panic ends the process: the step must end without a
//! panic.
//!
//! This is a separate test program, since the setting applies to the whole process, like a profile
//! with `panic = "abort"`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

use agentflow::error::FailureKind;
use agentflow::prelude::*;
use agentflow_testing::{check_events, test_runtime};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};

static CHARGED: AtomicUsize = AtomicUsize::new(0);
static UNWOUND: AtomicUsize = AtomicUsize::new(0);
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }
}

/// Switches the process to `panic = "abort"` behavior and installs the log.
fn aborts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::Registry::default().with(Log))
            .unwrap();
        agentflow::__private::assume_abort();
    });
}

/// Increments a counter if a panic drops it.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        UNWOUND.fetch_add(usize::from(std::thread::panicking()), Ordering::SeqCst);
    }
}

/// Charges an account.
#[tool(scopes(pay))]
fn charge_scoped(cents: u32) -> Result<u32, String> {
    CHARGED.fetch_add(1, Ordering::SeqCst);
    Ok(cents)
}

/// The same with an error of the library.
#[tool(scopes(pay))]
fn charge_ours(cents: u32) -> Result<u32> {
    CHARGED.fetch_add(1, Ordering::SeqCst);
    Ok(cents)
}

/// The same, async, with a plain value.
#[tool(scopes(pay))]
async fn charge_later(cents: u32) -> u32 {
    CHARGED.fetch_add(1, Ordering::SeqCst);
    cents
}

/// Needs a person's approval, for which a function that is not async cannot wait.
#[tool(approve)]
fn charge_asked(cents: u32) -> Result<u32, String> {
    CHARGED.fetch_add(1, Ordering::SeqCst);
    Ok(cents)
}

/// A tool that needs nothing.
#[tool(effects = "none")]
fn charge_nothing(cents: u32) -> Result<u32, String> {
    CHARGED.fetch_add(1, Ordering::SeqCst);
    Ok(cents)
}

async fn pays(kind: u32) -> Result<u32, String> {
    let _guard = Guard;
    let first = match kind {
        0 => charge_scoped(1),
        1 => charge_ours(1).map_err(|error| error.to_string()),
        2 => Ok(charge_later(1).await),
        _ => charge_asked(1),
    };
    // The step handles the error, but its further calls are not executed.
    first.or(Ok::<u32, String>(0))?;
    charge_nothing(1)
}

#[workflow]
async fn pays_once(kind: u32) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    #[node(write)]
    let paid = pays(kind).await?;
    Ok(paid)
}

async fn failed(kind: u32) -> FailureKind {
    let runtime = test_runtime().build();
    let run = runtime.start(pays_once::workflow(), kind).await.unwrap();
    let error = run.result().await.unwrap_err();
    check_events(&run.recorded()).unwrap();
    error.kind()
}

#[tokio::test]
async fn a_denied_call_ends_its_step_without_a_panic() {
    aborts();
    for (kind, expected) in [
        (0, FailureKind::Unauthorized),
        (1, FailureKind::Unauthorized),
        (2, FailureKind::Unauthorized),
        (3, FailureKind::Build),
    ] {
        assert_eq!(failed(kind).await, expected, "{kind}");
        assert_eq!(
            (CHARGED.load(Ordering::SeqCst), UNWOUND.load(Ordering::SeqCst)),
            (0, 0),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn it_is_logged_once() {
    aborts();
    let _runtimes =
        [Runtime::builder().build(), Runtime::builder().build(), test_runtime().build()];
    let lines = LINES.lock().unwrap();
    let warned =
        lines.iter().filter(|line| line.contains("compiled with `panic = \"abort\"`")).count();
    assert_eq!(warned, 1, "{lines:#?}");
}
