//! A stream of a task's updates. A broken stream is resumed by subscribing to the task; a message
//! is never sent twice.

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

use super::super::{
    A2aErrorCode, A2aMessage, A2aPart, A2aRole, A2aTask, A2aTaskState, A2aTaskStatus, A2aUpdate,
};
use super::a2a_error::A2aError;
use super::operation::{Binding, Operation};
use super::peer::{Peer, causes};
use agentflow_core::__private::extension::Exclusive;

/// Maximum number of consecutive resumptions without a new update.
const MOST_RESUMES: u32 = 5;
/// Pause before the first resumption; it doubles each time.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum time to wait for the reason of a failed task.
const REASON: Duration = Duration::from_secs(2);

/// A stream of the updates of a task, in order. It ends when the task has ended or waits for input.
/// Dropping the stream closes the connection and does not cancel the task.
///
/// After a disconnect the client subscribes to the task again. A subscription begins with the whole
/// task, so an [`A2aUpdate::Task`] in the middle of a stream replaces all earlier updates.
#[must_use = "a stream does nothing unless it is read"]
pub struct A2aStream(Exclusive<BoxStream<'static, Result<A2aUpdate, A2aError>>>);

impl A2aStream {
    pub(super) fn new(following: UpdateReader) -> Self {
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

/// State of a stream of updates, including the current connection.
pub(super) struct UpdateReader {
    peer: Arc<Peer>,
    name: &'static str,
    body: Option<Body>,
    waiting: VecDeque<Result<A2aUpdate, A2aError>>,
    task: Option<String>,
    state: Option<A2aTaskState>,
    resumes: u32,
    is_over: bool,
    /// Total number of bytes read.
    pub(super) taken: usize,
}

struct Body {
    response: Response,
    binding: Binding,
    reader: SseReader,
    /// Number of bytes since the last event.
    unread: usize,
}

/// Returns the status of an update that reports a failed or rejected task without a message.
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

impl UpdateReader {
    /// Sends the request and opens the stream. `task` is the id of the task if it is known.
    pub(super) async fn open(
        peer: Arc<Peer>,
        operation: Operation,
        task: Option<&str>,
    ) -> Result<Self, A2aError> {
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

    /// Returns the id of the task, once it is known.
    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    pub(super) async fn next(&mut self) -> Option<Result<A2aUpdate, A2aError>> {
        loop {
            if let Some(mut update) = self.waiting.pop_front() {
                if let Some(status) = update.as_mut().ok().and_then(failed_without_reason) {
                    status.message = self.trailing_reason().await;
                }
                match &update {
                    Ok(update) => self.note(update),
                    Err(_) => self.is_over = true,
                }
                if self.is_over {
                    // Closes the connection now, although the stream may be dropped much later.
                    (self.body, self.waiting) = (None, VecDeque::new());
                }
                return Some(update);
            }
            if self.is_over {
                return None;
            }
            match self.read().await {
                Ok(true) => {}
                // A server may close the stream of a task that waits for input.
                Ok(false) if self.state.is_some_and(A2aTaskState::is_interrupted) => {
                    self.is_over = true;
                }
                Ok(false) => self.resume("it ended before the task did".to_owned()).await,
                Err(error) if error.is_transport_error() => self.resume(error.to_string()).await,
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
        // A new subscription repeats the current state. Only a new state or other updates count as
        // progress.
        if state.is_none() || state != self.state {
            self.resumes = 0;
        }
        self.state = state.or(self.state);
        self.is_over = update.is_last();
    }

    /// Waits for the error that follows the end of a failed task. AG2 sends the reason this way.
    async fn trailing_reason(&mut self) -> Option<A2aMessage> {
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

    /// Reads the next piece of the body. Returns `false` at its end.
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
            // `unread` includes an event whose end has not arrived yet.
            Ok(_) if *unread <= most => Ok(true),
            _ => Err(peer.wrong(
                name,
                format!("an event has more than {most} bytes, the limit `max_message`"),
            )),
        }
    }

    /// Subscribes to the task again after the stream broke. On success the new connection is in
    /// `body`; otherwise the final update or error is queued.
    async fn resume(&mut self, problem: String) {
        self.body = None;
        // Without a task id the message would have to be sent again, which could start a second
        // task.
        let Some(task) = self.task.clone() else {
            let problem =
                format!("{problem}; the task is not known, and the message is not sent twice");
            return self.waiting.push_back(Err(self.peer.lost(self.name, problem)));
        };
        if self.resumes == MOST_RESUMES {
            let problem = format!(
                "{problem}; it was resumed {MOST_RESUMES} times, and the task `{task}` may continue"
            );
            return self.waiting.push_back(Err(self.peer.lost(self.name, problem)));
        }
        sleep(PAUSE * (1 << self.resumes)).await;
        self.resumes += 1;
        match self.peer.open(&Operation::subscribe(&task)).await {
            Ok(body) => self.body = Some(Body::new(body)),
            // The task ended while the stream was broken.
            Err(error) if error.code() == Some(A2aErrorCode::UnsupportedOperation) => {
                match self.peer.ask::<A2aTask>(&Operation::get(&task, None)).await {
                    Ok(task)
                        if task.status.state.is_terminal()
                            || task.status.state.is_interrupted() =>
                    {
                        self.waiting.push_back(Ok(A2aUpdate::Task(Box::new(task))));
                    }
                    Ok(_) => self.waiting.push_back(Err(error)),
                    Err(error) if error.is_transport_error() => {}
                    Err(error) => self.waiting.push_back(Err(error)),
                }
            }
            Err(error) if error.is_transport_error() => {}
            Err(error) => self.waiting.push_back(Err(error)),
        }
    }
}
