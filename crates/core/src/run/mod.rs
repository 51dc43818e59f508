//! Runs of agents and workflows: handles, results, event streams and control requests.
//!
//! [`RunHandle`] controls a run, and [`RunResult`] is the outcome of an agent's run. [`Events`] and
//! [`RunStream`] stream its events. [`ControlCall`] is a control request, [`Approval`] is the
//! answer to a question, and [`Redact`] masks secrets in events.
//!
//! The implementation is independent of agents and workflows, which record their events here:
//!
//! - `RunShared` is the state that the tasks, the handle and the steps of a run share. `Host` is
//!   the state that all runs of a runtime share.
//! - `log` keeps the recorded events in memory, and `journal` writes them to the store. `events`
//!   streams them, `sinks` passes them to event sinks, and `redaction` masks them.
//! - A control request is routed by `requests`, checked by `control_events`, and answered through
//!   `replies` when its effect is stored. `by_id` and `live` find the run of a request by its id.
//! - `RunState` and `StepStates` are folds over the recorded events. `read` reads a journal from
//!   the store.
//! - `Segment` records the start and the end of an agent or workflow, either as the run itself or
//!   as a step.
//! - `CompensationPlan` determines the calls that a failed run must compensate.

mod answer_access;
mod approval;
mod attach;
mod by_id;
mod call_keys;
mod closings;
mod control_call;
mod control_events;
mod control_request;
mod deadline;
mod done_calls;
mod events;
#[cfg(test)]
mod every_text;
mod forgotten;
mod give_ups;
mod handle;
mod host;
mod id;
mod identities;
mod journal;
mod known_nodes;
mod leaving;
mod live;
mod log;
mod made_resources;
mod messages;
mod nested;
mod nesting;
mod options;
mod outcomes;
mod personal_data;
mod read;
mod records;
mod redaction;
mod replies;
mod requests;
mod result;
mod run_artifacts;
mod running;
pub(crate) mod saved_values;
mod segment;
mod sent;
mod session_resources;
mod shared;
mod sinks;
mod slots;
mod snapshot;
mod spending;
mod state;
mod step_answers;
mod step_records;
mod step_states;
mod stopped_calls;
mod time_spent;
mod unanswered;
mod undo_requests;
mod until_asks;
mod waits;

pub(crate) use self::answer_access::check_request;
pub use self::approval::Approval;
#[doc(hidden)]
pub use self::approval::asks_approval;
pub(crate) use self::approval::{call_answer_schema, read_approval};
pub(crate) use self::attach::attach;
pub(crate) use self::by_id::control as control_by_id;
pub(crate) use self::call_keys::CallKeys;
pub use self::control_call::ControlCall;
pub(crate) use self::control_events::{NO_ARGUMENTS, check_question};
pub(crate) use self::control_request::{Asked, ControlRequest, Reply};
pub(crate) use self::deadline::within;
pub(crate) use self::done_calls::{
    CompensableCall, CompensationPlan, CompensationState, OUTPUT, Undo, is_of_undo,
};
pub use self::events::Events;
#[doc(hidden)]
pub use self::events::FirstEvents;
pub(crate) use self::forgotten::InvalidatedRecords;
pub(crate) use self::handle::{Ended, Life};
pub use self::handle::{RunHandle, RunStream};
pub(crate) use self::host::Host;
pub(crate) use self::journal::Journal;
pub(crate) use self::live::{Found, Reservation, deliver};
pub(crate) use self::made_resources::{ResourceFactories, ResourceFactory};
pub(crate) use self::nested::{HOOKS, NestedCall};
pub(crate) use self::nesting::{Around, BY_STEP, TaskScopeSlot, stopping, why_dropped};
pub use self::options::RunBeginning;
pub(crate) use self::options::{RunData, RunOptions, check_resources};
pub(crate) use self::outcomes::{has_written, is_own_failure, outermost, writes};
pub(crate) use self::read::{RunJournal, read_events, read_journal, read_selected_events};
pub use self::redaction::{Redact, Redactor};
pub(crate) use self::replies::read_outcome;
pub(crate) use self::result::RunEnd;
pub use self::result::RunResult;
pub(crate) use self::run_artifacts::artifact_gone;
pub(crate) use self::saved_values::{
    artifacts_from_events, artifacts_up_to, session_artifacts, state_of,
};
pub(crate) use self::segment::{
    InSegment, Segment, SegmentKind, unless_cancelled, unless_failed_as_cancelled, was_dropped,
    was_dropped_with_step,
};
pub(crate) use self::shared::RunShared;
pub(crate) use self::slots::Slot;
pub(crate) use self::spending::{Ledger, spending_of_runs, usage_of_runs};
pub(crate) use self::state::{NodeInfo, NodeState, OpenSteps, RunState};
pub(crate) use self::step_states::{MOST_NAMES, Seen, StepStates};
pub(crate) use self::time_spent::time_spent;
pub(crate) use self::unanswered::timeout_answer;
pub use crate::on_timeout::OnTimeout;
