//! Open questions of a run and of all runs in the store: an inbox for the people who answer them.
//! [`RunRef::approve`](crate::runtime::RunRef::approve) and
//! [`RunRef::answer`](crate::runtime::RunRef::answer) answer questions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use crate::caller::Caller;
use crate::error::Result;
use crate::event::split_question_id;
use crate::event::{ApprovalRequest, Event, EventKind, PauseReason, RunId};
use crate::on_timeout::OnTimeout;
use crate::path::StepPath;
use crate::run::NodeState;
use crate::run::{RunHandle, RunState};
use crate::store::{RunRecord, RunStatus};
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
    /// Roles that allow a caller to answer. If this and `allowed_users` are empty, every caller that
    /// the access control permits may answer.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_roles: BTreeSet<Arc<str>>,
    /// Names of callers that may answer; see `allowed_roles`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_users: BTreeSet<Arc<str>>,
    /// `true` if an earlier question was asked at the same path, or may have been asked: the record
    /// of a run does not contain earlier questions.
    #[serde(skip)]
    asked_before: bool,
}

impl OpenQuestion {
    fn new(
        record: &RunRecord,
        path: &StepPath,
        request: &ApprovalRequest,
        (asked, asked_before): (Timestamp, bool),
    ) -> Self {
        let until = |limit: u64| Timestamp::from_millis(asked.as_millis().saturating_add(limit));
        Self {
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
            allowed_roles: request.allowed_roles.clone(),
            allowed_users: request.allowed_users.clone(),
            asked_before,
        }
    }

    /// Returns `true` if the roles and users of the question allow a caller to answer it. The access
    /// control of the runtime decides in addition.
    pub fn may_be_answered_by(&self, caller: &Caller) -> bool {
        caller.is_one_of(&self.allowed_roles, &self.allowed_users)
    }

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
    let question = |(path, request): (&StepPath, &Arc<ApprovalRequest>)| {
        let (asked, times) = askings.get(path).copied().unwrap_or((record.updated, 1));
        OpenQuestion::new(record, path, request, (asked, times > 1))
    };
    state.nodes.asking().map(question).collect()
}

/// Returns the open questions of a run, given its record. Returns `None` if the record does not
/// contain all of them.
pub(crate) fn recorded_questions(record: &RunRecord) -> Option<Vec<OpenQuestion>> {
    let questions = record.questions.as_ref().filter(|questions| questions.is_complete())?;
    // A process of an earlier release, which wrote the last events, does not change the questions.
    if questions.open.is_empty()
        && record.status == RunStatus::Paused
        && record.pause_reason == Some(PauseReason::Approval)
    {
        return None;
    }
    let mut open = Vec::with_capacity(questions.open.len());
    for question in &questions.open {
        let request = question.request.as_deref()?;
        open.push(OpenQuestion::new(record, &question.path, request, (question.asked, true)));
    }
    Some(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureKind;
    use crate::event::{RunBody, RunStarted, WorkflowStarted};
    use crate::message::Conversation;
    use crate::path::compared;
    use crate::store::RecordedQuestions;

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

    /// Returns a random event of a run of a workflow or an agent.
    fn random_event(random: &mut fastrand::Rng, seq: u64) -> Event {
        const PATHS: [&str; 14] = [
            "",
            "a",
            "a[0]",
            "a[1]",
            "a[1]/b",
            "a[1]/b/tool#1.pay",
            "b",
            "b/c",
            "b/tool#1.pay",
            "b/tool#1.pay/ask#1",
            "tool#1.pay",
            "tool#1.pay/ask#1",
            "tool#1.pay/ask#2",
            "model#2",
        ];
        let path: StepPath = PATHS[random.usize(..PATHS.len())].parse().unwrap();
        let payload = match random.u8(..12) {
            0 => Encoded::new(&"x".repeat(RecordedQuestions::MAX_QUESTION_BYTES)).unwrap(),
            _ => Encoded::null(),
        };
        let request = ApprovalRequest::new("go on?".to_owned(), payload, Encoded::null())
            .with_random_id(random.u64(..));
        let error = || Arc::new(crate::failure::Failure::new(FailureKind::Error, "it broke"));
        let forgotten = vec![PATHS[random.usize(1..PATHS.len())].parse().unwrap()];
        let redefined =
            || Some(Arc::new(crate::event::Redefined::new(None, forgotten.clone(), "p".into())));
        let resumed = |recovered, redefined| EventKind::RunResumed {
            recovered,
            redefined,
            waiting: None,
            queued: false,
            by: None,
        };
        let root = StepPath::root();
        let (path, kind) = match random.u8(..24) {
            0..8 if !path.is_root() => (path, EventKind::ApprovalRequested(Arc::new(request))),
            8 => (path, EventKind::ApprovalResolved { answer: Encoded::null(), by: "ada".into() }),
            9 => (path, EventKind::NodeStarted { attempt: 1, repeatable: true, tool: None }),
            10 => {
                let output = Encoded::null();
                (path, EventKind::NodeCompleted { output, duration_ms: 0, saved: None })
            }
            11 => (path, EventKind::NodeFailed { attempt: 1, error: error() }),
            12 => (path, EventKind::NodeRetrying { attempt: 1, error: error(), delay_ms: 0 }),
            13 => (path, EventKind::NodeSkipped { reason: "no".into() }),
            14 => (path, EventKind::NodeReset { by: "ada".into() }),
            15 => (path, EventKind::WorkflowFailed { error: error() }),
            16 => (path, resumed(false, None)),
            17 => (root, resumed(true, redefined())),
            18 => (root, resumed(false, None)),
            19 => (path, EventKind::ModelFailed { error: error() }),
            20 if random.u8(..6) == 0 => {
                (root, EventKind::RunCompensating { error: error(), cancelled: None, by: None })
            }
            21 if random.u8(..6) == 0 => {
                (root, EventKind::RunCancelled { reason: "enough".into(), by: None })
            }
            22 => (root, EventKind::RunFailed { error: error() }),
            _ => (path, EventKind::RunStep { step: 1 }),
        };
        Event {
            run_id: RunId::new("run-1"),
            seq,
            part: 0,
            time: Timestamp::from_millis(seq),
            path,
            kind,
        }
    }

    #[test]
    fn a_record_has_the_questions_of_the_journal() {
        let mut open = 0;
        for seed in 0..3_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut events = journal(0);
            events.truncate(1);
            if seed % 2 == 0 {
                let agent =
                    crate::event::AgentStarted::new("clerk".into(), None, Conversation::default());
                let started = RunStarted::new(RunBody::Agent(agent));
                events[0].kind = EventKind::RunStarted(Arc::new(started));
            }
            let mut record = RunRecord::new(&events[0]).unwrap();
            for seq in 2..40 {
                let event = random_event(&mut random, seq);
                record.apply(&event);
                events.push(event);
                let expected: Vec<(String, String)> = open_questions(&record, &events)
                    .into_iter()
                    .map(|question| (question.path, question.id))
                    .collect();
                let recorded = record.questions.as_ref().unwrap();
                let mut paths: Vec<String> =
                    recorded.open.iter().map(|question| question.path.to_string()).collect();
                let mut expected_paths: Vec<String> =
                    expected.iter().map(|(path, _)| path.clone()).collect();
                paths.sort();
                expected_paths.sort();
                assert_eq!(paths, expected_paths, "seed {seed}: {events:#?}");
                if let Some(questions) = recorded_questions(&record) {
                    let mut ids: Vec<String> =
                        questions.into_iter().map(|question| question.id).collect();
                    let mut expected: Vec<String> =
                        expected.into_iter().map(|(_, id)| id).collect();
                    ids.sort();
                    expected.sort();
                    assert_eq!(ids, expected, "seed {seed}");
                    open += ids.len();
                }
            }
        }
        assert!(open > 10_000, "the test has too few questions: {open}");
    }

    #[test]
    fn a_record_has_a_limited_size() {
        let mut events = journal(0);
        let mut record = RunRecord::new(&events.remove(0)).unwrap();
        let ask = |record: &mut RunRecord, number: u64, size: usize| {
            let payload = Encoded::new(&"x".repeat(size)).unwrap();
            let request = ApprovalRequest::new("go on?".to_owned(), payload, Encoded::null());
            let path = format!("all[{number}]").parse().unwrap();
            let kind = EventKind::ApprovalRequested(Arc::new(request));
            record.apply(&Event { seq: number + 2, path, kind, ..events[0].clone() });
        };
        for number in 0..10 {
            ask(&mut record, number, 10_000);
        }
        let questions = record.questions.clone().unwrap();
        assert_eq!(questions.open.len(), 10);
        assert_eq!(questions.open.iter().filter(|question| question.request.is_some()).count(), 6);
        assert!(!questions.has_more && !questions.is_complete());
        for number in 10..100 {
            ask(&mut record, number, 1);
        }
        let questions = record.questions.clone().unwrap();
        assert_eq!(questions.open.len(), RecordedQuestions::MAX_QUESTIONS);
        assert!(questions.has_more);
        let json = serde_json::to_string(&record).unwrap();
        assert!(json.len() < 100_000, "{}", json.len());
        assert_eq!(serde_json::from_str::<RunRecord>(&json).unwrap(), record);
        let end = EventKind::RunCancelled { reason: "enough".into(), by: None };
        record.apply(&Event { seq: 200, path: StepPath::root(), kind: end, ..events[0].clone() });
        assert_eq!(record.questions, Some(RecordedQuestions::default()));
    }
}
