//! A run of anything: its log, its control requests, the handle that a caller holds, and the host that all runs of a
//! program share.
//!
//! It knows neither agents nor workflows; those record what they do here.

mod approval;
mod attach;
mod by_id;
mod control_events;
mod control_request;
mod deadline;
mod events;
mod forgotten;
mod handle;
mod host;
mod id;
mod journal;
mod leaving;
mod live;
mod log;
mod nested;
mod nesting;
mod options;
mod outcomes;
mod read;
mod records;
mod redaction;
mod replies;
mod result;
mod running;
mod segment;
mod shared;
mod sinks;
mod slots;
mod spending;
mod state;
mod step_records;
mod stopped_calls;
mod waits;

pub use self::approval::Approval;
pub(crate) use self::attach::attach;
pub(crate) use self::by_id::control as control_by_id;
pub(crate) use self::control_request::{Asked, ControlRequest, Reply};
pub(crate) use self::deadline::within;
pub use self::events::Events;
pub(crate) use self::forgotten::Void;
pub(crate) use self::handle::{Ended, Life};
pub use self::handle::{RunHandle, RunStream};
pub(crate) use self::host::Host;
pub(crate) use self::journal::Journal;
pub(crate) use self::live::{Found, Reservation, deliver};
pub(crate) use self::nested::{HOOKS, NestedCall};
pub(crate) use self::nesting::{Around, AroundSlot};
pub use self::options::RunBeginning;
pub(crate) use self::options::{RunOptions, RunOwn, RunResource, check_resources};
pub(crate) use self::outcomes::{has_failed_since, has_written, is_own_failure, outermost, writes};
pub(crate) use self::read::{RunJournal, read_events, read_journal};
pub(crate) use self::redaction::REDACTED;
pub use self::redaction::{Redact, Redactor};
pub(crate) use self::replies::read_outcome;
pub(crate) use self::result::RunEnd;
pub use self::result::RunResult;
pub(crate) use self::segment::{InSegment, Segment, SegmentKind, unless_cancelled};
pub(crate) use self::shared::RunShared;
pub(crate) use self::slots::Slot;
pub(crate) use self::spending::Ledger;
pub(crate) use self::state::{NodeInfo, NodeState, OpenSteps, RunState};
