//! Starts llama.cpp's server with a small real model. Runs only with `AGENTFLOW_LIVE=1`.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::http::get;
use crate::install;
use crate::process::{Process, free_port};
use crate::skipped;

/// Two servers at once would share a processor that is slow enough for one.
static ALONE: Mutex<()> = Mutex::new(());

/// A running llama.cpp server. It stops when this value is dropped, and only then can the next one
/// start.
#[derive(Debug)]
pub struct LlamaServer {
    _process: Process,
    _alone: MutexGuard<'static, ()>,
    base: String,
}

impl LlamaServer {
    /// Starts the server on a free port. Returns `None`, which skips the test, without
    /// `AGENTFLOW_LIVE` or when the server cannot be installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start() -> Option<Self> {
        if std::env::var_os("AGENTFLOW_LIVE").is_none() {
            skipped("a real model server is only tried with AGENTFLOW_LIVE=1");
            return None;
        }
        let python = install::llama_cpp()?;
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let port = free_port().to_string();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/llama_cpp/serve.py");
        let mut process =
            Process::start(python.command().arg(script).arg(&port)).expect("python can be started");
        let base = format!("http://127.0.0.1:{port}");
        process.wait_until("it is ready", |_| {
            get(&format!("{base}/health")).ok().filter(|answer| answer.status == 200)
        });
        Some(Self { _process: process, _alone: alone, base })
    }

    /// Returns the server's address, without a path.
    pub fn base(&self) -> &str {
        &self.base
    }
}
