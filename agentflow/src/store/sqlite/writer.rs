//! The store's thread for writing: it puts all waiting requests into one transaction and answers them when that is on
//! the disk.
//!
//! It decides nothing about runs and holds no handle of the store: it ends when the last handle is gone and its queue
//! is empty. While another process has the file locked it waits, since no run has to end for that; it gives up only
//! after all handles are gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::files::OpenFiles;
use super::sqlite_error::{Failed, StoreErrors, is_locked};
use super::tables::Tables;
use super::{Settings, join, upgrade};
use crate::event::RunId;
use crate::store::{StoreError, StoreErrorKind};

/// The most requests of one transaction.
const BATCH: usize = 1024;

/// The longest time between two sentences about a locked file.
const SILENCE: Duration = Duration::from_secs(3600);

/// The most runs that a sentence names.
const NAMED: usize = 10;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Writer {
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
    /// Opens the file on a thread of its own.
    pub(super) async fn start(settings: Settings) -> Result<(Self, StoreErrors, Arc<OpenFiles>), StoreError> {
        let (queue, jobs) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let ending = Arc::new(AtomicBool::new(false));
        let unwanted = Arc::clone(&ending);
        let thread = thread::Builder::new()
            .name("agentflow-sqlite".to_owned())
            .spawn(move || match upgrade::open_writer(&settings, &unwanted) {
                Ok(file) => {
                    let place = (file.errors.clone(), Arc::clone(&file.files));
                    if opened.send(Ok(place)).is_ok() {
                        let (tables, busy_timeout) = (Tables::new(file), settings.busy_timeout);
                        Work { tables, busy_timeout, ending: unwanted, ending_since: None }.through(&jobs);
                    }
                }
                // Nobody waits any more: then nobody needs the answer.
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Io, "no thread can be started for the store").caused_by(error)
            })?;
        let writer = Self { queue: Some(queue), thread: Some(thread), ending };
        let (errors, files) = is_open.await.unwrap_or_else(|_| Err(ended()))?;
        Ok((writer, errors, files))
    }

    /// Queues a request now, about a run or none; the future is its answer.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        run: Option<&RunId>,
        abandoned: Abandoned,
        act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        if let Some(queue) = &self.queue {
            // When the thread is gone the answer says so.
            let _ =
                queue.send(Box::new(Request { run: run.cloned(), abandoned, act, result: None, reply: Some(reply) }));
        }
        async move { answer.await.unwrap_or_else(|_| Err(ended())) }
    }
}

impl Drop for Writer {
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

/// What the thread has.
struct Work {
    tables: Tables,
    busy_timeout: Duration,
    /// No handle is left.
    ending: Arc<AtomicBool>,
    /// When that was seen first.
    ending_since: Option<Instant>,
}

impl Work {
    fn through(mut self, queue: &mpsc::Receiver<Box<dyn Job>>) {
        let mut jobs = Vec::new();
        while let Ok(job) = queue.recv() {
            jobs.push(job);
            jobs.extend(queue.try_iter().take(BATCH - 1));
            self.commit(&mut jobs);
            jobs.drain(..).for_each(|mut job| job.answer());
        }
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
            let error = match together(&mut self.tables, jobs) {
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
    tables.begin()?;
    let done = jobs.iter_mut().try_for_each(|job| job.act(tables)).and_then(|()| tables.commit());
    if done.is_err() {
        tables.roll_back();
    }
    Ok(done?)
}
