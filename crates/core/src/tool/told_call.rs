//! The events of a call that belongs to no run: a program or the command line calls a tool by its name. Sinks see what a run
//! records of a call; nothing is kept, and nothing is read back.

use std::sync::Arc;

use agentflow_schema::text::head;

use super::call_record::{began, ended, millis_since};
use super::history::RecordedOutcome;
use super::{ToolPolicy, not_found};
use crate::context::{Context, MadeBefore};
use crate::event::EventKind;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::time::Timestamp;
use crate::tool_definition::Effects;

/// The most bytes of a name that no tool has.
const LONGEST: usize = 256;

/// A call outside of any run. Dropped between its beginning and its end, it is shown as cancelled.
pub(super) struct ToldCall {
    cx: Context,
    /// The name in events, which is the tool's wire name whoever calls.
    name: Box<str>,
    open: Option<OpenTold>,
}

struct OpenTold {
    call: Arc<ToolCall>,
    since: Timestamp,
    effects: Effects,
}

impl ToldCall {
    /// `None` in a run, whose step records what it calls itself.
    pub(super) fn new(cx: &Context, name: &Arc<str>) -> Option<Self> {
        Self::at(cx, Arc::clone(name), name)
    }

    fn at(cx: &Context, place: Arc<str>, name: &str) -> Option<Self> {
        if cx.is_in_run() {
            return None;
        }
        let path = cx.claim_base(None).tool(1, place, 0);
        // The idempotency key stays that of the context.
        let cx = cx.of_call(path, &cx.call_key(), MadeBefore::default(), cx.resources());
        Some(Self { cx, name: name.into(), open: None })
    }

    /// Where the tool is called.
    pub(super) fn cx(&self) -> &Context {
        &self.cx
    }

    /// The call begins. Without a policy it reaches no tool; `given` is what the caller gave where middleware has changed it.
    pub(super) fn begin(&mut self, call: &ToolCall, policy: Option<&ToolPolicy>, given: Option<Arc<str>>) {
        if !self.cx.run().log.has_sinks() {
            return;
        }
        let call = Arc::new(ToolCall { name: self.name.to_string(), ..call.clone() });
        let effects = policy.map_or(Effects::None, |policy| policy.effects);
        self.tell(began(Arc::clone(&call), policy, given));
        self.open = Some(OpenTold { call, since: self.cx.now(), effects });
    }

    /// It has ended.
    pub(super) fn end(&mut self, result: &ToolResult, answered_by: Option<Arc<str>>) {
        let Some(OpenTold { since, .. }) = self.open.take() else { return };
        let result = Arc::new(ToolResult { name: self.name.to_string(), ..result.clone() });
        let outcome = RecordedOutcome { answered_by, ..RecordedOutcome::new(result) };
        self.tell(ended(outcome, millis_since(since, self.cx.now())));
    }

    fn tell(&self, kind: EventKind) {
        self.cx.tell(kind);
    }
}

impl Drop for ToldCall {
    fn drop(&mut self) {
        if let Some(OpenTold { call, effects, .. }) = &self.open {
            let known = effects.when_stopped();
            let problem = format!("whoever called dropped the call while this tool was running; {known}");
            let result = ToolResult::new(call, ToolStatus::Cancelled, problem);
            self.end(&result, None);
        }
    }
}

/// The result of a call of a tool that there is not, outside of any run.
pub(crate) fn told_not_found<'a>(
    cx: &Context,
    call: &ToolCall,
    known: impl Iterator<Item = &'a str> + Clone,
) -> ToolResult {
    let result = not_found(call, known);
    // A path does not hold whatever is in a name that somebody gave.
    if let Some(mut told) = ToldCall::at(cx, "unknown".into(), head(&call.name, LONGEST)) {
        // Nothing is called.
        told.begin(call, Some(&ToolPolicy::default().effects(Effects::None)), None);
        told.end(&result, None);
    }
    result
}
