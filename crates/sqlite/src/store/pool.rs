//! The store's threads for reading. They are separate from tokio's blocking threads, so that other
//! blocking work of the program cannot delay a read of a journal.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use agentflow_core::store::{StoreError, StoreErrorKind};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::files::OpenFiles;
use super::sqlite_error::StoreErrors;
use super::{StoreSettings, join, lock, upgrade};

/// A pool of reading threads, each with its own connection. Threads start on demand and end when
/// the pool is dropped.
pub(super) struct Readers(Arc<Pool>);

struct Pool {
    settings: StoreSettings,
    errors: StoreErrors,
    files: Arc<OpenFiles>,
    /// Maximum number of threads.
    most: usize,
    state: Mutex<PoolState>,
    /// Signals a new job, or the end of the pool.
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Number of threads that wait for a job.
    idle: usize,
    closed: bool,
}

type Job = Box<dyn FnOnce(&mut Reader<'_>) + Send>;

impl Readers {
    pub(super) fn new(settings: StoreSettings, errors: StoreErrors, files: Arc<OpenFiles>) -> Self {
        let most = thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Pool { settings, errors, files, most, state, changed }))
    }

    pub(super) fn errors(&self) -> &StoreErrors {
        &self.0.errors
    }

    /// Queues a read and returns a future for its result. A job is skipped if its future was
    /// dropped.
    pub(super) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &StoreErrors) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        let job = move |reader: &mut Reader<'_>| {
            if !reply.is_closed() {
                // The future may have been dropped in the meantime.
                let _ = reply.send(reader.with(read));
            }
        };
        let queued = Pool::submit(&self.0, Box::new(job));
        async move {
            queued?;
            answer.await.unwrap_or_else(|_| {
                Err(StoreError::new(StoreErrorKind::Io, "the store was not read to the end"))
            })
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let threads = {
            let mut state = self.0.state();
            state.closed = true;
            std::mem::take(&mut state.threads)
        };
        self.0.changed.notify_all();
        threads.into_iter().for_each(join);
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.state)
    }

    fn submit(pool: &Arc<Self>, job: Job) -> Result<(), StoreError> {
        let mut state = pool.state();
        state.jobs.push_back(job);
        if state.jobs.len() > state.idle && state.threads.len() < pool.most {
            let of = Arc::clone(pool);
            match thread::Builder::new().name("agentflow-read".to_owned()).spawn(move || of.work())
            {
                Ok(thread) => state.threads.push(thread),
                // The existing threads will execute the job.
                Err(_) if !state.threads.is_empty() => {}
                Err(error) => {
                    state.jobs.clear();
                    let text = "no thread can be started that reads the store";
                    return Err(StoreError::new(StoreErrorKind::Io, text).caused_by(error));
                }
            }
        }
        drop(state);
        pool.changed.notify_one();
        Ok(())
    }

    /// Executes jobs until the store is closed.
    fn work(&self) {
        let mut reader = Reader { pool: self, connection: None };
        while let Some(job) = self.next() {
            // A panic ends the read but not the thread. The connection may be in an unknown state,
            // so it is closed.
            if catch_unwind(AssertUnwindSafe(|| job(&mut reader))).is_err() {
                reader.connection = None;
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// The connection of one reading thread.
struct Reader<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Reader<'_> {
    /// Reads from the file, after a check that it is still the file at its path. The connection is
    /// kept unless the read failed with an error that may be a fault of the connection.
    fn with<T>(
        &mut self,
        read: impl FnOnce(&Connection, &StoreErrors) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Pool { settings, errors, files, .. } = self.pool;
        if let Some(file) = files.replaced() {
            return Err(errors.replaced(file));
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => upgrade::open_reader(settings, errors)?,
        };
        let found = read(&connection, errors);
        let is_fine = |error: &StoreError| {
            matches!(error.kind(), StoreErrorKind::NotFound | StoreErrorKind::Fenced)
        };
        if found.as_ref().err().is_none_or(is_fine) {
            self.connection = Some(connection);
        }
        found
    }
}
