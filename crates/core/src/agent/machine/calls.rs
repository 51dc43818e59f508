//! The state of each tool call of a turn. Lookups take constant time, independent of the number of
//! calls.

use std::collections::HashMap;
use std::sync::Arc;

use super::handoffs::{second_transfer, target_of};
use super::{
    AgentMachine, OpenStep, PendingTool, Phase, Refused, closed, interrupted, over_limit_result,
};
use crate::event::TRANSFER_TOOL;
use crate::message::{Message, ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;
use crate::tool::Effects;

/// Up to this number of calls a linear search is faster than a map.
const SHORT: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Calls {
    list: Vec<CallState>,
    /// Index of each call in the list. Empty while the list is short.
    by_path: HashMap<StepPath, usize>,
    /// Number of calls without a result.
    left: usize,
    /// `true` if a call to `exit_loop` ended the enclosing loop.
    exits: bool,
}

#[derive(Clone, Debug)]
struct CallState {
    path: StepPath,
    call: Arc<ToolCall>,
    progress: Progress,
}

#[derive(Clone, Debug)]
enum Progress {
    Waiting,
    Started {
        effects: Effects,
        idempotent: bool,
        /// `true` if the call waits for a person's answer and executes nothing.
        asks: bool,
    },
    Done(Arc<ToolResult>),
    /// The call was stopped and may be repeated. Its result reports an unknown outcome.
    Stopped {
        effects: Effects,
        idempotent: bool,
        asks: bool,
        result: Arc<ToolResult>,
    },
}

impl Calls {
    /// Creates the states of a message's calls. `last` is the name of the last called tool, which
    /// paths share.
    pub(super) fn of(
        message: &Message,
        base: &StepPath,
        turn: u32,
        last: &mut Option<Arc<str>>,
    ) -> Self {
        let mut state = |call: &Arc<ToolCall>, repeat: u32| {
            let name = match last {
                Some(last) if **last == *call.name => Arc::clone(last),
                _ => Arc::clone(last.insert(call.name.as_str().into())),
            };
            let path = base.tool(turn, name, repeat);
            CallState { path, call: Arc::clone(call), progress: Progress::Waiting }
        };
        let calls = message.tool_calls().count();
        let mut list = Vec::with_capacity(calls);
        if calls <= SHORT {
            for (at, call) in message.tool_calls().enumerate() {
                let repeats =
                    message.tool_calls().take(at).filter(|before| before.name == call.name).count();
                list.push(state(call, u32::try_from(repeats).unwrap_or(u32::MAX)));
            }
            return Self { left: calls, list, by_path: HashMap::new(), exits: false };
        }
        let mut repeats: HashMap<&str, u32> = HashMap::new();
        for call in message.tool_calls() {
            let repeat = repeats
                .entry(&call.name)
                .and_modify(|repeat| *repeat = repeat.saturating_add(1))
                .or_default();
            list.push(state(call, *repeat));
        }
        let by_path = list.iter().enumerate().map(|(at, state)| (state.path.clone(), at)).collect();
        Self { left: calls, list, by_path, exits: false }
    }

    fn find(&self, path: &StepPath) -> Option<usize> {
        match self.list.len() <= SHORT {
            true => self.list.iter().position(|state| state.path == *path),
            false => self.by_path.get(path).copied(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn started(&mut self, path: &StepPath, effects: Effects, idempotent: bool) {
        if let Some(at) = self.find(path) {
            self.set(at, Progress::Started { effects, idempotent, asks: false });
        }
    }

    /// Records that a started call waits for an answer, or continues after it.
    pub(super) fn asks(&mut self, path: &StepPath, now: bool) {
        if let Some(at) = self.find(path)
            && let Progress::Started { asks, .. } = &mut self.list[at].progress
        {
            *asks = now;
        }
    }

    /// `true` if a call waits for an answer.
    pub(super) fn is_asking(&self, path: &StepPath) -> bool {
        let found = self.find(path).map(|at| &self.list[at].progress);
        matches!(found, Some(Progress::Started { asks: true, .. }))
    }

    pub(super) fn ended(&mut self, path: &StepPath, result: &Arc<ToolResult>) {
        let Some(at) = self.find(path) else { return };
        let result = Arc::clone(result);
        let progress = match self.list[at].progress {
            // A result that is not an outcome, such as a cancellation, leaves a repeatable call open
            // for another attempt.
            Progress::Started { effects, idempotent, asks }
                if !result.status.is_outcome()
                    && (idempotent || effects != Effects::Write || asks) =>
            {
                Progress::Stopped { effects, idempotent, asks, result }
            }
            _ => Progress::Done(result),
        };
        self.set(at, progress);
    }

    /// Records that a call to `exit_loop` ended the enclosing loop.
    pub(super) fn exit(&mut self) {
        self.exits = true;
    }

    /// `true` if a call to `exit_loop` ended the enclosing loop.
    pub(super) fn exits(&self) -> bool {
        self.exits
    }

    /// `true` if a call was stopped and may be repeated.
    pub(super) fn was_stopped(&self) -> bool {
        self.list.iter().any(|state| matches!(state.progress, Progress::Stopped { .. }))
    }

    /// Removes the results of stopped calls, so that they are executed again.
    pub(super) fn reopen(&mut self) {
        for at in 0..self.list.len() {
            if let Progress::Stopped { effects, idempotent, asks, .. } = self.list[at].progress {
                self.set(at, Progress::Started { effects, idempotent, asks });
            }
        }
    }

    fn set(&mut self, at: usize, progress: Progress) {
        let had_result = self.list[at].progress.is_done();
        let has_result = progress.is_done();
        self.list[at].progress = progress;
        self.left = self.left + usize::from(had_result) - usize::from(has_result);
    }

    pub(super) fn all_ended(&self) -> bool {
        self.left == 0
    }

    /// Returns the calls without a result. Only the first `limit` calls of the turn may be
    /// executed.
    ///
    /// In a team, only the first handoff of the turn is executed.
    pub(super) fn pending(&self, limit: usize, of_team: bool) -> Vec<PendingTool> {
        let calls = self.list.len();
        let first_transfer =
            of_team.then(|| self.list.iter().position(CallState::is_transfer)).flatten();
        let pending = |(at, state): (usize, &CallState)| {
            let refused = match state.progress {
                Progress::Done(_) | Progress::Stopped { .. } => return None,
                Progress::Started { effects: Effects::Write, idempotent: false, asks: false } => {
                    Some(Refused::Interrupted)
                }
                // It was within the limit when it was started, and it may have had its effect: it
                // must be repeated to learn the outcome.
                Progress::Started { effects: Effects::Write, .. } => None,
                Progress::Waiting
                    if first_transfer.is_some_and(|first| first < at) && state.is_transfer() =>
                {
                    Some(Refused::SecondTransfer)
                }
                Progress::Waiting | Progress::Started { .. } => {
                    (at >= limit).then_some(Refused::Surplus { calls, limit })
                }
            };
            Some(PendingTool { path: state.path.clone(), call: Arc::clone(&state.call), refused })
        };
        self.list.iter().enumerate().filter_map(pending).collect()
    }

    /// Returns the agent that the first successful handoff names.
    pub(super) fn transfer(&self) -> Option<String> {
        let made = self.list.iter().find(|state| {
            state.is_transfer()
                && matches!(&state.progress, Progress::Done(result) if result.status.is_success())
        });
        made.and_then(|state| target_of(&state.call.arguments))
    }

    /// Returns the paths of the calls, in order.
    pub(super) fn into_paths(self) -> impl Iterator<Item = StepPath> {
        self.list.into_iter().map(|state| state.path)
    }

    /// Returns the calls that were started and have no result.
    pub(super) fn open(&self) -> Vec<OpenStep> {
        let started =
            self.list.iter().filter(|state| matches!(state.progress, Progress::Started { .. }));
        started
            .map(|state| OpenStep::Tool { path: state.path.clone(), call: Arc::clone(&state.call) })
            .collect()
    }

    /// Returns the results in the order of the calls. A call without a result gets a placeholder
    /// result.
    pub(super) fn into_results(self) -> impl Iterator<Item = Arc<ToolResult>> {
        self.list.into_iter().map(|CallState { call, progress, .. }| match progress {
            Progress::Done(result) | Progress::Stopped { result, .. } => result,
            Progress::Started { effects, .. } => Arc::new(interrupted(&call, effects)),
            Progress::Waiting => Arc::new(closed(
                &call,
                ToolStatus::Cancelled,
                "the run ended before this tool was started; it had no effect",
            )),
        })
    }
}

impl AgentMachine {
    /// Returns the steps that were started and have not ended: a model call, or tool calls.
    pub(crate) fn open_steps(&self) -> Vec<OpenStep> {
        match &self.phase {
            Phase::Model { called: Some(_) } => {
                vec![OpenStep::Model { path: self.base.model(self.turn) }]
            }
            Phase::Tools(calls) => calls.open(),
            _ => Vec::new(),
        }
    }

    /// `true` if a tool call waits for an answer.
    pub(crate) fn asks(&self, call: &StepPath) -> bool {
        matches!(&self.phase, Phase::Tools(calls) if calls.is_asking(call))
    }
}

impl CallState {
    fn is_transfer(&self) -> bool {
        self.call.name == TRANSFER_TOOL
    }
}

impl Progress {
    fn is_done(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Stopped { .. })
    }
}

impl PendingTool {
    /// Returns the result of a call that must not be executed.
    pub(crate) fn refusal(&self) -> Option<ToolResult> {
        self.refused.map(|refused| match refused {
            // Only calls with side effects are refused for this reason.
            Refused::Interrupted => interrupted(&self.call, Effects::Write),
            Refused::Surplus { calls, limit } => over_limit_result(&self.call, calls, limit),
            Refused::SecondTransfer => second_transfer(&self.call),
        })
    }
}
