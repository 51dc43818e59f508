//! The agent loop as a pure state machine: recorded events in, next command out.
//!
//! It does no I/O, reads no clock, uses no randomness and is not async, so the same events give the
//! same command. Live and resumed runs use the same code: the driver applies each event after it
//! was recorded, and a resumed run first replays its journal.
//!
//! [`AgentMachine::apply`] changes the state, [`AgentMachine::command`] returns the next command.
//! `calls` holds the tool calls of the turn, `agent_answer` decides which message is the answer,
//! `handoffs` the agent that continues, `later_messages` the messages sent to an unfinished run.

mod agent_answer;
mod calls;
mod handoffs;
mod later_messages;

use std::sync::Arc;

use self::agent_answer::Answer;
use self::calls::Calls;
use self::handoffs::HandoffState;
pub(super) use self::handoffs::Transfer;
use self::later_messages::MessageInbox;
use super::limits::Limits;
use super::typed_output::{OutputRule, repair_text};
use crate::error::Error;
use crate::event::{
    ANSWER_TOOL, AgentCompleted, AgentStarted, AnswerForm, EXIT_TOOL, Event, EventKind,
    RunAdvanced, RunCompleted,
};
use crate::failure::Failure;
use crate::message::{Conversation, Message, ToolCall, ToolResult, ToolStatus};
use crate::middleware::Attempt;
use crate::model::{ModelInfo, Usage};
use crate::path::StepPath;
use crate::state::EXIT;
use crate::tool::Effects;

/// The next action of the driver.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Call the model with the current conversation.
    CallModel { path: StepPath },
    /// Execute these tool calls. They may run concurrently.
    CallTools(Vec<PendingTool>),
    /// Record that an answer does not match the output type.
    RejectOutput { path: StepPath, problem: Arc<str> },
    /// Record a handoff of the conversation to another agent of the team.
    Transfer { to: Arc<str> },
    /// Record the end of a turn.
    EndStep { step: u32 },
    /// Record that the messages up to this number are part of the conversation.
    Deliver { number: u32 },
    /// Wait for a message or until the run is closed.
    AwaitMessage,
    /// Record the end of the run.
    Finish(Outcome),
}

/// A tool call without a result.
#[derive(Clone, Debug)]
pub(crate) struct PendingTool {
    pub(crate) path: StepPath,
    pub(crate) call: Arc<ToolCall>,
    /// Reason why the call must not be executed. It then gets an error result.
    pub(crate) refused: Option<Refused>,
}

/// Reason why a tool call must not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The call was started by an earlier process and may have had its effect.
    Interrupted,
    /// The turn has more calls than the agent's limit.
    Surplus { calls: usize, limit: usize },
    /// An earlier call of the turn is a handoff already.
    SecondTransfer,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Completed(Arc<AgentCompleted>),
    /// The model call failed. The driver or the recorded failure has the reason.
    ModelFailed,
    Failed(Error),
    /// The end is recorded already. Contains the recorded outcome, if known.
    Ended(Option<Result<Arc<AgentCompleted>, Arc<Failure>>>),
}

#[derive(Clone, Debug)]
pub(crate) struct AgentMachine {
    /// Step path of the agent: the root for a top-level run.
    base: StepPath,
    limits: Arc<Limits>,
    output: Option<OutputRule>,
    /// Messages for the model: the instructions and the conversation.
    request: Conversation,
    /// `true` if the first message of the request contains the agent's instructions.
    instructed: bool,
    /// `true` if the answer has a type other than text.
    has_type: bool,
    /// `true` in a round of a repetition, which `exit_loop` ends without an answer.
    in_round: bool,
    usage: Usage,
    /// Number of the current turn, starting at 1.
    turn: u32,
    model_calls: u32,
    /// Name of the tool that was called last. Sharing it between paths saves allocations.
    last_called: Option<Arc<str>>,
    /// Failed attempts at the model call of this turn that were followed by another attempt.
    attempts: Vec<Attempt>,
    failures_in_row: u32,
    /// Number of answers that did not match the output type.
    misfits: u32,
    /// Handoff state, if the agent belongs to a team.
    handoffs: Option<Box<HandoffState>>,
    /// Message state, if the run is live or has received a message.
    inbox: Option<Box<MessageInbox>>,
    phase: Phase,
    /// Phase in which the agent failed. A further attempt continues there.
    stopped_in: Option<Box<Phase>>,
    /// The last turn, if its results are in the conversation although one of its calls was stopped
    /// and may be repeated.
    stopped_turn: Option<Box<StoppedTurn>>,
}

/// A turn with a stopped call, and the counters from before the turn's results were added.
#[derive(Clone, Debug)]
struct StoppedTurn {
    calls: Calls,
    failures_in_row: u32,
    misfits: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    NotStarted,
    /// `called` is the model of the running call.
    Model {
        called: Option<ModelInfo>,
    },
    ModelFailed,
    /// Boxed to keep the machine small while it waits for the model.
    Tools(Box<Calls>),
    StepDone {
        answer: Option<Answer>,
    },
    Misfit {
        problem: Arc<str>,
    },
    Answered(Answer),
    Ended(Option<Result<Arc<AgentCompleted>, Arc<Failure>>>),
}

impl AgentMachine {
    pub(crate) fn new(
        base: StepPath,
        limits: impl Into<Arc<Limits>>,
        output: Option<OutputRule>,
    ) -> Self {
        Self {
            base,
            limits: limits.into(),
            output,
            request: Conversation::new(),
            instructed: false,
            has_type: false,
            in_round: false,
            usage: Usage::default(),
            turn: 0,
            model_calls: 0,
            last_called: None,
            attempts: Vec::new(),
            failures_in_row: 0,
            misfits: 0,
            handoffs: None,
            inbox: None,
            phase: Phase::NotStarted,
            stopped_in: None,
            stopped_turn: None,
        }
    }

    /// Replays a top-level run and returns its machine.
    pub(crate) fn replay<'e>(
        limits: Limits,
        output: Option<OutputRule>,
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Self {
        let mut machine = Self::new(StepPath::root(), limits, output);
        for event in events.into_iter().filter(|event| event.is_recorded()) {
            machine.replay_one(&event.path, &event.kind);
        }
        machine
    }

    /// Allows the agent to end without a typed answer, in a round of a repetition that its model
    /// ends.
    pub(super) fn in_round(&mut self, in_round: bool) {
        self.in_round = in_round;
    }

    /// Returns the limits of the run.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the messages for the model: the instructions and the conversation.
    pub(crate) fn request(&self) -> &Conversation {
        &self.request
    }

    /// Returns the conversation without instructions. Another run can continue it.
    pub(crate) fn history(&self) -> Conversation {
        match self.instructed {
            true => self.request.messages().iter().skip(1).map(Arc::clone).collect(),
            false => self.request.clone(),
        }
    }

    /// Detects instructions at the start of the conversation, where journals of earlier releases
    /// have them.
    pub(crate) fn detect_instructions(&mut self, instructions: &Message) {
        self.instructed |=
            self.request.messages().first().is_some_and(|first| **first == *instructions);
    }

    /// Inserts the history of the session between the instructions and the input of the run.
    pub(crate) fn remember(&mut self, history: Vec<Arc<Message>>) {
        if !history.is_empty() {
            let (instructions, asked) =
                self.request.messages().split_at(usize::from(self.instructed));
            self.request =
                instructions.iter().chain(&history).chain(asked).map(Arc::clone).collect();
        }
    }

    pub(crate) fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns the token usage of all answers so far.
    pub(crate) fn usage(&self) -> Usage {
        self.usage.clone()
    }

    /// Returns the failed attempts at the model call of this turn that were followed by another
    /// attempt.
    pub(crate) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// `true` if a model call is recorded as started but not as ended, because the process stopped
    /// during the call.
    pub(crate) fn is_calling(&self) -> bool {
        matches!(self.phase, Phase::Model { called: Some(_) })
    }

    /// Returns the paths of the tool calls of the turn, in the order of the calls.
    pub(crate) fn calls_of_turn(&self) -> impl Iterator<Item = StepPath> {
        // The message with the calls is followed by their results, and perhaps by a repair request.
        let asked = self
            .request
            .messages()
            .iter()
            .rev()
            .take(3)
            .find(|message| message.tool_calls().next().is_some());
        let calls = asked.map(|message| {
            Calls::of(message, &self.base, self.turn, &mut self.last_called.clone())
        });
        calls.into_iter().flat_map(Calls::into_paths)
    }

    /// Applies a recorded event if it belongs to this agent. Events of other steps are ignored.
    pub(crate) fn replay_one(&mut self, path: &StepPath, kind: &EventKind) {
        if path.is_step_of(&self.base) {
            self.apply(path, kind);
        }
    }

    /// Applies an event. An event that does not fit the current phase changes nothing.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        match (kind, &mut self.phase) {
            (EventKind::RunStarted(started), Phase::NotStarted) => {
                if let Some(agent) = started.agent() {
                    self.begin(agent);
                }
            }
            (EventKind::AgentStarted(agent), Phase::NotStarted) => self.begin(agent),
            // A further attempt at the agent's step continues it.
            (EventKind::AgentStarted(_), Phase::Ended(Some(Err(_)))) if *path == self.base => {
                self.continues();
            }
            // Earlier releases called the model once more after `exit_loop`.
            (EventKind::ModelStarted { .. }, Phase::Answered(answer)) if answer.exits => {
                self.begin_turn();
                self.apply(path, kind);
            }
            (EventKind::ModelStarted { provider, model }, Phase::Model { called }) => {
                *called = Some(ModelInfo::new(Arc::clone(provider), Arc::clone(model)));
                self.model_calls = self.model_calls.saturating_add(1);
            }
            (EventKind::ModelRetrying { error, .. }, Phase::Model { called }) => {
                if let Some(info) = called.take() {
                    self.attempts.push(Attempt { info, error: Arc::clone(error) });
                }
            }
            (EventKind::ModelFailed { .. }, Phase::Model { .. }) => self.phase = Phase::ModelFailed,
            (EventKind::ModelCompleted(response), Phase::Model { .. }) => {
                self.usage.add(&response.usage);
                // An answer of middleware is not a model call, so the call counted at its start is
                // removed.
                if response.answered_by.is_some() {
                    self.model_calls = self.model_calls.saturating_sub(1);
                }
                self.request.push(Arc::clone(&response.message));
                let calls =
                    Calls::of(&response.message, &self.base, self.turn, &mut self.last_called);
                self.phase = if calls.is_empty() {
                    self.take_text(response)
                } else {
                    Phase::Tools(Box::new(calls))
                };
            }
            (
                EventKind::OutputRejected { problem },
                Phase::Misfit { .. } | Phase::StepDone { answer: Some(_) },
            ) => {
                self.misfits += 1;
                self.request.push(Message::user(repair_text(problem)));
                self.phase = Phase::StepDone { answer: None };
            }
            (EventKind::ToolStarted { effects, idempotent, .. }, Phase::Tools(calls)) => {
                calls.started(path, *effects, *idempotent);
            }
            (EventKind::ToolWaiting(_), Phase::Tools(calls)) => calls.asks(path, true),
            (EventKind::ToolContinued { .. }, Phase::Tools(calls)) => calls.asks(path, false),
            (
                EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. },
                Phase::Tools(calls),
            ) => {
                calls.ended(path, result);
                // A tool of the application may end the loop too. In that case the model still
                // answers.
                if result.name == EXIT_TOOL
                    && kind.saved().is_some_and(|saved| matches!(saved.get(EXIT), Some(Some(_))))
                {
                    calls.exit();
                }
                if calls.all_ended() {
                    self.end_tool_calls();
                }
            }
            // A snapshot omits the turn that the handoff ended, so the machine is before a model
            // call there.
            (
                EventKind::AgentHandoff(transfer),
                Phase::StepDone { .. } | Phase::Model { called: None },
            ) if *path == self.base => {
                self.transfer(transfer);
            }
            (EventKind::RunStep { .. }, Phase::StepDone { answer }) => match answer.take() {
                Some(answer) => self.phase = Phase::Answered(answer),
                None => self.begin_turn(),
            },
            // An earlier release ended the turn in which an agent had failed before it continued.
            (EventKind::RunStep { step }, Phase::Tools(_))
                if *path == self.base && *step == self.turn =>
            {
                self.end_tool_calls();
                self.begin_turn();
            }
            // An operator allows another attempt at a call that had failed for good.
            (EventKind::NodeReset { .. }, Phase::ModelFailed | Phase::Ended(Some(Err(_))))
                if *path == self.base.model(self.turn) =>
            {
                self.attempts.clear();
                (self.phase, self.stopped_in) = (Phase::Model { called: None }, None);
            }
            (EventKind::RunAdvanced(advanced), _) if *path == self.base => self.advance(advanced),
            (EventKind::RunCompleted(completed), _) => {
                let answer = match &**completed {
                    RunCompleted::Agent(answer) => Some(Ok(Arc::clone(answer))),
                    RunCompleted::Workflow(_) => None,
                };
                self.end(answer);
            }
            (EventKind::AgentCompleted(answer), _) if *path == self.base => {
                self.end(Some(Ok(Arc::clone(answer))));
            }
            (EventKind::RunFailed { error }, _) => self.end(Some(Err(Arc::clone(error)))),
            (EventKind::AgentFailed { error }, _) if *path == self.base => {
                self.end(Some(Err(Arc::clone(error))));
            }
            (EventKind::RunCancelled { .. }, _) => self.end(None),
            (EventKind::MessageReceived { number, message, .. }, _) => {
                self.receive(*number, message);
            }
            (EventKind::MessageDelivered { number }, _) => self.deliver(*number),
            (EventKind::RunClosed { .. }, _) => self.inbox().closed = true,
            _ => {}
        }
    }

    fn begin(&mut self, started: &AgentStarted) {
        self.request = started.request();
        self.instructed = started.instructions.is_some();
        self.has_type = started.answer != AnswerForm::Text;
        if started.terms.live.is_some() && self.base.is_root() {
            self.inbox().live = true;
        }
        self.begin_turn();
    }

    /// Applies a snapshot that replaces all turns up to this one.
    fn advance(&mut self, advanced: &RunAdvanced) {
        let RunAdvanced { step, messages, usage, model_calls, failures_in_row, misfits, .. } =
            advanced;
        messages.messages().iter().for_each(|message| self.request.push(Arc::clone(message)));
        (self.turn, self.usage, self.model_calls) = (*step, usage.clone(), *model_calls);
        (self.failures_in_row, self.misfits, self.stopped_in) = (*failures_in_row, *misfits, None);
        self.advance_inbox(advanced.delivered, advanced.answered);
        self.begin_turn();
    }

    /// Returns the state for a snapshot, after a turn and before the next model call; `None` at any
    /// other time. `known` is the number of messages in the start event, without instructions.
    /// Fields that need the journal keep their defaults.
    pub(super) fn advanced(&self, known: usize) -> Option<RunAdvanced> {
        let between = matches!(self.phase, Phase::Model { called: None })
            && self.attempts.is_empty()
            && self.turn > 1;
        between.then(|| RunAdvanced {
            step: self.turn - 1,
            messages: self.history().messages().iter().skip(known).map(Arc::clone).collect(),
            usage: self.usage.clone(),
            model_calls: self.model_calls,
            failures_in_row: self.failures_in_row,
            misfits: self.misfits,
            spent_ms: 0,
            tokens: 0,
            last_tokens: 0,
            longest_answer: 0,
            saved: None,
            delivered: self.delivered().0,
            answered: self.delivered().1,
        })
    }

    /// Continues after a failure: executes the calls of the turn that have no result, or calls the
    /// model again.
    fn continues(&mut self) {
        self.phase = match self.stopped_in.take().map(|phase| *phase) {
            Some(Phase::Tools(mut calls)) => {
                calls.reopen();
                Phase::Tools(calls)
            }
            Some(phase) => phase,
            None => Phase::StepDone { answer: None },
        };
    }

    fn end(&mut self, outcome: Option<Result<Arc<AgentCompleted>, Arc<Failure>>>) {
        let is_failure = matches!(outcome, Some(Err(_)));
        // A failed agent may continue and then executes the calls that had not started.
        if !is_failure {
            self.end_tool_calls();
        }
        // A hook answered before the first turn, so the answer is not in the conversation yet.
        if let Some(Ok(completed)) = &outcome
            && completed.steps == 0
        {
            self.request.push(Arc::clone(&completed.message));
        }
        let phase = match self.stopped_turn.take().filter(|_| is_failure) {
            // The turn had ended, but one of its calls only because an enclosing step stopped.
            // Restore the state from before its end.
            Some(turn) => {
                let StoppedTurn { calls, failures_in_row, misfits } = *turn;
                (self.failures_in_row, self.misfits) = (failures_in_row, misfits);
                let messages = self.request.messages();
                self.request = messages
                    .iter()
                    .take(messages.len().saturating_sub(1))
                    .map(Arc::clone)
                    .collect();
                self.phase = Phase::Ended(outcome);
                Phase::Tools(Box::new(calls))
            }
            None => match std::mem::replace(&mut self.phase, Phase::Ended(outcome)) {
                Phase::Tools(calls) => Phase::Tools(calls),
                // The next attempt calls the model in a new turn.
                _ => Phase::StepDone { answer: None },
            },
        };
        self.stopped_in = is_failure.then(|| Box::new(phase));
    }

    fn begin_turn(&mut self) {
        self.turn += 1;
        self.stopped_turn = None;
        self.attempts.clear();
        self.phase = Phase::Model { called: None };
    }

    /// Adds the results of the turn to the conversation, in the order of the calls. A call without
    /// a result gets a placeholder result.
    fn end_tool_calls(&mut self) {
        if !matches!(self.phase, Phase::Tools(_)) {
            return;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::StepDone { answer: None });
        let Phase::Tools(calls) = phase else { return };
        if let Some(handoffs) = &mut self.handoffs {
            handoffs.wanted = calls.transfer().map(Into::into);
        }
        let exits = calls.exits();
        if calls.was_stopped() {
            let (failures_in_row, misfits) = (self.failures_in_row, self.misfits);
            self.stopped_turn = Some(Box::new(StoppedTurn {
                calls: Calls::clone(&calls),
                failures_in_row,
                misfits,
            }));
        }
        let message = Message::tool_results(calls.into_results());
        for result in message.results() {
            match result.status {
                // The model could not know the limit, so this is not counted as a failure. If it
                // does not learn, the turn limit applies.
                ToolStatus::TooManyCalls => {}
                ToolStatus::Success => self.failures_in_row = 0,
                _ => self.failures_in_row += 1,
            }
        }
        let by_tool = self.output.as_ref().is_some_and(|rule| rule.by_tool);
        let given = message.results().find(|result| by_tool && result.name == ANSWER_TOOL);
        let answer = match given.map(|result| result.status) {
            Some(ToolStatus::Success) => {
                self.request.messages().last().map(|asked| Answer::by_call(asked, false))
            }
            Some(status) => {
                self.misfits += u32::from(status != ToolStatus::TooManyCalls);
                None
            }
            None if exits => self.answer_of_exit(),
            None => None,
        };
        // A turn that gives the final answer cannot hand off.
        if let (Some(_), Some(handoffs)) = (&answer, &mut self.handoffs) {
            handoffs.wanted = None;
        }
        self.phase = Phase::StepDone { answer };
        self.request.push(message);
    }

    /// Returns the next command for the current state.
    pub(crate) fn command(&self) -> Command {
        match &self.phase {
            Phase::NotStarted => Command::Finish(Outcome::Ended(None)),
            Phase::Ended(outcome) => Command::Finish(Outcome::Ended(outcome.clone())),
            Phase::Model { called } => {
                self.deliver_command().unwrap_or_else(|| self.call_model(called.is_some()))
            }
            Phase::ModelFailed => Command::Finish(Outcome::ModelFailed),
            Phase::Tools(calls) => {
                let limit = self.limits.max_tool_calls_per_turn.max(1);
                Command::CallTools(calls.pending(limit, self.handoffs.is_some()))
            }
            Phase::StepDone { .. } => {
                self.handoff_command().unwrap_or(Command::EndStep { step: self.turn })
            }
            Phase::Misfit { problem } => Command::RejectOutput {
                path: self.base.model(self.turn),
                problem: Arc::clone(problem),
            },
            Phase::Answered(answer) => {
                self.deliver_command().unwrap_or_else(|| self.after_answer(answer))
            }
        }
    }

    fn call_model(&self, again: bool) -> Command {
        let limits = &self.limits;
        if self.failures_in_row >= limits.max_tool_failures.max(1)
            && let Some(last) = self.request.last()
            && let Some(result) =
                last.results().filter(|result| result.status != ToolStatus::TooManyCalls).last()
        {
            return Command::Finish(Outcome::Failed(Error::ToolFailures {
                failures: self.failures_in_row,
                tool: result.name.clone(),
                status: result.status,
                message: result.output.clone(),
            }));
        }
        // The last message is the result of the answer tool or the repair request. Both contain the
        // problem.
        if self.misfits > limits.output_retries {
            let problem = self.request.last().map(|message| match message.results().last() {
                Some(result) => result.output.clone(),
                None => message.text().into_owned(),
            });
            return Command::Finish(Outcome::Failed(Error::InvalidOutput {
                attempts: self.misfits,
                problem: problem.unwrap_or_default(),
            }));
        }
        if self.turns_of_answer() > limits.max_steps {
            return Command::Finish(Outcome::Failed(Error::MaxStepsReached {
                steps: limits.max_steps,
            }));
        }
        // Repeating an interrupted call does not count again: it was counted when it was recorded
        // as started.
        if !again && self.model_calls >= limits.max_llm_calls {
            return Command::Finish(Outcome::Failed(Error::LlmCallLimit {
                calls: limits.max_llm_calls,
            }));
        }
        Command::CallModel { path: self.base.model(self.turn) }
    }
}

/// A step that has started and not ended.
#[derive(Clone, Debug)]
pub(crate) enum OpenStep {
    Model { path: StepPath },
    Tool { path: StepPath, call: Arc<ToolCall> },
}

/// Returns the result of a call that was running when its process stopped.
pub(crate) fn interrupted(call: &ToolCall, effects: Effects) -> ToolResult {
    let then = match effects {
        Effects::Write => "find out before you call it again",
        Effects::None | Effects::Read => "call it again if you still need it",
    };
    let known = effects.describe_interrupted();
    let output = format!("the program stopped while this tool was running; {known}: {then}");
    closed(call, ToolStatus::Interrupted, &output)
}

/// Returns the result of a call over the limit of its turn.
fn over_limit_result(call: &ToolCall, calls: usize, limit: usize) -> ToolResult {
    let output = format!(
        "you asked for {calls} tool calls at once, and only the first {limit} were made; this one was not, so make it in \
         a later turn if you still need it"
    );
    closed(call, ToolStatus::TooManyCalls, &output)
}

/// Returns the result of a call that was not executed or not finished by its tool.
pub(crate) fn closed(call: &ToolCall, status: ToolStatus, output: &str) -> ToolResult {
    ToolResult::new(call, status, output)
}

impl Conversation {
    /// Rebuilds the conversation of a run from its recorded events. The result is valid for every
    /// prefix of a journal: a call without a result gets a placeholder result. The instructions of
    /// the agent are not included.
    ///
    /// Journals of earlier releases contain the instructions as the first message. A run of an
    /// agent with the same instructions skips that message.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut machine = AgentMachine::replay(Limits::default(), None, events);
        if let Some(stopped_in) = machine.stopped_in.take() {
            machine.phase = *stopped_in;
        }
        machine.end_tool_calls();
        machine.conversation()
    }
}

#[cfg(test)]
mod tests;
