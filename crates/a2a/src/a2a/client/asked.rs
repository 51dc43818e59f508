//! Sends a message and waits until its task has ended or needs input. The task is followed by a
//! stream or by polling. Dropping the future cancels the task.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::{A2aAnswer, A2aMessage, A2aRole, A2aTask, A2aTaskState, A2aUpdate};
use super::a2a_error::A2aError;
use super::langgraph_thread::with_thread_questions;
use super::operation::Operation;
use super::peer::Peer;
use super::task_question::{NO_QUESTION, NOT_SHOWN, parts_from_text, questions_of};
use super::update_stream::UpdateReader;

/// First and maximum pause between two polls of a task.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Maximum number of consecutive failed polls.
const MOST_FAILURES: u32 = 5;
/// Time limit of a cancellation that runs in the background.
const CANCEL: Duration = Duration::from_secs(5);

/// Sends a message and waits for its answer. Calls `shown` with each update.
pub(super) async fn asked(
    peer: &Arc<Peer>,
    message: &A2aMessage,
    mut shown: impl FnMut(&A2aUpdate),
) -> Result<A2aAnswer, A2aError> {
    let streams = peer.settings.streams && peer.chosen().await?.card.capabilities.streaming;
    let mut unfinished = Unfinished { peer: Arc::clone(peer), task: None };
    let answer = match streams {
        true => streamed(peer, message, &mut unfinished, &mut shown).await,
        false => polled(peer, message, &mut unfinished, &mut shown).await,
    };
    if let Ok(A2aAnswer::Task(task)) = &answer {
        peer.remember(task);
    }
    // The task is settled, or the agent refused the message. After any other error the task may
    // still run without a reader, so it stays in `unfinished` and is cancelled.
    if matches!(answer, Ok(_) | Err(A2aError::Refused { .. })) {
        unfinished.task = None;
    }
    answer
}

async fn streamed(
    peer: &Arc<Peer>,
    message: &A2aMessage,
    unfinished: &mut Unfinished,
    shown: &mut impl FnMut(&A2aUpdate),
) -> Result<A2aAnswer, A2aError> {
    let operation = Operation::stream(message, &peer.settings.output_modes);
    let name = operation.name;
    let mut stream =
        UpdateReader::open(Arc::clone(peer), operation, message.task_id.as_deref()).await?;
    let mut known: Option<Box<A2aTask>> = None;
    let mut is_whole = true;
    while let Some(update) = stream.next().await {
        unfinished.task = stream.task().map(ToOwned::to_owned);
        let update = update?;
        shown(&update);
        let most = peer.settings.max_message;
        if stream.taken > most {
            return Err(peer.wrong(
                name,
                format!("its stream has more than {most} bytes, the limit `max_message`"),
            ));
        }
        // For a further message to a known task, the stream may begin with an update instead of the
        // task. An empty task collects the updates; the whole task is fetched in the end.
        if let (None, Some(id)) = (&known, update.task_id()) {
            is_whole = false;
            known = Some(Box::new(A2aTask::new(id, "", A2aTaskState::Working)));
        }
        match (update, &mut known) {
            (A2aUpdate::Message(message), _) => return Ok(A2aAnswer::Message(message)),
            (A2aUpdate::Task(task), known) => (*known, is_whole) = (Some(task), true),
            (A2aUpdate::Status(update), Some(task)) => task.apply_status(*update),
            (A2aUpdate::Artifact(update), Some(task)) => task.apply_artifact(*update),
            (_, None) => {}
        }
        if let Some(task) = known.take_if(|task| is_settled(task)) {
            return Ok(A2aAnswer::Task(match is_whole {
                true => task,
                false => restore_question(peer.ask(&Operation::get(&task.id, None)).await?, *task),
            }));
        }
    }
    Err(peer.wrong(name, "its stream ended, and the task did not".to_owned()))
}

/// Adds the question that the stream contained to a fetched task, because some servers show a
/// question only once.
fn restore_question(mut task: Box<A2aTask>, streamed: A2aTask) -> Box<A2aTask> {
    if task.status.state == A2aTaskState::InputRequired && questions_of(&task).is_err() {
        task.status.message = task.status.message.or(streamed.status.message);
        task.artifacts.extend(streamed.artifacts);
    }
    task
}

async fn polled(
    peer: &Arc<Peer>,
    message: &A2aMessage,
    unfinished: &mut Unfinished,
    shown: &mut impl FnMut(&A2aUpdate),
) -> Result<A2aAnswer, A2aError> {
    // The server returns at once, so that the task id is known for a cancellation.
    let mut task =
        match peer.ask(&Operation::send(message, &peer.settings.output_modes, true)).await? {
            A2aAnswer::Message(message) => return Ok(A2aAnswer::Message(message)),
            A2aAnswer::Task(task) => task,
        };
    unfinished.task = Some(task.id.clone());
    let (mut pause, mut failures) = (PAUSE.0, 0);
    while !is_settled(&task) {
        shown(&A2aUpdate::Task(task.clone()));
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
        match peer.ask::<Box<A2aTask>>(&Operation::get(&task.id, None)).await {
            Ok(now) => (task, failures) = (now, 0),
            Err(error) if error.is_transport_error() && failures < MOST_FAILURES => failures += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(A2aAnswer::Task(task))
}

/// Builds the message that answers a task with text, in the form that its server expects. If the
/// server does not return the task, or the task does not wait for input, the text is sent
/// unchanged.
///
/// # Errors
/// If the server cannot be reached, if it does not show its question, or if the text does not
/// answer the question.
pub(super) async fn answer_message(
    peer: &Peer,
    task: &str,
    text: String,
) -> Result<A2aMessage, A2aError> {
    let plain = || A2aMessage::user_text(text.as_str()).task(task);
    let shown = match peer.ask::<A2aTask>(&Operation::get(task, None)).await {
        Ok(shown) if shown.status.state == A2aTaskState::InputRequired => shown,
        Ok(_) | Err(A2aError::Refused { .. } | A2aError::Answer { .. }) => return Ok(plain()),
        Err(error) => return Err(error),
    };
    // Some servers show a question only once: use the cached question, or read the
    // LangGraph thread.
    let asking = match questions_of(&shown) {
        Err(NO_QUESTION) => {
            let asking = match peer.remembered(task) {
                None => with_thread_questions(peer, &shown).await,
                remembered => remembered,
            };
            match asking {
                Some(asking) => asking,
                None if has_agent_text(&shown) => return Ok(plain()),
                None => return Err(peer.unanswerable(NOT_SHOWN)),
            }
        }
        _ => shown,
    };
    let parts = parts_from_text(&asking, &text).map_err(|problem| peer.unanswerable(problem))?;
    let mut message = A2aMessage::user(parts).task(task);
    message.context_id = asking.context_id;
    Ok(message)
}

/// Returns `true` if the newest message of the agent in the history has text, which may be its
/// question.
fn has_agent_text(task: &A2aTask) -> bool {
    let newest = task.history.iter().rfind(|message| message.role == A2aRole::Agent);
    newest.is_some_and(|message| !message.text().trim().is_empty())
}

fn is_settled(task: &A2aTask) -> bool {
    task.status.state.is_terminal() || task.status.state.is_interrupted()
}

/// A guard that cancels its task when it is dropped, unless the task is settled.
pub(super) struct Unfinished {
    peer: Arc<Peer>,
    task: Option<String>,
}

impl Unfinished {
    pub(super) fn new(peer: &Arc<Peer>, task: String) -> Self {
        Self { peer: Arc::clone(peer), task: Some(task) }
    }

    /// Disarms the guard.
    pub(super) fn settled(&mut self) {
        self.task = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        // Outside of a tokio runtime the request cannot be sent.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = Arc::clone(&self.peer);
        runtime.spawn(async move {
            let cancelled = timeout(CANCEL, peer.ask::<A2aTask>(&Operation::cancel(&task))).await;
            if !matches!(cancelled, Ok(Ok(_))) {
                tracing::warn!(agent = %peer.name, task, "a task of an A2A agent may continue: it could not be cancelled");
            }
        });
    }
}
