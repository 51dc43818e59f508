//! The writes of the store. A thread puts all waiting requests into one transaction and answers them when that is on the
//! disk; a run that writes alone, on a quick disk, is written where it asks for it, which `pace.rs` judges.
//!
//! It decides nothing about runs. The thread holds no handle of the store: it ends when the last handle is gone and its
//! queue is empty. While another process has the file locked it waits, since no run has to end for that; it gives up only
//! after all handles are gone. Who asks for a write never waits there for a lock or for another write.

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
use super::{Settings, join, lock, upgrade};

/// The most requests of one transaction.
const BATCH: usize = 1024;

/// The longest time between two sentences about a locked file.
const SILENCE: Duration = Duration::from_secs(3600);

/// The most runs that a sentence names.
const NAMED: usize = 10;

/// The way to the tables.
pub(super) struct Writer {
    // Dropped first: until then it may write.
    thread: WriterThread,
    /// How many requests are queued and have no answer yet.
    waiting: Arc<AtomicUsize>,
    /// Whoever has the lock writes.
    work: Arc<Mutex<Work>>,
}

/// The thread and its queue.
struct WriterThread {
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    /// No handle is left.
    ending: Arc<AtomicBool>,
}

/// What happens to a request whose future was dropped before its turn.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Abandoned {
    /// It is done.
    Done,
    /// It is left: what it brings would be lost, or belong to nobody.
    Left,
}

impl Writer {
    /// Opens the file on a thread of its own. Also gives whether a crash may have left files of artifacts.
    pub(super) async fn start(settings: Settings) -> Result<(Self, StoreErrors, Arc<OpenFiles>, bool), StoreError> {
        let (queue, jobs) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let (ending, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (unwanted, counted) = (Arc::clone(&ending), Arc::clone(&waiting));
        let thread = thread::Builder::new()
            .name("agentflow-sqlite".to_owned())
            .spawn(move || match upgrade::open_writer(&settings, &unwanted) {
                Ok(file) => {
                    let place = (file.errors.clone(), Arc::clone(&file.files), file.has_loose_files);
                    let work = Arc::new(Mutex::new(Work::new(Tables::new(file), settings.busy_timeout, unwanted)));
                    if opened.send(Ok((place, Arc::clone(&work)))).is_ok() {
                        through(&work, &jobs, &counted);
                    }
                }
                // Nobody waits any more: then nobody needs the answer.
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Io, "no thread can be started for the store").caused_by(error)
            })?;
        let thread = WriterThread { queue: Some(queue), thread: Some(thread), ending };
        let ((errors, files, has_loose_files), work) = is_open.await.unwrap_or_else(|_| Err(ended()))?;
        Ok((Self { thread, waiting, work }, errors, files, has_loose_files))
    }

    /// Does a request about a run or none, or queues it now; the future is its answer.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        run: Option<&RunId>,
        abandoned: Abandoned,
        mut act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        if let Some(done) = run.and_then(|run| self.at_once(run, &mut act)) {
            return Either::Left(std::future::ready(done));
        }
        let (reply, answer) = oneshot::channel();
        if let Some(queue) = &self.thread.queue {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            // When the thread is gone the answer says so.
            let _ =
                queue.send(Box::new(Request { run: run.cloned(), abandoned, act, result: None, reply: Some(reply) }));
        }
        Either::Right(async move { answer.await.unwrap_or_else(|_| Err(ended())) })
    }

    /// Does a request about a run here, when nobody else writes and it will not take long. Whatever goes wrong with the
    /// file is left to the thread, which does the request again.
    fn at_once<T>(
        &self,
        run: &RunId,
        act: &mut impl FnMut(&mut Tables) -> Result<T, Failed>,
    ) -> Option<Result<T, StoreError>> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let mut work = self.work.try_lock().ok()?;
        let Work { tables, pace, .. } = &mut *work;
        if !pace.allows(run) {
            return None;
        }
        let begun = Instant::now();
        tables.patient(false).ok()?;
        let done = within_one(tables, |tables| match act(tables) {
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
    /// Does it within the transaction that is open. It may be done again in another one.
    fn act(&mut self, tables: &mut Tables) -> Result<(), rusqlite::Error>;
    /// It could not be done.
    fn fail(&mut self, error: StoreError);
    /// The transaction is committed or rolled back: tells what came of it.
    fn answer(&mut self);
    /// The run it is about.
    fn run(&self) -> Option<&RunId>;
}

struct Request<F, T> {
    run: Option<RunId>,
    abandoned: Abandoned,
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
        if self.abandoned == Abandoned::Left && self.reply.as_ref().is_none_or(oneshot::Sender::is_closed) {
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

/// What there is to write with.
struct Work {
    tables: Tables,
    pace: Pace,
    busy_timeout: Duration,
    /// No handle is left.
    ending: Arc<AtomicBool>,
    /// When that was seen first.
    ending_since: Option<Instant>,
}

/// What the thread does.
fn through(work: &Mutex<Work>, queue: &mpsc::Receiver<Box<dyn Job>>, waiting: &AtomicUsize) {
    let mut jobs = Vec::new();
    while let Ok(job) = queue.recv() {
        jobs.push(job);
        jobs.extend(queue.try_iter().take(BATCH - 1));
        lock(work).commit_all(&mut jobs);
        waiting.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs.drain(..).for_each(|mut job| job.answer());
    }
}

impl Work {
    fn new(tables: Tables, busy_timeout: Duration, ending: Arc<AtomicBool>) -> Self {
        Self { tables, pace: Pace::default(), busy_timeout, ending, ending_since: None }
    }

    fn commit_all(&mut self, jobs: &mut [Box<dyn Job>]) {
        let begun = Instant::now();
        self.commit(jobs);
        self.pace.wrote(jobs.iter().map(|job| job.run()), begun.elapsed());
    }

    /// Does all of them in one transaction, or, when that cannot be done, each in one of its own.
    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) {
        match self.patiently(jobs) {
            Ok(()) => {}
            // One that finds no room or hits a damaged page must not undo the others.
            Err(Failed::Sql(_)) if jobs.len() > 1 => {
                jobs.chunks_mut(1).for_each(|job| self.commit(job));
            }
            Err(Failed::Sql(error)) => self.fail(jobs, &self.errors().sql(error)),
            // None of them may be written.
            Err(Failed::Refused(error)) => self.fail(jobs, &error),
        }
    }

    fn fail(&self, jobs: &mut [Box<dyn Job>], error: &StoreError) {
        jobs.iter_mut().for_each(|job| job.fail(error.clone()));
    }

    fn errors(&self) -> &StoreErrors {
        self.tables.errors()
    }

    /// Does them in one transaction, as soon as nobody else has the file locked.
    fn patiently(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failed> {
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
                let (path, writes, runs) = (self.errors().path().display(), jobs.len(), names(jobs));
                tracing::error!(
                    %path, writes, runs, %error,
                    "the store was dropped while another process had its file locked; these writes are lost"
                );
                return Err(self.errors().given_up().caused_by(error).into());
            }
            let next = spoken.map_or(self.busy_timeout, |at| at + at.clamp(Duration::from_secs(1), SILENCE));
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

    /// Whether all handles are gone, and have been for as long as a lock is waited for.
    fn gives_up(&mut self) -> bool {
        self.ending.load(Ordering::Relaxed)
            && self.ending_since.get_or_insert_with(Instant::now).elapsed() >= self.busy_timeout
    }
}

/// The runs that requests are about.
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
    within_one(tables, |tables| jobs.iter_mut().try_for_each(|job| job.act(tables)))
}

/// Acts within a transaction.
fn within_one<T>(
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
