//! Event sinks that print to the terminal or append to a file.

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

/// Takes the events of runs.
///
/// `emit` is called in the order of the events, one at a time for each run, on the run's own thread, and outside of every
/// lock: it may read the run, and a panic in it is logged. It must be quick; one that is slow or waits is given to a runtime
/// in a [`QueuedSink`](super::QueuedSink).
#[doc(alias = "EventCallback")]
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn emit(&self, event: &Event);

    /// Whether deltas are wanted too; asked once, when a run starts. The default is no.
    fn wants_deltas(&self) -> bool {
        false
    }

    /// Hands on whatever it has put off; [`Runtime::drain`](crate::Runtime::drain) waits for it until its deadline, and
    /// drops it then. The default does nothing.
    async fn flush(&self) {}

    /// How long [`emit`](Self::emit) may make a run wait from now on: a runtime that is being drained sets its deadline, by
    /// the clock of the machine, and takes it back (`None`) when it is drained. The default does nothing: `emit` is quick.
    fn wait_until(&self, end: Option<Instant>) {
        let _ = end;
    }

    /// What it is called where it is named, as in [`Drained::unflushed`](crate::runtime::Drained::unflushed). Default: the
    /// name of its type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

impl<F: Fn(&Event) + Send + Sync> EventSink for F {
    fn emit(&self, event: &Event) {
        self(event);
    }
}

/// Writes one line for each event to standard output, for a person to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdoutSink;

impl EventSink for StdoutSink {
    fn emit(&self, event: &Event) {
        // A closed standard output (`| head`) is no reason to stop a run.
        let _ = writeln!(io::stdout().lock(), "{}", Line(event));
    }
}

/// Writes each event as one line of JSON. Characters that would draw on a terminal are escapes in its strings.
///
/// Lines are written through when a run ends and when the sink is dropped.
pub struct JsonlSink {
    writer: Mutex<BufWriter<Box<dyn Write + Send>>>,
    deltas: bool,
}

impl JsonlSink {
    /// Writes to anything.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self { writer: Mutex::new(BufWriter::new(Box::new(writer))), deltas: false }
    }

    /// Appends to a file. Creates it if it does not exist, on Unix with the mode 0600, so that only the user of the process can
    /// read it. An existing file keeps its mode.
    ///
    /// # Errors
    /// When the file cannot be opened for writing.
    pub fn append(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::new(private(File::options().create(true).append(true)).open(path)?))
    }

    /// Writes deltas too, each through at once.
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
        let written = write_json_line(&mut *writer, event)
            .and_then(|()| if self.deltas || event.kind.ends_run() { writer.flush() } else { Ok(()) });
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
