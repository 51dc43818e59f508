//! Tool calls of a turn that need a person's approval or answer. Each becomes a question; the other
//! calls of the turn are executed meanwhile.
//!
//! `tool/call_approval.rs` implements the question, `tool_calls.rs` executes the calls.

use std::collections::VecDeque;
use std::sync::Arc;

use super::driver::Run;
use super::machine::{PendingTool, closed};
use super::tool_calls::{Call, Stage};
use crate::error::Result;
use crate::event::{ANSWER_TOOL, EventKind};
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::on_timeout::OnTimeout;
use crate::run::Approval;
use crate::tool::{
    CallQuestion, QuestionAnswer, RecordedOutcome, ReplacedKind, StandIn, ToolError, began, ended,
    fitting, is_granted, scope_refusal, warn_unanswerable,
};

/// A call that may start.
pub(super) struct AdmittedCall {
    pub(super) tool: PendingTool,
    /// `true` if a person approved the call.
    pub(super) agreed: bool,
    /// The model's original arguments, if the approver changed them.
    pub(super) given: Option<Arc<str>>,
}

/// The result of the approval stage of a call.
pub(super) enum Word {
    Answer(QuestionAnswer),
    /// The person's answer is the result of the call.
    Given(QuestionAnswer),
    /// The arguments do not match the tool's schema, so no question was sent.
    Misfit(ToolError),
}

/// Calls of a turn that have not started, and the number of calls that wait for a person.
pub(super) struct CallQueue {
    waiting: std::vec::IntoIter<PendingTool>,
    agreed: VecDeque<AdmittedCall>,
    pub(super) asking: usize,
}

impl CallQueue {
    pub(super) fn new(tools: Vec<PendingTool>) -> Self {
        Self { waiting: tools.into_iter(), agreed: VecDeque::new(), asking: 0 }
    }

    /// Returns the next call. Approved calls come first.
    pub(super) fn next(&mut self) -> Option<AdmittedCall> {
        let waiting = &mut self.waiting;
        let next = || waiting.next().map(|tool| AdmittedCall { tool, agreed: false, given: None });
        self.agreed.pop_front().or_else(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.agreed.is_empty() && self.waiting.len() == 0
    }

    pub(super) fn agree(&mut self, call: AdmittedCall) {
        self.agreed.push_back(call);
    }
}

impl Run {
    /// Returns a future for the answer if the call needs a person, or `None` if it can start. In a
    /// run without a store no one could find the question, so it is not asked and the call is
    /// refused later.
    pub(super) fn asks(&self, admitted: &AdmittedCall) -> Option<Result<Call>> {
        let tool = &admitted.tool;
        if !self.offered.asks
            || admitted.agreed
            || tool.refused.is_some()
            || !self.segment.shared.log.is_durable()
        {
            return None;
        }
        let offered = self.offered.tools.get(&*tool.call.name)?;
        let definition = offered.definition();
        let answers = || self.plan.output.as_ref().is_some_and(|output| output.rule.by_tool);
        if !(definition.policy.approve || offered.asks())
            || (tool.call.name == ANSWER_TOOL && answers())
        {
            return None;
        }
        if scope_refusal(definition, &self.scopes, &definition.name).is_some() {
            return None;
        }
        match offered.asks() {
            // A test that replaces the tool answers the call itself.
            true if StandIn::of(&self.plan.host, ReplacedKind::Tool, &definition.name)
                .is_some() =>
            {
                return None;
            }
            true => {}
            // The approval was granted before the run started.
            false if is_granted(definition, &self.scopes) => return None,
            false => {}
        }
        // Check the arguments first: a person is not asked about a call that cannot be executed.
        let arguments = match fitting(definition, &tool.call.arguments) {
            Ok(arguments) => arguments,
            Err(misfit) => return Some(Ok(said(tool.clone(), Word::Misfit(misfit)))),
        };
        let asked = match offered.asks() {
            false => None,
            true => match offered.question(&tool.call.arguments) {
                Ok(question) => Some(question),
                Err(problem) => return Some(Ok(said(tool.clone(), Word::Misfit(problem)))),
            },
        };
        let word = if asked.is_some() { Word::Given } else { Word::Answer };
        let shared = self.shared();
        // After a restart the journal may contain the question, and perhaps its answer. It is asked
        // at most once.
        let recorded = shared.log.records_below(&tool.path);
        let mut of_call = recorded
            .into_iter()
            .filter(|(_, path, _)| *path == tool.path)
            .map(|(.., kind)| kind)
            .rev();
        let last = of_call.find(|kind| {
            matches!(kind, EventKind::ApprovalRequested(_) | EventKind::ApprovalResolved { .. })
        });
        let question = match last {
            Some(EventKind::ApprovalResolved { answer, by }) => {
                let question = of_call.find_map(|kind| match kind {
                    EventKind::ApprovalRequested(question) => Some(question),
                    _ => None,
                });
                let answer = QuestionAnswer::recorded(question.as_deref(), &answer, &by);
                return Some(Ok(said(tool.clone(), word(answer))));
            }
            Some(_) => Ok(CallQuestion::of_recorded(shared, tool.path.clone())),
            None => match asked {
                Some(question) => CallQuestion::of_user(shared, tool.path.clone(), question),
                None => CallQuestion::ask(shared, tool.path.clone(), definition, &arguments, None),
            },
        };
        let question = match question {
            Ok(question) => question,
            Err(error) => {
                return Some(Err(crate::error::Error::value(definition.catalogue_name(), &error)));
            }
        };
        let tool = tool.clone();
        Some(Ok(Box::pin(async move {
            Ok(Stage::Answered(Box::new((tool, word(question.answer().await?)))))
        })))
    }

    /// Logs a warning for each tool that needs approval, if the run has no store: its calls will be
    /// refused.
    pub(super) fn warn_unanswerable(&self) {
        if self.offered.asks {
            let tools = self.offered.tools.values();
            warn_unanswerable(&self.plan.name, &self.segment.shared.id, tools, &self.scopes);
        }
    }

    /// Returns the call if it may start. Otherwise records its result and returns `None`.
    pub(super) fn answered(&mut self, tool: PendingTool, word: Word) -> Option<AdmittedCall> {
        let answer = match word {
            Word::Answer(answer) => answer,
            Word::Given(answer) => {
                let result = answer_result(&tool.call, &answer);
                self.end_unbegun(tool, result);
                return None;
            }
            Word::Misfit(misfit) => {
                let result = ToolResult::new(&tool.call, misfit.status(), misfit.to_string());
                self.end_unbegun(tool, result);
                return None;
            }
        };
        match answer.approval {
            Approval::Granted { arguments: None, .. } => {
                Some(AdmittedCall { tool, agreed: true, given: None })
            }
            // The changed arguments are executed; the model's own are recorded with the call.
            Approval::Granted { arguments: Some(arguments), .. } => {
                let given = Some(tool.call.arguments.as_str().into());
                let call =
                    ToolCall { arguments: arguments.to_string(), ..ToolCall::clone(&tool.call) };
                Some(AdmittedCall {
                    tool: PendingTool { call: Arc::new(call), ..tool },
                    agreed: true,
                    given,
                })
            }
            Approval::Denied { comment } => {
                let comment = comment.filter(|comment| !comment.is_empty());
                let why = comment.map_or_else(String::new, |comment| format!(": {comment}"));
                let (status, said) = match answer.late {
                    None => (ToolStatus::Unauthorized, "did not agree"),
                    Some(OnTimeout::Fail) => (ToolStatus::Timeout, "did not answer in time"),
                    Some(_) => {
                        (ToolStatus::Unauthorized, "did not answer in time, so it is not made")
                    }
                };
                let said = format!("a person was asked about this call and {said}{why}");
                let result = closed(&tool.call, status, &said);
                self.end_unbegun(tool, result);
                None
            }
        }
    }

    /// Records the result of a call that is not executed.
    fn end_unbegun(&mut self, tool: PendingTool, result: ToolResult) {
        self.record(tool.path.clone(), began(Arc::clone(&tool.call), None, None));
        self.record(tool.path, ended(RecordedOutcome::new(Arc::new(result)), 0));
    }
}

/// Returns the result of a call that a person, or the time-out, answered.
fn answer_result(call: &ToolCall, answer: &QuestionAnswer) -> ToolResult {
    let late = match answer.late {
        None | Some(OnTimeout::Answer(_)) => {
            return ToolResult::new(call, ToolStatus::Success, answer.given.as_str());
        }
        Some(OnTimeout::Fail) => ToolStatus::Timeout,
        Some(_) => ToolStatus::Unauthorized,
    };
    ToolResult::new(
        call,
        late,
        "the user did not answer in time; decide without the answer, or tell the user what you need",
    )
}

/// Returns a completed stage for a call whose result is known.
fn said(tool: PendingTool, word: Word) -> Call {
    Box::pin(std::future::ready(Ok(Stage::Answered(Box::new((tool, word))))))
}
