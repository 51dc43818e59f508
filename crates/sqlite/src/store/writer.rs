//! Executes the writes of the store.
//!
//! A thread combines all waiting requests into one transaction, and answers them when the
//! transaction is on the disk. If a run writes alone and the disk is fast, the request is executed
//! on the caller's thread instead (`pace.rs`).
//!
//! The thread does not hold a handle of the store. It ends when the last handle is dropped and its
//! queue is empty. While another process has the file locked, the thread waits, so that no run
//! fails. It stops waiting only after all handles are dropped. A caller's thread never waits for a
//! lock or for another write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use agentflow_core::event::RunId;
use agentflow_core::store::{StoreError, StoreErrorKind};
use futures_util::future::Either;
use tokio::sync::oneshot;

use super::files::OpenFiles;
use super::pace::Pace;
use super::sqlite_error::{Failed, StoreErrors, is_locked};
use super::tables::Tables;
use super::{StoreSettings, join, lock, upgrade};

/// Maximum number of requests in one transaction.
const BATCH: usize = 1024;

/// Longest interval between two log messages about a locked file.
const SILENCE: Duration = Duration::from_secs(3600);

/// Maximum number of runs that a log message names.
const NAMED: usize = 10;

/// The write access to the tables.
pub(super) struct Writer {
    // Dropped first: the thread may write until then.
    thread: WriterThread,
    /// Number of queued requests without an answer.
    waiting: Arc<AtomicUsize>,
    /// The lock gives the right to write.
    work: Arc<Mutex<WriterState>>,
}

/// The writer thread and its queue.
struct WriterThread {
    /// `None` only during the drop.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    /// Set when no handle is left.
    ending: Arc<AtomicBool>,
}

/// The treatment of a request whose future is dropped before the request is executed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AbandonedPolicy {
    /// The request is executed.
    Done,
    /// The request is skipped, because its result would be lost.
    Left,
}

impl Writer {
    /// Opens the file on a new thread. The last value is `true` if a crash may have left artifact
    /// files.
    pub(super) async fn start(
        settings: StoreSettings,
    ) -> Result<(Self, StoreErrors, Arc<OpenFiles>, bool), StoreError> {
        let (queue, jobs) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let (ending, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (unwanted, counted) = (Arc::clone(&ending), Arc::clone(&waiting));
        let thread = thread::Builder::new()
            .name("agentflow-sqlite".to_owned())
            .spawn(move || match upgrade::open_writer(&settings, &unwanted) {
                Ok(file) => {
                    let place =
                        (file.errors.clone(), Arc::clone(&file.files), file.has_loose_files);
                    let work = Arc::new(Mutex::new(WriterState::new(
                        Tables::new(file),
                        settings.busy_timeout,
                        unwanted,
                    )));
                    if opened.send(Ok((place, Arc::clone(&work)))).is_ok() {
                        through(&work, &jobs, &counted);
                    }
                }
                // If the caller's future was dropped, the error is not needed.
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Io, "no thread can be started for the store")
                    .caused_by(error)
            })?;
        let thread = WriterThread { queue: Some(queue), thread: Some(thread), ending };
        let ((errors, files, has_loose_files), work) =
            is_open.await.unwrap_or_else(|_| Err(ended()))?;
        Ok((Self { thread, waiting, work }, errors, files, has_loose_files))
    }

    /// Executes a request at once, or queues it at once. The future only waits for the result.
    /// `run` is the run that the request concerns, if any.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        run: Option<&RunId>,
        abandoned: AbandonedPolicy,
        mut act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        if let Some(done) = run.and_then(|run| self.at_once(run, &mut act)) {
            return Either::Left(std::future::ready(done));
        }
        let (reply, answer) = oneshot::channel();
        if let Some(queue) = &self.thread.queue {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            // If the thread has ended, the dropped `reply` makes the future return an error.
            let _ = queue.send(Box::new(Request {
                run: run.cloned(),
                abandoned,
                act,
                result: None,
                reply: Some(reply),
            }));
        }
        Either::Right(async move { answer.await.unwrap_or_else(|_| Err(ended())) })
    }

    /// Executes a request on the caller's thread, if no other write is waiting and the write is
    /// expected to be fast. After any SQLite error, returns `None`, and the thread executes the
    /// request again.
    fn at_once<T>(
        &self,
        run: &RunId,
        act: &mut impl FnMut(&mut Tables) -> Result<T, Failed>,
    ) -> Option<Result<T, StoreError>> {
        // Queued requests come first, to keep the order of the writes.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let mut work = self.work.try_lock().ok()?;
        let WriterState { tables, pace, .. } = &mut *work;
        if !pace.allows(run) {
            return None;
        }
        let begun = Instant::now();
        tables.patient(false).ok()?;
        let done = in_transaction(tables, |tables| match act(tables) {
            Ok(value) => Ok(Ok(value)),
            Err(Failed::Refused(error)) => Ok(Err(error)),
            Err(Failed::Sql(error)) => Err(error),
        });
        pace.wrote_at_once(begun.elapsed());
        done.ok()
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        self.queue = None;
        self.thread.take().into_iter().for_each(join);
    }
}

fn ended() -> StoreError {
    StoreError::new(StoreErrorKind::Io, "the writer of the store has ended; open the store again")
}

/// A request in the queue.
trait Job: Send {
    /// Executes the request within the open transaction. May be called again in another
    /// transaction.
    fn act(&mut self, tables: &mut Tables) -> Result<(), rusqlite::Error>;
    /// Stores an error as the result.
    fn fail(&mut self, error: StoreError);
    /// Sends the result. Called after the transaction is committed or rolled back.
    fn answer(&mut self);
    /// Returns the run that the request concerns.
    fn run(&self) -> Option<&RunId>;
}

struct Request<F, T> {
    run: Option<RunId>,
    abandoned: AbandonedPolicy,
    act: F,
    result: Option<Result<T, StoreError>>,
    reply: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<F, T> Job for Request<F, T>
where
    F: FnMut(&mut Tables) -> Result<T, Failed> + Send,
    T: Send,
{
    fn act(&mut self, tables: &mut Tables) -> Result<(), rusqlite::Error> {
        if self.abandoned == AbandonedPolicy::Left
            && self.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
        {
            return Ok(());
        }
        self.result = Some(match (self.act)(tables) {
            Ok(value) => Ok(value),
            Err(Failed::Refused(error)) => Err(error),
            Err(Failed::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn answer(&mut self) {
        if let (Some(reply), Some(result)) = (self.reply.take(), self.result.take()) {
            // The future may have been dropped.
            let _ = reply.send(result);
        }
    }

    fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }
}

/// The tables, and the state that decides how to write.
struct WriterState {
    tables: Tables,
    pace: Pace,
    busy_timeout: Duration,
    /// Set when no handle is left.
    ending: Arc<AtomicBool>,
    /// The time at which `ending` was first seen.
    ending_since: Option<Instant>,
}

/// The main function of the writer thread. Executes requests until the queue is closed.
fn through(work: &Mutex<WriterState>, queue: &mpsc::Receiver<Box<dyn Job>>, waiting: &AtomicUsize) {
    let mut jobs = Vec::new();
    while let Ok(job) = queue.recv() {
        jobs.push(job);
        jobs.extend(queue.try_iter().take(BATCH - 1));
        lock(work).commit_all(&mut jobs);
        waiting.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs.drain(..).for_each(|mut job| job.answer());
    }
}

impl WriterState {
    fn new(tables: Tables, busy_timeout: Duration, ending: Arc<AtomicBool>) -> Self {
        Self { tables, pace: Pace::default(), busy_timeout, ending, ending_since: None }
    }

    fn commit_all(&mut self, jobs: &mut [Box<dyn Job>]) {
        let begun = Instant::now();
        self.commit(jobs);
        self.pace.wrote(jobs.iter().map(|job| job.run()), begun.elapsed());
    }

    /// Executes all requests in one transaction. If the transaction fails, executes each request in
    /// a separate transaction.
    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) {
        match self.commit_when_unlocked(jobs) {
            Ok(()) => {}
            // A request that exceeds the space or hits a damaged page must not undo the others.
            Err(Failed::Sql(_)) if jobs.len() > 1 => {
                jobs.chunks_mut(1).for_each(|job| self.commit(job));
            }
            Err(Failed::Sql(error)) => self.fail(jobs, &self.errors().sql(error)),
            // The transaction could not begin, so the error applies to all requests.
            Err(Failed::Refused(error)) => self.fail(jobs, &error),
        }
    }

    fn fail(&self, jobs: &mut [Box<dyn Job>], error: &StoreError) {
        jobs.iter_mut().for_each(|job| job.fail(error.clone()));
    }

    fn errors(&self) -> &StoreErrors {
        self.tables.errors()
    }

    /// Executes the requests in one transaction. Waits while another process has the file locked.
    fn commit_when_unlocked(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failed> {
        let begun = Instant::now();
        let mut spoken: Option<Duration> = None;
        loop {
            let done = self.tables.patient(true).map_err(Failed::from);
            let error = match done.and_then(|()| together(&mut self.tables, jobs)) {
                Err(Failed::Sql(error)) if is_locked(&error) => error,
                done => {
                    if spoken.is_some() && done.is_ok() {
                        let (path, waited) = (self.errors().path().display(), begun.elapsed());
                        tracing::info!(%path, ?waited, "the store is no longer locked; everything that waited is written");
                    }
                    return done;
                }
            };
            let waited = begun.elapsed();
            if self.gives_up() {
                let (path, writes, runs) =
                    (self.errors().path().display(), jobs.len(), names(jobs));
                tracing::error!(
                    %path, writes, runs, %error,
                    "the store was dropped while another process had its file locked; these writes are lost"
                );
                return Err(self.errors().given_up().caused_by(error).into());
            }
            // The interval between warnings doubles, up to one hour.
            let next = spoken
                .map_or(self.busy_timeout, |at| at + at.clamp(Duration::from_secs(1), SILENCE));
            if waited >= next {
                let (path, runs) = (self.errors().path().display(), names(jobs));
                tracing::warn!(
                    %path, ?waited, runs,
                    "another process has the store locked; runs wait until it is free, then they continue"
                );
                spoken = Some(waited);
            }
            thread::sleep(upgrade::PAUSE);
        }
    }

    /// Returns true if all handles have been dropped for longer than the busy time-out.
    fn gives_up(&mut self) -> bool {
        self.ending.load(Ordering::Relaxed)
            && self.ending_since.get_or_insert_with(Instant::now).elapsed() >= self.busy_timeout
    }
}

/// Returns the runs that the requests concern, for a log message.
fn names(jobs: &[Box<dyn Job>]) -> String {
    let mut runs: Vec<&str> = jobs.iter().filter_map(|job| job.run()).map(RunId::as_str).collect();
    runs.sort_unstable();
    runs.dedup();
    let more = runs.len().saturating_sub(NAMED);
    runs.truncate(NAMED);
    let named = runs.join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

fn together(tables: &mut Tables, jobs: &mut [Box<dyn Job>]) -> Result<(), Failed> {
    in_transaction(tables, |tables| jobs.iter_mut().try_for_each(|job| job.act(tables)))
}

/// Executes an operation in a transaction. Rolls back after an error.
fn in_transaction<T>(
    tables: &mut Tables,
    act: impl FnOnce(&mut Tables) -> Result<T, rusqlite::Error>,
) -> Result<T, Failed> {
    tables.begin()?;
    let done = act(tables).and_then(|done| tables.commit().map(|()| done));
    if done.is_err() {
        tables.roll_back();
    }
    Ok(done?)
}
