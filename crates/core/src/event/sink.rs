//! `EventSink` and its implementations for the terminal and for files.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use agentflow_schema::text::write_json_line;
use async_trait::async_trait;

use super::Event;
use super::line::Line;
use crate::private_file::private;

/// Receives the events of runs.
///
/// A runtime calls `emit` in the order of the events, one at a time for each run, on the thread
/// that executes the run. The run does not hold a lock during the call, so `emit` may read the run.
/// A panic in `emit` is logged. `emit` must be quick: wrap a sink that is slow or waits in a
/// [`QueuedSink`](super::QueuedSink).
#[doc(alias = "EventCallback")]
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Receives one event.
    fn emit(&self, event: &Event);

    /// Returns `true` to receive deltas too. Called once, when a run starts. Default: `false`.
    fn wants_deltas(&self) -> bool {
        false
    }

    /// Writes out buffered events. [`Runtime::drain`](crate::Runtime::drain) awaits it until the
    /// drain deadline and then drops the future. The default does nothing.
    async fn flush(&self) {}

    /// Limits how long [`emit`](Self::emit) may block a run. A runtime that is being drained sets
    /// its deadline, by the clock of the machine, and resets it to `None` when the drain has ended.
    /// The default does nothing, since `emit` is expected to be quick.
    fn wait_until(&self, end: Option<Instant>) {
        let _ = end;
    }

    /// Returns the name of the sink in reports such as
    /// [`Drained::unflushed`](crate::runtime::Drained::unflushed). Default: the name of its type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

impl<F: Fn(&Event) + Send + Sync> EventSink for F {
    fn emit(&self, event: &Event) {
        self(event);
    }
}

/// Prints one line per event to standard output, for people to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdoutSink;

impl EventSink for StdoutSink {
    fn emit(&self, event: &Event) {
        // A closed standard output (`| head`) must not stop a run.
        let _ = writeln!(io::stdout().lock(), "{}", Line(event));
    }
}

/// Writes each event as one line of JSON. Characters that could control a terminal are escaped in
/// its strings.
///
/// The buffer is flushed when a run ends and when the sink is dropped.
///
/// ```
/// use agentflow::event::JsonlSink;
/// use agentflow::prelude::*;
///
/// # fn main() -> std::io::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("events.jsonl");
/// let runtime = Runtime::builder().sink(JsonlSink::append(file)?).build();
/// # drop(runtime);
/// # Ok(())
/// # }
/// ```
pub struct JsonlSink {
    writer: Mutex<BufWriter<Box<dyn Write + Send>>>,
    deltas: bool,
}

impl JsonlSink {
    /// Creates a sink that writes to `writer`.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self { writer: Mutex::new(BufWriter::new(Box::new(writer))), deltas: false }
    }

    /// Creates a sink that appends to a file. Creates the file if it does not exist, on Unix with
    /// the mode 0600, so that only the user of the process can read it. An existing file keeps its
    /// mode.
    ///
    /// # Errors
    /// Fails if the file cannot be opened for writing.
    pub fn append(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::new(private(File::options().create(true).append(true)).open(path)?))
    }

    /// Also writes deltas. The buffer is then flushed after each line.
    #[must_use]
    pub fn with_deltas(mut self) -> Self {
        self.deltas = true;
        self
    }
}

#[async_trait]
impl EventSink for JsonlSink {
    fn emit(&self, event: &Event) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write_json_line(&mut *writer, event).and_then(|()| {
            if self.deltas || event.kind.ends_run() { writer.flush() } else { Ok(()) }
        });
        if let Err(error) = written {
            tracing::warn!(%error, "an event could not be written to its file");
        }
    }

    fn wants_deltas(&self) -> bool {
        self.deltas
    }

    async fn flush(&self) {
        if let Err(error) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).flush() {
            tracing::warn!(%error, "events could not be written to their file");
        }
    }
}

impl fmt::Debug for JsonlSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonlSink").field("deltas", &self.deltas).finish_non_exhaustive()
    }
}
