//! Where an agent or a workflow that a step begins records what it does, and which recorded one it is when the step runs
//! again in another process: that of the same kind and name with the same input, whoever begins first.
//!
//! It reads a journal and gives out paths; it records nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use agentflow_schema::text::head;

use super::outcomes::{is_own_failure, outermost, writes};
use super::redaction::Redactor;
use crate::error::{Error, Result};
use crate::event::{AgentStarted, EventKind, WorkflowStarted};
use crate::failure::{Failure, FailureKind};
use crate::path::StepPath;
use crate::time::Timestamp;

/// What a step calls: an agent or a workflow, with its input.
#[derive(Clone, Debug)]
pub(crate) enum NestedCall {
    Agent(Arc<AgentStarted>),
    Workflow(Arc<WorkflowStarted>),
}

/// The agents and workflows that attempts at steps have begun.
#[derive(Default)]
pub(super) struct BegunBySteps {
    /// Their paths, by the attempt.
    pub(super) nested: Mutex<HashMap<StepPath, Claims>>,
    /// Which attempts at a step have continued what an earlier one began at a path.
    pub(super) continued: Mutex<HashSet<(StepPath, StepPath)>>,
}

impl BegunBySteps {
    /// An attempt begins anew.
    pub(super) fn forget(&self, attempt: &StepPath) {
        self.continued.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _)| of != attempt);
        self.nested.lock().unwrap_or_else(PoisonError::into_inner).remove(attempt);
    }
}

impl NestedCall {
    /// The call that begins with an event.
    fn of(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::AgentStarted(agent) => Some(Self::Agent(Arc::clone(agent))),
            EventKind::WorkflowStarted(workflow) => Some(Self::Workflow(Arc::clone(workflow))),
            _ => None,
        }
    }

    /// The call as a journal has it: a runtime may take secrets out of its events.
    pub(crate) fn redacted(self, redactor: Option<&Redactor>) -> Self {
        let Some(redactor) = redactor else { return self };
        let kind = match self.clone() {
            Self::Agent(agent) => EventKind::AgentStarted(agent),
            Self::Workflow(workflow) => EventKind::WorkflowStarted(workflow),
        };
        Self::of(&redactor.event(kind)).unwrap_or(self)
    }

    /// Whether another call is this one: of the same kind and name, with the same input. What an agent is instructed to do
    /// and how a workflow is defined may have changed since.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Agent(one), Self::Agent(other)) => one.name == other.name && one.same_input(other),
            (Self::Workflow(one), Self::Workflow(other)) => one.name == other.name && one.input == other.input,
            _ => false,
        }
    }
}

impl fmt::Display for NestedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The longest text of an input that is shown, in bytes.
        const SHOWN: usize = 200;
        match self {
            Self::Agent(agent) => {
                let asked = agent.input.last().map(|message| message.text().into_owned()).unwrap_or_default();
                write!(f, "the agent `{}` with {:?}", agent.name, head(&asked, SHOWN))
            }
            Self::Workflow(workflow) => {
                write!(f, "the workflow `{}` with {}", workflow.name, head(workflow.input.as_str(), SHOWN))
            }
        }
    }
}

/// The paths that the calls of one attempt at a step were given.
#[derive(Default)]
pub(super) struct Claims {
    /// The last number that was given, where nothing is recorded of an earlier life of the run.
    last: u32,
    /// What an earlier life of the run recorded below the attempt.
    earlier: Option<Box<Earlier>>,
}

/// What an earlier life of a run recorded below an attempt at a step.
#[derive(Default)]
struct Earlier {
    calls: Vec<EarlierCall>,
    /// The numbers under which something is recorded, or that were given since.
    taken: BTreeSet<u32>,
    /// The first call of this life that is another one, although some of them had not been asked for again.
    other: Option<String>,
}

struct EarlierCall {
    number: u32,
    path: StepPath,
    call: NestedCall,
    /// It, or something below it, may have changed something outside of the run.
    wrote: bool,
    /// What in it was stopped in the middle, and may have had an effect.
    open: BTreeSet<StepPath>,
    /// This life of the run has asked for it again.
    claimed: bool,
}

impl Claims {
    /// With what an earlier life of the run recorded below the attempt.
    pub(super) fn after(scope: &StepPath, recorded: &[(Timestamp, StepPath, EventKind)]) -> Self {
        let mut earlier = Earlier::default();
        for (_, path, kind) in recorded {
            let Some((number, is_base)) = number_of(scope, path, kind) else { continue };
            earlier.taken.insert(number);
            if let Some(known) = earlier.calls.iter_mut().find(|call| call.number == number) {
                known.apply(path, kind, is_base);
            } else if let Some(call) = NestedCall::of(kind).filter(|_| is_base) {
                earlier.calls.push(EarlierCall::new(number, path.clone(), call));
            }
        }
        earlier.calls.sort_by_key(|call| call.number);
        Self { last: 0, earlier: Some(Box::new(earlier)) }
    }

    /// The path of a call. The first one has the path of the attempt for itself, so that an agent that is a node is seen
    /// as that node.
    ///
    /// # Errors
    /// [`Error::NestedOther`] when it is another one than those that were recorded, and one of them that may have had an
    /// effect was not asked for again. One that had none is left to [`left_over`](Self::left_over): calls of a step that run side
    /// by side may begin in another order.
    pub(super) fn claim(&mut self, scope: &StepPath, called: impl FnOnce() -> NestedCall) -> Result<StepPath> {
        let Some(earlier) = &mut self.earlier else { return Ok(self.next(scope)) };
        if earlier.calls.iter().all(|call| call.claimed) {
            return Ok(self.next(scope));
        }
        let called = called();
        if let Some(same) = earlier.calls.iter_mut().find(|call| !call.claimed && call.call.is(&called)) {
            same.claimed = true;
            return Ok(same.path.clone());
        }
        if let Some(wrote) = earlier.calls.iter().find(|call| !call.claimed && call.wrote) {
            return Err(wrote.other(called.to_string()));
        }
        earlier.other.get_or_insert_with(|| called.to_string());
        Ok(self.next(scope))
    }

    /// The path below which the calls of tools at the attempt are recorded.
    pub(super) fn claim_base(&mut self, scope: &StepPath, known: Option<StepPath>) -> StepPath {
        match known {
            // What is recorded there has taken its number.
            Some(known) if self.earlier.is_some() => known,
            Some(known) => {
                self.last += 1;
                known
            }
            None => self.next(scope),
        }
    }

    fn next(&mut self, scope: &StepPath) -> StepPath {
        self.last += 1;
        if let Some(earlier) = &mut self.earlier {
            while !earlier.taken.insert(self.last) {
                self.last += 1;
            }
        }
        match self.last {
            1 => scope.clone(),
            number => scope.child(&format!("{CALL}{number}")),
        }
    }

    /// Why the output of the step cannot be trusted: it called something else in the place of what it had called before,
    /// or did not call what was stopped in the middle of a write, so that nobody was asked about it.
    pub(super) fn left_over(&self) -> Option<Failure> {
        let earlier = self.earlier.as_ref()?;
        let mut left = earlier.calls.iter().filter(|call| !call.claimed).peekable();
        let first = *left.peek()?;
        match &earlier.other {
            Some(other) => Some(Failure::from(&first.other(other.clone()))),
            None => left.find_map(EarlierCall::stopped),
        }
    }
}

impl EarlierCall {
    fn new(number: u32, path: StepPath, call: NestedCall) -> Self {
        Self { number, path, call, wrote: false, open: BTreeSet::new(), claimed: false }
    }

    /// Takes in what is recorded of it, or below it.
    fn apply(&mut self, path: &StepPath, kind: &EventKind, is_base: bool) {
        self.wrote |= writes(kind);
        match kind {
            EventKind::AgentCompleted(_) | EventKind::WorkflowCompleted(_) if is_base => self.open.clear(),
            kind if kind.begins_once() => {
                self.open.insert(path.clone());
            }
            EventKind::NodeCompleted { .. } | EventKind::ToolCompleted { .. } | EventKind::ToolWaiting(_) => {
                self.open.remove(path);
            }
            EventKind::ToolFailed { result, .. } if result.status.is_outcome() => {
                self.open.remove(path);
            }
            kind if is_own_failure(kind) => {
                self.open.remove(path);
            }
            _ => {}
        }
    }

    /// What an operator is asked of it when it is not called again.
    fn stopped(&self) -> Option<Failure> {
        let stopped: Vec<String> = outermost(&self.open).iter().map(|path| format!("`{path}`")).collect();
        let message = format!(
            "the program stopped in the middle of {}, in {}, which this step had begun and, run again, did not call; \
             whether that had its effect is unknown: find out, then retry the node or cancel the run",
            stopped.join(", "),
            self.call
        );
        (!stopped.is_empty()).then(|| Failure::new(FailureKind::Interrupted, message))
    }

    fn other(&self, called: String) -> Error {
        Error::NestedOther { path: self.path.clone(), began: self.call.to_string(), called }
    }
}

/// What stands before the number of a call, from the second one of an attempt on.
const CALL: &str = "call#";

/// The number of the call of an attempt that a record belongs to, and whether it is recorded at the call's own path.
fn number_of(scope: &StepPath, path: &StepPath, kind: &EventKind) -> Option<(u32, bool)> {
    if path == scope {
        return NestedCall::of(kind).map(|_| (1, true));
    }
    let (scope, path) = (scope.to_string(), path.to_string());
    let below = path.strip_prefix(&scope)?.strip_prefix('/')?;
    match below.strip_prefix(CALL) {
        Some(call) => {
            let (number, rest) = call.split_once('/').unwrap_or((call, ""));
            Some((number.parse().ok()?, rest.is_empty()))
        }
        // Another attempt, or a hook around the agent, has calls of its own.
        None if below.starts_with("attempt#") || below.starts_with(HOOKS) => None,
        None => Some((1, false)),
    }
}

/// The name below which hooks around an agent in a step record the agents and workflows that they begin.
pub(crate) const HOOKS: &str = "hooks";
