//! The thread that writes: whatever waits goes into one transaction, and is answered when that is on the disk.
//!
//! It decides nothing about runs, and holds no handle of the store: it ends when the last one is gone and its queue is
//! empty.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use super::problem::{Failed, Problems};
use super::tables::Tables;
use super::{Settings, schema};
use crate::store::{StoreError, StoreErrorKind};

/// The most requests of one transaction.
const BATCH: usize = 1024;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Opens the file on a thread of its own.
    pub(super) async fn start(settings: Settings) -> Result<(Self, Problems), StoreError> {
        let (queue, jobs) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("agentflow-sqlite".to_owned())
            .spawn(move || match schema::open_writer(&settings) {
                Ok((connection, problems)) => {
                    let mut tables = Tables::new(connection, problems.clone());
                    if opened.send(Ok(problems)).is_ok() {
                        work(&mut tables, &jobs);
                    }
                }
                // Nobody waits any more: then nobody needs the answer.
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Io, "no thread can be started for the store").caused_by(error)
            })?;
        let writer = Self { queue: Some(queue), thread: Some(thread) };
        let problems = is_open.await.unwrap_or_else(|_| Err(ended()))?;
        Ok((writer, problems))
    }

    /// Queues a request now; the future is its answer.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        if let Some(queue) = &self.queue {
            // When the thread is gone the answer says so.
            let _ = queue.send(Box::new(Request { act, result: None, reply: Some(reply) }));
        }
        async move { answer.await.unwrap_or_else(|_| Err(ended())) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It panicked, or it has written everything.
            let _ = thread.join();
        }
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
}

struct Request<F, T> {
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
            // Whoever asked may have gone.
            let _ = reply.send(result);
        }
    }
}

fn work(tables: &mut Tables, queue: &mpsc::Receiver<Box<dyn Job>>) {
    let mut jobs = Vec::new();
    while let Ok(job) = queue.recv() {
        jobs.push(job);
        jobs.extend(queue.try_iter().take(BATCH - 1));
        commit(tables, &mut jobs);
        jobs.drain(..).for_each(|mut job| job.answer());
    }
}

/// Does all of them in one transaction, or, when that cannot be done, each in one of its own.
fn commit(tables: &mut Tables, jobs: &mut [Box<dyn Job>]) {
    let Err(error) = together(tables, jobs) else { return };
    let locked = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
    if locked || jobs.len() == 1 {
        // Each of them would only wait as long again.
        let error = tables.problems().sql(error);
        return jobs.iter_mut().for_each(|job| job.fail(error.clone()));
    }
    // One that finds no room or hits a damaged page must not undo the others.
    for job in jobs {
        if let Err(error) = together(tables, std::slice::from_mut(job)) {
            job.fail(tables.problems().sql(error));
        }
    }
}

fn together(tables: &mut Tables, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    let done = tables.begin().and_then(|()| {
        jobs.iter_mut().try_for_each(|job| job.act(tables))?;
        tables.commit()
    });
    if done.is_err() {
        tables.roll_back();
    }
    done
}
