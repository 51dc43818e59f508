//! A stream of a task's changes. One that breaks is resumed by a subscription to its task; a message is never sent twice.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use agentflow_http::sse::{EventTooLarge, SseFlow, SseReader};
use futures_util::Stream;
use futures_util::stream::{self, BoxStream};
use reqwest::Response;
use tokio::time::{sleep, timeout};

use super::super::{A2aErrorCode, A2aMessage, A2aPart, A2aRole, A2aTask, A2aTaskState, A2aTaskStatus, A2aUpdate};
use super::a2a_error::A2aError;
use super::operation::{Binding, Operation};
use super::peer::{Peer, causes};
use crate::future::Exclusive;

/// How often in a row a stream is resumed that brings nothing new.
const MOST_RESUMES: u32 = 5;
/// The pause before the first of these; the next are longer.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the reason of a failed task is waited for.
const REASON: Duration = Duration::from_secs(2);

/// The changes of a task, in their order. It ends when the task has ended or waits for its client. Dropping it closes the
/// connection, and cancels nothing.
///
/// A connection that breaks is made anew by a subscription, which begins with the whole task: an
/// [`A2aUpdate::Task`] in the middle of a stream stands for everything before it.
#[must_use = "a stream does nothing unless it is read"]
pub struct A2aStream(Exclusive<BoxStream<'static, Result<A2aUpdate, A2aError>>>);

impl A2aStream {
    pub(super) fn new(following: Following) -> Self {
        Self(Exclusive::new(Box::pin(stream::unfold(following, |mut following| async move {
            Some((following.next().await?, following))
        }))))
    }
}

impl Stream for A2aStream {
    type Item = Result<A2aUpdate, A2aError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        self.0.get_mut().as_mut().poll_next(cx)
    }
}

impl fmt::Debug for A2aStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aStream").finish_non_exhaustive()
    }
}

/// A stream, and the task that it is of.
pub(super) struct Following {
    peer: Arc<Peer>,
    name: &'static str,
    body: Option<Body>,
    waiting: VecDeque<Result<A2aUpdate, A2aError>>,
    task: Option<String>,
    state: Option<A2aTaskState>,
    resumes: u32,
    is_over: bool,
    /// How many bytes were read.
    pub(super) taken: usize,
}

struct Body {
    response: Response,
    binding: Binding,
    reader: SseReader,
    /// How many bytes came since the last event.
    unread: usize,
}

/// The status of a task that has failed without a message.
fn failed_without_reason(update: &mut A2aUpdate) -> Option<&mut A2aTaskStatus> {
    let status = match update {
        A2aUpdate::Task(task) => &mut task.status,
        A2aUpdate::Status(update) => &mut update.status,
        A2aUpdate::Message(_) | A2aUpdate::Artifact(_) => return None,
    };
    let is_failed = matches!(status.state, A2aTaskState::Failed | A2aTaskState::Rejected);
    (is_failed && status.message.is_none()).then_some(status)
}

impl Body {
    fn new((response, binding): (Response, Binding)) -> Self {
        Self { response, binding, reader: SseReader::default(), unread: 0 }
    }
}

impl Following {
    /// Sends the request of a stream.
    pub(super) async fn open(peer: Arc<Peer>, operation: Operation, task: Option<&str>) -> Result<Self, A2aError> {
        let body = Body::new(peer.open(&operation).await?);
        Ok(Self {
            peer,
            name: operation.name,
            body: Some(body),
            waiting: VecDeque::new(),
            task: task.map(ToOwned::to_owned),
            state: None,
            resumes: 0,
            is_over: false,
            taken: 0,
        })
    }

    /// The task, once that is known.
    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    pub(super) async fn next(&mut self) -> Option<Result<A2aUpdate, A2aError>> {
        loop {
            if let Some(mut update) = self.waiting.pop_front() {
                if let Some(status) = update.as_mut().ok().and_then(failed_without_reason) {
                    status.message = self.reason_behind().await;
                }
                match &update {
                    Ok(update) => self.note(update),
                    Err(_) => self.is_over = true,
                }
                if self.is_over {
                    (self.body, self.waiting) = (None, VecDeque::new());
                }
                return Some(update);
            }
            if self.is_over {
                return None;
            }
            match self.read().await {
                Ok(true) => {}
                // An agent may close a stream whose task waits for its client.
                Ok(false) if self.state.is_some_and(A2aTaskState::is_interrupted) => self.is_over = true,
                Ok(false) => self.resume("it ended before the task did".to_owned()).await,
                Err(error) if error.is_of_transport() => self.resume(error.to_string()).await,
                Err(error) => self.waiting.push_back(Err(error)),
            }
        }
    }

    fn note(&mut self, update: &A2aUpdate) {
        if self.task.is_none() {
            self.task = update.task_id().map(ToOwned::to_owned);
        }
        let state = match update {
            A2aUpdate::Task(task) => Some(task.status.state),
            A2aUpdate::Status(update) => Some(update.status.state),
            A2aUpdate::Message(_) | A2aUpdate::Artifact(_) => None,
        };
        // A subscription begins with the task as it was.
        if state.is_none() || state != self.state {
            self.resumes = 0;
        }
        self.state = state.or(self.state);
        self.is_over = update.is_last();
    }

    /// The error that follows the end of a failed task in its stream, as AG2 sends the reason.
    async fn reason_behind(&mut self) -> Option<A2aMessage> {
        let read_on = async {
            loop {
                match self.waiting.pop_front() {
                    Some(Err(A2aError::Refused { message, .. })) => return Some(message),
                    Some(_) => {}
                    None => match self.read().await {
                        Ok(true) => {}
                        Ok(false) | Err(_) => return None,
                    },
                }
            }
        };
        let reason = timeout(REASON, read_on).await.ok().flatten()?;
        Some(A2aMessage::new(A2aRole::Agent, [A2aPart::text(reason)]))
    }

    /// Reads a piece of the body; whether there was one.
    async fn read(&mut self) -> Result<bool, A2aError> {
        let (peer, name) = (&self.peer, self.name);
        let Some(body) = &mut self.body else { return Ok(false) };
        let idle = peer.settings.idle_timeout;
        let piece = match timeout(idle, body.response.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => return Ok(false),
            Ok(Err(error)) => return Err(peer.lost(name, causes(&error))),
            Err(_) => return Err(peer.silent(name, idle)),
        };
        self.taken = self.taken.saturating_add(piece.len());
        body.unread += piece.len();
        let (binding, waiting, unread) = (body.binding, &mut self.waiting, &mut body.unread);
        let fed: Result<SseFlow, EventTooLarge> = body.reader.feed(&piece, |event| {
            *unread = 0;
            // Some servers keep the connection alive with empty events.
            if event.data.trim_ascii().is_empty() {
                return Ok(SseFlow::More);
            }
            waiting.push_back(peer.read(name, binding, None, event.data));
            Ok(SseFlow::More)
        });
        let most = peer.settings.max_message;
        match fed {
            Ok(_) if *unread <= most => Ok(true),
            _ => Err(peer.wrong(name, format!("an event has more than {most} bytes, the limit `max_message`"))),
        }
    }

    /// Subscribes to the task of a stream that broke; the outcome is the next body, or what is still to be given.
    async fn resume(&mut self, problem: String) {
        self.body = None;
        let Some(task) = self.task.clone() else {
            let problem = format!("{problem}; the task is not known, and the message is not sent twice");
            return self.waiting.push_back(Err(self.peer.lost(self.name, problem)));
        };
        if self.resumes == MOST_RESUMES {
            let problem = format!("{problem}; it was resumed {MOST_RESUMES} times, and the task `{task}` may continue");
            return self.waiting.push_back(Err(self.peer.lost(self.name, problem)));
        }
        sleep(PAUSE * (1 << self.resumes)).await;
        self.resumes += 1;
        match self.peer.open(&Operation::subscribe(&task)).await {
            Ok(body) => self.body = Some(Body::new(body)),
            // The task has ended meanwhile.
            Err(error) if error.code() == Some(A2aErrorCode::UnsupportedOperation) => {
                match self.peer.ask::<A2aTask>(&Operation::get(&task, None)).await {
                    Ok(task) if task.status.state.is_terminal() || task.status.state.is_interrupted() => {
                        self.waiting.push_back(Ok(A2aUpdate::Task(Box::new(task))));
                    }
                    Ok(_) => self.waiting.push_back(Err(error)),
                    Err(error) if error.is_of_transport() => {}
                    Err(error) => self.waiting.push_back(Err(error)),
                }
            }
            Err(error) if error.is_of_transport() => {}
            Err(error) => self.waiting.push_back(Err(error)),
        }
    }
}
