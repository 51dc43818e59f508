//! Assigns paths to the agents and workflows that a step starts. When the step runs again after a
//! restart, a call gets the path of a recorded call of the same kind and name with the same input,
//! independent of the order of the calls.

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

/// A call to an agent or workflow in a step, with its input.
#[derive(Clone, Debug)]
pub(crate) enum NestedCall {
    Agent(Arc<AgentStarted>),
    Workflow(Arc<WorkflowStarted>),
}

/// The agents and workflows that attempts at steps have started.
#[derive(Default)]
pub(super) struct NestedCallRegistry {
    /// The assigned paths, by attempt.
    pub(super) nested: Mutex<HashMap<StepPath, PathClaims>>,
    /// Pairs of an attempt and a path at which the attempt continued work of an earlier attempt.
    pub(super) continued: Mutex<HashSet<(StepPath, StepPath)>>,
}

impl NestedCallRegistry {
    /// Resets an attempt that starts again.
    pub(super) fn forget(&self, attempt: &StepPath) {
        self.continued
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(of, _)| of != attempt);
        self.nested.lock().unwrap_or_else(PoisonError::into_inner).remove(attempt);
    }
}

impl NestedCall {
    /// Returns the call that starts with an event.
    fn from_event(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::AgentStarted(agent) => Some(Self::Agent(Arc::clone(agent))),
            EventKind::WorkflowStarted(workflow) => Some(Self::Workflow(Arc::clone(workflow))),
            _ => None,
        }
    }

    /// Returns the call as the journal contains it, since a redactor may change recorded events.
    pub(crate) fn redacted(self, redactor: Option<&Redactor>) -> Self {
        let Some(redactor) = redactor else { return self };
        let kind = match self.clone() {
            Self::Agent(agent) => EventKind::AgentStarted(agent),
            Self::Workflow(workflow) => EventKind::WorkflowStarted(workflow),
        };
        Self::from_event(&redactor.event(kind)).unwrap_or(self)
    }

    /// Returns `true` if both calls have the same kind, name and input. The instructions of an
    /// agent and the definition of a workflow may have changed since.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Agent(one), Self::Agent(other)) => {
                one.name == other.name && one.same_input(other)
            }
            (Self::Workflow(one), Self::Workflow(other)) => {
                one.name == other.name && one.input == other.input
            }
            _ => false,
        }
    }
}

impl fmt::Display for NestedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Maximum length of the displayed input, in bytes.
        const SHOWN: usize = 200;
        match self {
            Self::Agent(agent) => {
                let asked = agent
                    .input
                    .last()
                    .map(|message| message.text().into_owned())
                    .unwrap_or_default();
                write!(f, "the agent `{}` with {:?}", agent.name, head(&asked, SHOWN))
            }
            Self::Workflow(workflow) => {
                write!(
                    f,
                    "the workflow `{}` with {}",
                    workflow.name,
                    head(workflow.input.as_str(), SHOWN)
                )
            }
        }
    }
}

/// The paths that were assigned to the calls of one attempt at a step.
#[derive(Default)]
pub(super) struct PathClaims {
    /// The last assigned number.
    last: u32,
    /// The calls that were recorded below the attempt before the run was resumed.
    earlier: Option<Box<EarlierCalls>>,
}

/// Calls recorded below an attempt at a step before the run was resumed.
#[derive(Default)]
struct EarlierCalls {
    calls: Vec<EarlierCall>,
    /// Numbers that are recorded, or were assigned since the resume.
    taken: BTreeSet<u32>,
    /// The first call since the resume that does not match a recorded call, although some recorded
    /// calls were not repeated.
    other: Option<String>,
}

struct EarlierCall {
    number: u32,
    path: StepPath,
    call: NestedCall,
    /// `true` if the call, or a call below it, may have changed data outside the run.
    wrote: bool,
    /// Paths of interrupted work in the call that may have had an effect.
    open: BTreeSet<StepPath>,
    /// `true` if the call was repeated after the resume.
    claimed: bool,
}

impl PathClaims {
    /// Collects the calls recorded below the attempt before the run was resumed.
    pub(super) fn after(scope: &StepPath, recorded: &[(Timestamp, StepPath, EventKind)]) -> Self {
        let mut earlier = EarlierCalls::default();
        for (_, path, kind) in recorded {
            let Some((number, is_base)) = number_of(scope, path, kind) else { continue };
            earlier.taken.insert(number);
            if let Some(known) = earlier.calls.iter_mut().find(|call| call.number == number) {
                known.apply(path, kind, is_base);
            } else if let Some(call) = NestedCall::from_event(kind).filter(|_| is_base) {
                earlier.calls.push(EarlierCall::new(number, path.clone(), call));
            }
        }
        earlier.calls.sort_by_key(|call| call.number);
        Self { last: 0, earlier: Some(Box::new(earlier)) }
    }

    /// Assigns the path of a call. The first call gets the path of the attempt itself, so that an
    /// agent that is a node appears as that node.
    ///
    /// # Errors
    /// [`Error::NestedOther`] if the call does not match a recorded call, and a recorded call that
    /// may have had an effect was not repeated. Calls without an effect are checked by
    /// [`left_over`](Self::left_over) at the end of the step: concurrent calls may start in a
    /// different order.
    pub(super) fn claim(
        &mut self,
        scope: &StepPath,
        called: impl FnOnce() -> NestedCall,
    ) -> Result<StepPath> {
        let Some(earlier) = &mut self.earlier else { return Ok(self.next(scope)) };
        // All recorded calls were repeated, so this call is new.
        if earlier.calls.iter().all(|call| call.claimed) {
            return Ok(self.next(scope));
        }
        let called = called();
        if let Some(same) =
            earlier.calls.iter_mut().find(|call| !call.claimed && call.call.is(&called))
        {
            same.claimed = true;
            return Ok(same.path.clone());
        }
        if let Some(wrote) = earlier.calls.iter().find(|call| !call.claimed && call.wrote) {
            return Err(wrote.other(called.to_string()));
        }
        earlier.other.get_or_insert_with(|| called.to_string());
        Ok(self.next(scope))
    }

    /// Assigns the path below which the tool calls of the attempt are recorded.
    pub(super) fn claim_base(&mut self, scope: &StepPath, known: Option<StepPath>) -> StepPath {
        match known {
            // The recorded path has used its number already.
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
            // Skips the numbers that are in the journal.
            while !earlier.taken.insert(self.last) {
                self.last += 1;
            }
        }
        match self.last {
            1 => scope.clone(),
            number => scope.child(&format!("{CALL}{number}")),
        }
    }

    /// Returns the reason why the output of a repeated step cannot be used: the step made a
    /// different call instead of a recorded one, or did not repeat a call that was interrupted
    /// during a write, so that no operator was asked about it.
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

    /// Applies a record of the call, or of work below it.
    fn apply(&mut self, path: &StepPath, kind: &EventKind, is_base: bool) {
        self.wrote |= writes(kind);
        match kind {
            // A completed call contains no interrupted work.
            EventKind::AgentCompleted(_) | EventKind::WorkflowCompleted(_) if is_base => {
                self.open.clear();
            }
            kind if kind.is_unrepeatable_start() => {
                self.open.insert(path.clone());
            }
            EventKind::NodeCompleted { .. }
            | EventKind::ToolCompleted { .. }
            | EventKind::ToolWaiting(_) => {
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

    /// Returns the question to an operator if the call had interrupted work and was not repeated.
    fn stopped(&self) -> Option<Failure> {
        let stopped: Vec<String> =
            outermost(&self.open).iter().map(|path| format!("`{path}`")).collect();
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

/// Prefix of the number in the path of the second and later calls of an attempt.
const CALL: &str = "call#";

/// Returns the number of the call that a record belongs to, and `true` if the record is at the
/// call's own path.
fn number_of(scope: &StepPath, path: &StepPath, kind: &EventKind) -> Option<(u32, bool)> {
    if path == scope {
        return NestedCall::from_event(kind).map(|_| (1, true));
    }
    let (scope, path) = (scope.to_string(), path.to_string());
    let below = path.strip_prefix(&scope)?.strip_prefix('/')?;
    match below.strip_prefix(CALL) {
        Some(call) => {
            let (number, rest) = call.split_once('/').unwrap_or((call, ""));
            Some((number.parse().ok()?, rest.is_empty()))
        }
        // The calls of other attempts and of hooks are counted separately.
        None if below.starts_with("attempt#") || below.starts_with(HOOKS) => None,
        None => Some((1, false)),
    }
}

/// Path segment below which hooks around an agent in a step record the agents and workflows that
/// they start.
pub(crate) const HOOKS: &str = "hooks";
