//! Events of a tool call outside of any run, for example when a program or the command line calls a
//! tool by name.
//!
//! Sinks receive the same events as for a call in a run. Nothing is stored or read back.

use std::sync::Arc;

use agentflow_schema::text::head;

use super::call_record::{began, ended, millis_since};
use super::history::RecordedOutcome;
use super::{ToolPolicy, not_found};
use crate::context::{Context, PreviousCallAttempts};
use crate::event::EventKind;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::time::Timestamp;
use crate::tool_definition::Effects;

/// Maximum number of bytes of an unknown tool's name in events.
const LONGEST: usize = 256;

/// A call outside of any run. If it is dropped before its end, sinks receive its cancellation.
pub(crate) struct DetachedToolCall {
    cx: Context,
    /// The tool's wire name, which events use regardless of the name the caller used.
    name: Box<str>,
    open: Option<StartedCall>,
}

struct StartedCall {
    call: Arc<ToolCall>,
    since: Timestamp,
    effects: Effects,
}

impl DetachedToolCall {
    /// Creates the call. Returns `None` in a run, whose step records its calls itself.
    pub(super) fn new(cx: &Context, name: &Arc<str>) -> Option<Self> {
        Self::at(cx, Arc::clone(name), name)
    }

    fn at(cx: &Context, place: Arc<str>, name: &str) -> Option<Self> {
        if cx.is_in_run() {
            return None;
        }
        let path = cx.claim_base(None).tool(1, place, 0);
        // Keep the idempotency key of the context.
        let cx = cx.of_call(path, &cx.call_key(), PreviousCallAttempts::default(), cx.resources());
        Some(Self { cx, name: name.into(), open: None })
    }

    /// Returns the context at the call's path.
    pub(super) fn cx(&self) -> &Context {
        &self.cx
    }

    /// Emits the start of the call. `policy` is `None` if the call reaches no tool. `given` is the
    /// caller's input if middleware has changed it.
    pub(super) fn begin(
        &mut self,
        call: &ToolCall,
        policy: Option<&ToolPolicy>,
        given: Option<Arc<str>>,
    ) {
        if !self.cx.run().log.has_sinks() {
            return;
        }
        let call = Arc::new(ToolCall { name: self.name.to_string(), ..call.clone() });
        let effects = policy.map_or(Effects::None, |policy| policy.effects);
        self.tell(began(Arc::clone(&call), policy, given));
        self.open = Some(StartedCall { call, since: self.cx.now(), effects });
    }

    /// Emits the end of the call.
    pub(super) fn end(&mut self, result: &ToolResult, answered_by: Option<Arc<str>>) {
        let Some(StartedCall { since, .. }) = self.open.take() else { return };
        let result = Arc::new(ToolResult { name: self.name.to_string(), ..result.clone() });
        let outcome = RecordedOutcome { answered_by, ..RecordedOutcome::new(result) };
        self.tell(ended(outcome, millis_since(since, self.cx.now())));
    }

    fn tell(&self, kind: EventKind) {
        self.cx.tell(kind);
    }
}

impl Drop for DetachedToolCall {
    fn drop(&mut self) {
        if let Some(StartedCall { call, effects, .. }) = &self.open {
            let known = effects.describe_interrupted();
            let problem =
                format!("whoever called dropped the call while this tool was running; {known}");
            let result = ToolResult::new(call, ToolStatus::Cancelled, problem);
            self.end(&result, None);
        }
    }
}

/// Returns the result of a call to an unknown tool and emits its events, if the call is outside of
/// any run.
pub(crate) fn report_unknown_tool<'a>(
    cx: &Context,
    call: &ToolCall,
    known: impl Iterator<Item = &'a str> + Clone,
) -> ToolResult {
    let problem = not_found(call, known);
    let result = ToolResult::new(call, problem.status(), problem.message());
    // The name comes from the caller and may contain any text, so it is not used as a path segment.
    if let Some(mut told) = DetachedToolCall::at(cx, "unknown".into(), head(&call.name, LONGEST)) {
        told.begin(call, None, None);
        told.end(&result, None);
    }
    result
}
