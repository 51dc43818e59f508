//! The questions that runs wait for, of one run and of all runs of the store: an inbox for the persons who answer them. It
//! answers none; [`Runtime::approve`] and [`Runtime::answer`] do.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use serde::Serialize;

use super::Runtime;
use crate::error::Result;
#[cfg(feature = "mcp-server")]
use crate::event::named_question;
use crate::event::{Event, EventKind, RunId};
use crate::on_timeout::OnTimeout;
use crate::path::StepPath;
#[cfg(feature = "mcp-server")]
use crate::run::NodeState;
use crate::run::{RunHandle, RunState, read_events};
use crate::store::{RunFilter, RunRecord, RunStatus};
use crate::time::Timestamp;
use crate::value::Encoded;

/// How many journals are read at once.
const AT_ONCE: usize = 8;

/// A question that a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
#[doc(alias = "InteractionRequest")]
#[doc(alias = "interaction_id")]
pub struct OpenQuestion {
    /// The run that asks.
    pub run: RunId,
    /// What identifies the question, such as `review@3f2a91c0`: the path and which asking at it this is, since a step that is
    /// retried asks again. [`Runtime::approve`] and its like take it in the place of the path; the answer is refused then when
    /// this question is not open any more.
    pub id: String,
    /// The name of its workflow or agent.
    pub name: Arc<str>,
    /// What the run was tagged with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// On whose behalf the run was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// Where it asks, as [`Runtime::approve`] takes it: a gate or another node, such as `review`, or the call of a tool, such
    /// as `tool#1.refund`.
    pub path: String,
    /// The question, for a person to read.
    pub message: String,
    /// What it is about: the payload of a gate, what a node reads, the arguments of a call.
    pub about: Encoded,
    /// The JSON Schema of the answer.
    pub answer: Encoded,
    /// When it was asked; its age is what has passed since.
    pub asked: Timestamp,
    /// When it is too late to answer; `None`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What happens when nobody has answered by then.
    #[serde(skip_serializing_if = "OnTimeout::is_default")]
    pub on_timeout: OnTimeout,
    /// Whether something was asked at its path before.
    #[serde(skip)]
    asked_before: bool,
}

#[cfg(feature = "mcp-server")]
impl OpenQuestion {
    /// What names the question among all of its run: the path of the first one there, the id of a later one. So an answer to an
    /// earlier question never names a later one, and most names are those that the workflow gives.
    pub(crate) fn key(&self) -> &str {
        if self.asked_before { &self.id } else { &self.path }
    }
}

impl Runtime {
    /// The questions that runs of the store wait for, the oldest first, wherever these runs are executed. The filter is
    /// about runs; without a status in it, all that wait are looked at. Their journals are read.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// # use agentflow::store::{MemoryStore, RunFilter};
    /// #[workflow]
    /// async fn publish(text: String) -> Result<String> {
    ///     let answer = gate!("publish this?", text).await?;
    ///     Ok(if answer.is_granted() { text } else { String::new() })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let run = runtime.start(publish::workflow(), "news".to_owned()).tag("desk", "sports").await?;
    /// run.asked().await?;
    /// let questions = runtime.approvals(RunFilter::new().tag("desk", "sports")).await?;
    /// assert_eq!(questions[0].message, "publish this?");
    /// runtime.approve(&questions[0].run, &questions[0].id, Approval::granted(), "ada").await?;
    /// assert_eq!(run.result().await?, "news");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the runtime has no store, or it cannot list its runs or read one of them.
    pub async fn approvals(&self, filter: RunFilter) -> Result<Vec<OpenQuestion>> {
        let store = self.require_store()?;
        let filter = match filter.get_statuses().is_empty() {
            // What undoes a call may ask, too.
            true => filter.status(RunStatus::Paused).status(RunStatus::Compensating),
            false => filter,
        };
        let runs = store.list(filter).await?.into_iter().filter(|run| !run.status.has_ended());
        let read = runs.map(|run| {
            let store = Arc::clone(&store);
            async move { Ok::<_, crate::error::Error>(questions(&run, &read_events(&store, &run.run_id, 0).await?)) }
        });
        let all: Vec<Vec<OpenQuestion>> = futures_util::stream::iter(read).buffered(AT_ONCE).try_collect().await?;
        let mut all: Vec<OpenQuestion> = all.into_iter().flatten().collect();
        all.sort_by(|one, other| (one.asked, &one.run, &one.path).cmp(&(other.asked, &other.run, &other.path)));
        Ok(all)
    }

    /// What one run asks, the oldest question first.
    #[cfg(any(feature = "a2a-server", feature = "mcp-server"))]
    pub(crate) async fn questions_of(&self, run: &RunRecord) -> Result<Vec<OpenQuestion>> {
        let mut all = questions(run, &read_events(&self.require_store()?, &run.run_id, 0).await?);
        all.sort_by(|one, other| (one.asked, &one.path).cmp(&(other.asked, &other.path)));
        Ok(all)
    }
}

impl<T> RunHandle<T> {
    /// Waits until the run asks a person, and returns its oldest open question; `None` when the run has ended. A question that
    /// is open already is returned at once, and again until it is answered.
    ///
    /// No store is needed, and the run may be executed by another process: see
    /// [`Runtime::attach`](crate::Runtime::attach). Without a limit of time it waits as long as the run does; dropping the
    /// future changes nothing in the run. A question may be answered by somebody else meanwhile: the answer given to it then
    /// is refused.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// #[workflow]
    /// async fn publish(text: String) -> Result<String> {
    ///     let answer = gate!("publish this?", text).await?;
    ///     Ok(if answer.is_granted() { text } else { String::new() })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().build();
    /// let run = runtime.start(publish::workflow(), "news".to_owned()).await?;
    /// while let Some(question) = run.asked().await? {
    ///     assert_eq!(question.message, "publish this?");
    ///     run.approve(&question.id, Approval::granted(), "ada").await?;
    /// }
    /// assert_eq!(run.result().await?, "news");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the run stops here without an end, as when its runtime is [drained](crate::Runtime::drain), or its store cannot
    /// be read.
    pub async fn asked(&self) -> Result<Option<OpenQuestion>> {
        self.until_asks(|events| {
            let all = questions(&RunRecord::from_events(events)?, events);
            all.into_iter().min_by(|one, other| (one.asked, &one.path).cmp(&(other.asked, &other.path)))
        })
        .await
    }

    /// Waits until the question of an id is not open any more: it was answered, or nothing asks it now.
    ///
    /// # Errors
    /// As [`asked`](Self::asked).
    #[cfg(feature = "mcp-server")]
    pub(crate) async fn until_closed(&self, id: &str) -> Result<()> {
        let (path, _) = named_question(id);
        // What is no path is asked nowhere.
        let Ok(path) = path.parse::<StepPath>() else { return Ok(()) };
        let closes = |event: &Event| match &event.kind {
            _ if event.path == path => true,
            // What it belongs to ends, is tried again, or continues without it.
            EventKind::RunResumed { .. } | EventKind::RunCompensating { .. } => path.belongs_to(&event.path),
            kind => kind.shape().edge.ends_attempt() && path.belongs_to(&event.path),
        };
        let is_closed = |events: &[Event]| {
            let asks = RunState::of_questions(events.iter().map(|event| (&event.path, &event.kind)))
                .nodes
                .get(&path)
                .is_some_and(|node| matches!(&node.state, NodeState::Asking(request) if request.id_at(&path) == id));
            (!asks).then_some(())
        };
        self.until_found(closes, is_closed).await.map(drop)
    }
}

/// What a run asks, by its journal.
fn questions(record: &RunRecord, events: &[Event]) -> Vec<OpenQuestion> {
    let state = RunState::of_questions(events.iter().map(|event| (&event.path, &event.kind)));
    if !state.asks() {
        return Vec::new();
    }
    // For each path, the time of the last question and the number of questions.
    let mut askings: HashMap<&StepPath, (Timestamp, u32)> = HashMap::new();
    for event in events.iter().filter(|event| matches!(event.kind, EventKind::ApprovalRequested(_))) {
        let (asked, times) = askings.entry(&event.path).or_default();
        (*asked, *times) = (event.time, *times + 1);
    }
    let question = |(path, request): (&StepPath, &Arc<crate::event::ApprovalRequest>)| {
        let (asked, times) = askings.get(path).copied().unwrap_or((record.updated, 1));
        let until = |limit: u64| Timestamp::from_millis(asked.as_millis().saturating_add(limit));
        OpenQuestion {
            run: record.run_id.clone(),
            name: Arc::clone(&record.name),
            tags: record.tags.clone(),
            caller: record.caller.clone(),
            id: request.id_at(path),
            path: path.to_string(),
            message: request.message.clone(),
            about: request.payload.clone(),
            answer: request.answer.clone(),
            asked,
            deadline: request.timeout_ms.map(until),
            on_timeout: request.on_timeout.clone(),
            asked_before: times > 1,
        }
    };
    state.nodes.asking().map(question).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ApprovalRequest, RunBody, RunStarted, WorkflowStarted};
    use crate::path::compared;

    /// A run with this number of rounds that ends with a question.
    fn journal(rounds: u32) -> Vec<Event> {
        let started = || WorkflowStarted::new("rounds".into(), "".into(), Encoded::null());
        let run_id = RunId::new("run-1");
        let mut events: Vec<Event> = Vec::new();
        let mut add = |path: &str, kind: EventKind| {
            let (seq, path) = (events.len() as u64 + 1, path.parse().unwrap());
            events.push(Event { run_id: run_id.clone(), seq, part: 0, time: Timestamp::default(), path, kind });
        };
        let begins = || EventKind::NodeStarted { attempt: 1, repeatable: true, tool: None };
        let ends = || EventKind::NodeCompleted { output: Encoded::null(), duration_ms: 0, saved: None };
        add("", EventKind::RunStarted(Arc::new(RunStarted::new(RunBody::Workflow(started())))));
        add("grown", begins());
        for round in 0..rounds {
            let (body, step) = (format!("grown[{round}]"), format!("grown[{round}]/step"));
            add(&body, begins());
            add(&body, EventKind::WorkflowStarted(Arc::new(started())));
            add(&step, begins());
            add(&step, ends());
            add(&body, EventKind::WorkflowCompleted(crate::event::WorkflowCompleted::new(Encoded::null())));
            add(&body, ends());
        }
        let request = ApprovalRequest::new("go on?".to_owned(), Encoded::null(), Encoded::null());
        add("word", EventKind::ApprovalRequested(Arc::new(request)));
        events
    }

    /// Counts comparisons of paths. A list of questions needs none for an event that is not a question, and the state of all
    /// nodes needs a few, for a journal of any length.
    #[test]
    fn the_cost_of_an_event_does_not_grow_with_the_journal() {
        for rounds in [200, 20_000] {
            let events = journal(rounds);
            let record = RunRecord::from_events(&events).unwrap();
            let before = compared();
            assert_eq!(questions(&record, &events).len(), 1);
            let listed = compared() - before;
            assert!(listed <= events.len(), "{listed} comparisons for {} events", events.len());
            let before = compared();
            assert_eq!(RunState::of(&events).nodes.asking().count(), 1);
            let folded = compared() - before;
            assert!(folded <= 8 * events.len(), "{folded} comparisons for {} events", events.len());
        }
    }
}
