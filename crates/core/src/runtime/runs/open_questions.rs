//! Open questions of a run and of all runs in the store: an inbox for the people who answer them.
//! [`RunRef::approve`](crate::runtime::RunRef::approve) and
//! [`RunRef::answer`](crate::runtime::RunRef::answer) answer questions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;

use crate::error::Result;
use crate::event::split_question_id;
use crate::event::{Event, EventKind, RunId};
use crate::on_timeout::OnTimeout;
use crate::path::StepPath;
use crate::run::NodeState;
use crate::run::{RunHandle, RunState};
use crate::store::RunRecord;
use crate::time::Timestamp;
use crate::value::Encoded;

/// A question that a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
#[doc(alias = "InteractionRequest")]
#[doc(alias = "interaction_id")]
pub struct OpenQuestion {
    /// Run that asks.
    pub run: RunId,
    /// Identifier of the question, such as `review@3f2a91c0`. It consists of the path and a part
    /// for this particular question, since a retried step asks again.
    /// [`RunRef::approve`](crate::runtime::RunRef::approve) and
    /// similar functions accept it instead of the path; the answer is then refused if the question
    /// is not open any more.
    pub id: String,
    /// Name of the workflow or agent.
    pub name: Arc<str>,
    /// Tags of the run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Caller of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// Path of the question, as accepted by
    /// [`RunRef::approve`](crate::runtime::RunRef::approve): a gate or another node, such as
    /// `review`, or a tool call, such as `tool#1.refund`.
    pub path: String,
    /// Kind of the question, such as `mcp.elicitation`. Empty for gates and approvals.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Arc<str>,
    /// Text of the question.
    pub message: String,
    /// Subject of the question: the payload of a gate, the inputs of a node, or the arguments of a
    /// call.
    pub about: Encoded,
    /// JSON Schema of the answer.
    pub answer: Encoded,
    /// Time at which it was asked.
    pub asked: Timestamp,
    /// Time after which it cannot be answered. `None` means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Action if it is not answered in time.
    #[serde(skip_serializing_if = "OnTimeout::is_default")]
    pub on_timeout: OnTimeout,
    /// `true` if an earlier question was asked at the same path.
    #[serde(skip)]
    asked_before: bool,
}

impl OpenQuestion {
    /// Returns the key of the question within its run: the path of the first question there, the id
    /// of a later one. An answer to an earlier question therefore never applies to a later one, and
    /// most keys are names from the workflow.
    #[doc(hidden)]
    pub fn key(&self) -> &str {
        if self.asked_before { &self.id } else { &self.path }
    }
}

impl<T> RunHandle<T> {
    /// Waits until the run asks a person, and returns its oldest open question. Returns `None` if
    /// the run has ended. An open question is returned at once, and again until it is answered.
    ///
    /// It works without a store, and for runs of other processes: see
    /// [`RunRef::attach`](crate::runtime::RunRef::attach). It waits without a time limit. If
    /// another person answers the question first, a later answer to it is refused.
    ///
    /// # Cancel safety
    /// Dropping the future does not affect the run.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// #[workflow]
    /// async fn ask_and_publish(text: String) -> Result<String> {
    ///     let answer = gate!("publish this?", text).await?;
    ///     Ok(if answer.is_granted() { text } else { String::new() })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().build();
    /// let run = runtime.start(ask_and_publish::workflow(), "news".to_owned()).await?;
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
    /// If the run stops in this process without ending, for example because its runtime is
    /// [drained](crate::Runtime::drain), or the store cannot be read.
    pub async fn asked(&self) -> Result<Option<OpenQuestion>> {
        self.until_asks(|events| {
            let all = questions(&RunRecord::from_events(events)?, events);
            all.into_iter()
                .min_by(|one, other| (one.asked, &one.path).cmp(&(other.asked, &other.path)))
        })
        .await
    }

    /// Waits until the question with this id is closed: it was answered, or it is not asked any
    /// more.
    ///
    /// # Errors
    /// As [`asked`](Self::asked).
    pub(crate) async fn until_closed(&self, id: &str) -> Result<()> {
        let (path, _) = split_question_id(id);
        // An id without a valid path does not belong to a question.
        let Ok(path) = path.parse::<StepPath>() else { return Ok(()) };
        let closes = |event: &Event| match &event.kind {
            _ if event.path == path => true,
            // The enclosing step has ended, is retried, or continues without the answer.
            EventKind::RunResumed { .. } | EventKind::RunCompensating { .. } => {
                path.belongs_to(&event.path)
            }
            kind => kind.shape().edge.ends_attempt() && path.belongs_to(&event.path),
        };
        let is_closed = |events: &[Event]| {
            let asks = RunState::from_open_questions(events.iter().map(|event| (&event.path, &event.kind)))
                .nodes
                .get(&path)
                .is_some_and(|node| matches!(&node.state, NodeState::Asking(request) if request.id_at(&path) == id));
            (!asks).then_some(())
        };
        self.wait_for_event(closes, is_closed).await.map(drop)
    }
}

/// Returns the open questions of a run, oldest first, given its journal.
pub(crate) fn open_questions(record: &RunRecord, events: &[Event]) -> Vec<OpenQuestion> {
    let mut all = questions(record, events);
    all.sort_by(|one, other| (one.asked, &one.path).cmp(&(other.asked, &other.path)));
    all
}

/// Returns the open questions of a run, given its journal.
pub(crate) fn questions(record: &RunRecord, events: &[Event]) -> Vec<OpenQuestion> {
    let state =
        RunState::from_open_questions(events.iter().map(|event| (&event.path, &event.kind)));
    if !state.asks() {
        return Vec::new();
    }
    // For each path, the time of the last question and the number of questions.
    let mut askings: HashMap<&StepPath, (Timestamp, u32)> = HashMap::new();
    for event in events.iter().filter(|event| matches!(event.kind, EventKind::ApprovalRequested(_)))
    {
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
            kind: Arc::clone(&request.kind),
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

    /// Returns the journal of a run with this number of rounds, followed by a question.
    fn journal(rounds: u32) -> Vec<Event> {
        let started = || WorkflowStarted::new("rounds".into(), "".into(), Encoded::null());
        let run_id = RunId::new("run-1");
        let mut events: Vec<Event> = Vec::new();
        let mut add = |path: &str, kind: EventKind| {
            let (seq, path) = (events.len() as u64 + 1, path.parse().unwrap());
            events.push(Event {
                run_id: run_id.clone(),
                seq,
                part: 0,
                time: Timestamp::default(),
                path,
                kind,
            });
        };
        let begins = || EventKind::NodeStarted { attempt: 1, repeatable: true, tool: None };
        let ends =
            || EventKind::NodeCompleted { output: Encoded::null(), duration_ms: 0, saved: None };
        add("", EventKind::RunStarted(Arc::new(RunStarted::new(RunBody::Workflow(started())))));
        add("grown", begins());
        for round in 0..rounds {
            let (body, step) = (format!("grown[{round}]"), format!("grown[{round}]/step"));
            add(&body, begins());
            add(&body, EventKind::WorkflowStarted(Arc::new(started())));
            add(&step, begins());
            add(&step, ends());
            add(
                &body,
                EventKind::WorkflowCompleted(crate::event::WorkflowCompleted::new(Encoded::null())),
            );
            add(&body, ends());
        }
        let request = ApprovalRequest::new("go on?".to_owned(), Encoded::null(), Encoded::null());
        add("word", EventKind::ApprovalRequested(Arc::new(request)));
        events
    }

    /// Counts comparisons of paths. Listing questions needs at most one comparison per event, and
    /// the state of all nodes a few, independent of the journal's length.
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
            assert_eq!(RunState::from_events(&events).nodes.asking().count(), 1);
            let folded = compared() - before;
            assert!(folded <= 8 * events.len(), "{folded} comparisons for {} events", events.len());
        }
    }
}
