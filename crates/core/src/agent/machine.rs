//! The agent loop as a pure machine: recorded events go in, the next command comes out.
//!
//! It does no I/O, reads no clock, draws no random number and is not async: the same events give the same command.
//! The same code serves a live run and a resumed one.

mod agent_answer;
mod calls;
mod handoffs;
mod later_messages;

use std::sync::Arc;

use self::agent_answer::Answer;
use self::calls::Calls;
use self::handoffs::Handoffs;
pub(super) use self::handoffs::Transfer;
use self::later_messages::Inbox;
use super::limits::Limits;
use super::typed_output::{OutputRule, repair_text};
use crate::error::Error;
use crate::event::{
    ANSWER_TOOL, AgentCompleted, AgentStarted, AnswerForm, EXIT_TOOL, Event, EventKind, RunAdvanced, RunCompleted,
};
use crate::failure::Failure;
use crate::message::{Conversation, Message, ToolCall, ToolResult, ToolStatus};
use crate::middleware::Attempt;
use crate::model::{ModelInfo, Usage};
use crate::path::StepPath;
use crate::state::EXIT;
use crate::tool::Effects;

/// What is to be done next.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Call the model with the conversation as it is.
    CallModel { path: StepPath },
    /// Call these tools, at the same time if you like.
    CallTools(Vec<PendingTool>),
    /// Record that an answer does not fit the output type.
    RejectOutput { path: StepPath, problem: Arc<str> },
    /// Record that the conversation is transferred to another agent of the team.
    Transfer { to: Arc<str> },
    /// Record that a turn is over.
    EndStep { step: u32 },
    /// Record that the messages up to a number are part of the conversation.
    Deliver { number: u32 },
    /// Wait for a message, or until the run is closed.
    AwaitMessage,
    /// Record how the run ends.
    Finish(Outcome),
}

/// A tool call without a result.
#[derive(Clone, Debug)]
pub(crate) struct PendingTool {
    pub(crate) path: StepPath,
    pub(crate) call: Arc<ToolCall>,
    /// Why it must not run; then it gets a result that says so.
    pub(crate) refused: Option<Refused>,
}

/// Why a tool call must not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was started before and may have had its effect.
    Interrupted,
    /// The turn has more calls than the agent's limit.
    Surplus { calls: usize, limit: usize },
    /// The conversation is transferred by another call of the turn.
    SecondTransfer,
}

/// How a run ends.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Completed(Arc<AgentCompleted>),
    /// The model call failed; the driver, or the recorded failure, knows why.
    ModelFailed,
    Failed(Error),
    /// The run has ended before, so nothing is recorded. Holds its outcome where that is known.
    Ended(Option<Result<Arc<AgentCompleted>, Arc<Failure>>>),
}

#[derive(Clone, Debug)]
pub(crate) struct AgentMachine {
    /// Where the agent's steps are: the root for a run of its own.
    base: StepPath,
    limits: Arc<Limits>,
    output: Option<OutputRule>,
    /// What the model is given: the instructions and the conversation.
    request: Conversation,
    /// Whether the first message of the request is the agent's instructions.
    instructed: bool,
    /// Whether its answers have a type.
    has_type: bool,
    /// `true` in a round of a repetition, which `exit_loop` ends without an answer.
    in_round: bool,
    usage: Usage,
    /// The current turn, from 1.
    turn: u32,
    model_calls: u32,
    /// The name of the tool that was called last: most calls are of one that was called before.
    last_called: Option<Arc<str>>,
    /// The attempts at the model call of this turn that failed and were followed by another.
    attempts: Vec<Attempt>,
    failures_in_row: u32,
    /// Answers that did not fit the output type.
    misfits: u32,
    /// Of a team.
    handoffs: Option<Box<Handoffs>>,
    /// Of a live run, or one that was sent a message.
    inbox: Option<Box<Inbox>>,
    phase: Phase,
    /// Where it was when it failed.
    stopped_in: Option<Box<Phase>>,
    /// The turn whose results are in the conversation, when one of its calls was stopped that may be repeated.
    stopped_turn: Option<Box<StoppedTurn>>,
}

/// A turn of which a call was stopped, with what the end of the turn counted.
#[derive(Clone, Debug)]
struct StoppedTurn {
    calls: Calls,
    failures_in_row: u32,
    misfits: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    NotStarted,
    /// With the model that is being asked.
    Model {
        called: Option<ModelInfo>,
    },
    ModelFailed,
    /// Boxed, so that a run that waits for its model does not hold the room of it.
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
    pub(crate) fn new(base: StepPath, limits: impl Into<Arc<Limits>>, output: Option<OutputRule>) -> Self {
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

    /// The machine of a run of its own as it was after these events.
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

    /// Lets the agent end without an answer with a type, in a round of a repetition that its model ends.
    pub(super) fn in_round(&mut self, in_round: bool) {
        self.in_round = in_round;
    }

    /// The bounds of the run.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the model is given: the instructions and the conversation.
    pub(crate) fn request(&self) -> &Conversation {
        &self.request
    }

    /// The conversation, which another run can continue.
    pub(crate) fn history(&self) -> Conversation {
        match self.instructed {
            true => self.request.messages().iter().skip(1).map(Arc::clone).collect(),
            false => self.request.clone(),
        }
    }

    /// A journal that was written before instructions were kept apart has them in front of the conversation.
    pub(crate) fn recognise(&mut self, instructions: &Message) {
        self.instructed |= self.request.messages().first().is_some_and(|first| **first == *instructions);
    }

    /// What was said before in the session of the run: the model sees it before what the run was asked.
    pub(crate) fn remember(&mut self, history: Vec<Arc<Message>>) {
        if !history.is_empty() {
            let (instructions, asked) = self.request.messages().split_at(usize::from(self.instructed));
            self.request = instructions.iter().chain(&history).chain(asked).map(Arc::clone).collect();
        }
    }

    pub(crate) fn turn(&self) -> u32 {
        self.turn
    }

    /// The tokens of all answers so far.
    pub(crate) fn usage(&self) -> Usage {
        self.usage.clone()
    }

    /// The attempts at the model call of this turn that failed and were followed by another.
    pub(crate) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Whether a model call was begun that has no end: by a process that ended in the middle of it.
    pub(crate) fn is_calling(&self) -> bool {
        matches!(self.phase, Phase::Model { called: Some(_) })
    }

    /// The paths of the tool calls of the turn, in the order of the calls.
    pub(crate) fn calls_of_turn(&self) -> impl Iterator<Item = StepPath> {
        // After it come their results, and perhaps what an answer among them lacks.
        let asked = self.request.messages().iter().rev().take(3).find(|message| message.tool_calls().next().is_some());
        let calls = asked.map(|message| Calls::of(message, &self.base, self.turn, &mut self.last_called.clone()));
        calls.into_iter().flat_map(Calls::into_paths)
    }

    /// Takes in what is recorded, which may be of others than this agent.
    pub(crate) fn replay_one(&mut self, path: &StepPath, kind: &EventKind) {
        if path.is_step_of(&self.base) {
            self.apply(path, kind);
        }
    }

    /// Takes in what happened. An event that does not fit where the machine is changes nothing.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        match (kind, &mut self.phase) {
            (EventKind::RunStarted(started), Phase::NotStarted) => {
                if let Some(agent) = started.agent() {
                    self.begin(agent);
                }
            }
            (EventKind::AgentStarted(agent), Phase::NotStarted) => self.begin(agent),
            // A further attempt at its step lets it continue.
            (EventKind::AgentStarted(_), Phase::Ended(Some(Err(_)))) if *path == self.base => self.continues(),
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
                if response.answered_by.is_some() {
                    self.model_calls = self.model_calls.saturating_sub(1);
                }
                self.request.push(Arc::clone(&response.message));
                let calls = Calls::of(&response.message, &self.base, self.turn, &mut self.last_called);
                self.phase = if calls.is_empty() { self.take_text(response) } else { Phase::Tools(Box::new(calls)) };
            }
            (EventKind::OutputRejected { problem }, Phase::Misfit { .. } | Phase::StepDone { answer: Some(_) }) => {
                self.misfits += 1;
                self.request.push(Message::user(repair_text(problem)));
                self.phase = Phase::StepDone { answer: None };
            }
            (EventKind::ToolStarted { effects, idempotent, .. }, Phase::Tools(calls)) => {
                calls.started(path, *effects, *idempotent);
            }
            (EventKind::ToolWaiting(_), Phase::Tools(calls)) => calls.asks(path, true),
            (EventKind::ToolContinued { .. }, Phase::Tools(calls)) => calls.asks(path, false),
            (EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. }, Phase::Tools(calls)) => {
                calls.ended(path, result);
                // A tool of the program may end the loop too; the model still answers then.
                if result.name == EXIT_TOOL
                    && kind.saved().is_some_and(|saved| matches!(saved.get(EXIT), Some(Some(_))))
                {
                    calls.exit();
                }
                if calls.all_ended() {
                    self.end_tools();
                }
            }
            // In a snapshot the turn that it ended is left out.
            (EventKind::AgentHandoff(transfer), Phase::StepDone { .. } | Phase::Model { called: None })
                if *path == self.base =>
            {
                self.transfer(transfer);
            }
            (EventKind::RunStep { .. }, Phase::StepDone { answer }) => match answer.take() {
                Some(answer) => self.phase = Phase::Answered(answer),
                None => self.begin_turn(),
            },
            // An earlier release ended the turn in which an agent had failed before it continued.
            (EventKind::RunStep { step }, Phase::Tools(_)) if *path == self.base && *step == self.turn => {
                self.end_tools();
                self.begin_turn();
            }
            // An operator lets the call be retried that had failed for good.
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
            (EventKind::AgentCompleted(answer), _) if *path == self.base => self.end(Some(Ok(Arc::clone(answer)))),
            (EventKind::RunFailed { error }, _) => self.end(Some(Err(Arc::clone(error)))),
            (EventKind::AgentFailed { error }, _) if *path == self.base => self.end(Some(Err(Arc::clone(error)))),
            (EventKind::RunCancelled { .. }, _) => self.end(None),
            (EventKind::MessageReceived { number, message, .. }, _) => self.receive(*number, message),
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

    /// The turns up to this one are over.
    fn advance(&mut self, advanced: &RunAdvanced) {
        let RunAdvanced { step, messages, usage, model_calls, failures_in_row, misfits, .. } = advanced;
        messages.messages().iter().for_each(|message| self.request.push(Arc::clone(message)));
        (self.turn, self.usage, self.model_calls) = (*step, usage.clone(), *model_calls);
        (self.failures_in_row, self.misfits, self.stopped_in) = (*failures_in_row, *misfits, None);
        self.advance_inbox(advanced.delivered, advanced.answered);
        self.begin_turn();
    }

    /// Where it is, after a turn and before the model is asked again; `None` at any other time. `known` is the number of
    /// messages, without instructions, that it began with. What only a journal says is left open.
    pub(super) fn advanced(&self, known: usize) -> Option<RunAdvanced> {
        let between = matches!(self.phase, Phase::Model { called: None }) && self.attempts.is_empty() && self.turn > 1;
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

    /// Continues where it was stopped: the calls of the turn that have no result are made, or the model is asked anew.
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
        // One that has failed may continue, and then makes the calls that had not begun.
        if !is_failure {
            self.end_tools();
        }
        if let Some(Ok(completed)) = &outcome
            && completed.steps == 0
        {
            self.request.push(Arc::clone(&completed.message));
        }
        let phase = match self.stopped_turn.take().filter(|_| is_failure) {
            // All its calls had an end, and that of one only since whatever it was in was stopped.
            Some(turn) => {
                let StoppedTurn { calls, failures_in_row, misfits } = *turn;
                (self.failures_in_row, self.misfits) = (failures_in_row, misfits);
                let messages = self.request.messages();
                self.request = messages.iter().take(messages.len().saturating_sub(1)).map(Arc::clone).collect();
                self.phase = Phase::Ended(outcome);
                Phase::Tools(Box::new(calls))
            }
            None => match std::mem::replace(&mut self.phase, Phase::Ended(outcome)) {
                Phase::Tools(calls) => Phase::Tools(calls),
                // The model is asked anew, in a turn of its own.
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

    /// The results of the turn go into the conversation in the order of the calls; a call that has none gets one that
    /// says what is known.
    fn end_tools(&mut self) {
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
            self.stopped_turn = Some(Box::new(StoppedTurn { calls: Calls::clone(&calls), failures_in_row, misfits }));
        }
        let message = Message::tool_results(calls.into_results());
        for result in message.results() {
            match result.status {
                // The model could not know the limit; its next turn shows whether it has understood.
                ToolStatus::TooManyCalls => {}
                ToolStatus::Success => self.failures_in_row = 0,
                _ => self.failures_in_row += 1,
            }
        }
        let by_tool = self.output.as_ref().is_some_and(|rule| rule.by_tool);
        let given = message.results().find(|result| by_tool && result.name == ANSWER_TOOL);
        let answer = match given.map(|result| result.status) {
            Some(ToolStatus::Success) => self.request.messages().last().map(|asked| Answer::by_call(asked, false)),
            Some(status) => {
                self.misfits += u32::from(status != ToolStatus::TooManyCalls);
                None
            }
            None if exits => self.answer_of_exit(),
            None => None,
        };
        if let (Some(_), Some(handoffs)) = (&answer, &mut self.handoffs) {
            handoffs.wanted = None;
        }
        self.phase = Phase::StepDone { answer };
        self.request.push(message);
    }

    /// What is to be done next, from where the machine is.
    pub(crate) fn command(&self) -> Command {
        match &self.phase {
            Phase::NotStarted => Command::Finish(Outcome::Ended(None)),
            Phase::Ended(outcome) => Command::Finish(Outcome::Ended(outcome.clone())),
            Phase::Model { called } => self.delivers().unwrap_or_else(|| self.call_model(called.is_some())),
            Phase::ModelFailed => Command::Finish(Outcome::ModelFailed),
            Phase::Tools(calls) => {
                let limit = self.limits.max_tool_calls_per_turn.max(1);
                Command::CallTools(calls.pending(limit, self.handoffs.is_some()))
            }
            Phase::StepDone { .. } => self.transfer_wanted().unwrap_or(Command::EndStep { step: self.turn }),
            Phase::Misfit { problem } => {
                Command::RejectOutput { path: self.base.model(self.turn), problem: Arc::clone(problem) }
            }
            Phase::Answered(answer) => self.delivers().unwrap_or_else(|| self.after_answer(answer)),
        }
    }

    fn call_model(&self, again: bool) -> Command {
        let limits = &self.limits;
        if self.failures_in_row >= limits.max_tool_failures.max(1)
            && let Some(last) = self.request.last()
            && let Some(result) = last.results().filter(|result| result.status != ToolStatus::TooManyCalls).last()
        {
            return Command::Finish(Outcome::Failed(Error::ToolFailures {
                failures: self.failures_in_row,
                tool: result.name.clone(),
                status: result.status,
                message: result.output.clone(),
            }));
        }
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
            return Command::Finish(Outcome::Failed(Error::MaxStepsReached { steps: limits.max_steps }));
        }
        if !again && self.model_calls >= limits.max_llm_calls {
            return Command::Finish(Outcome::Failed(Error::LlmCallLimit { calls: limits.max_llm_calls }));
        }
        Command::CallModel { path: self.base.model(self.turn) }
    }
}

/// A step that was started and has not ended.
#[derive(Clone, Debug)]
pub(crate) enum OpenStep {
    Model { path: StepPath },
    Tool { path: StepPath, call: Arc<ToolCall> },
}

/// The result of a call that was running when its process ended.
pub(crate) fn interrupted(call: &ToolCall, effects: Effects) -> ToolResult {
    let then = match effects {
        Effects::Write => "find out before you call it again",
        Effects::None | Effects::Read => "call it again if you still need it",
    };
    let known = effects.when_stopped();
    let output = format!("the program stopped while this tool was running; {known}: {then}");
    closed(call, ToolStatus::Interrupted, &output)
}

/// The result of a call that is over the limit of its turn.
fn surplus(call: &ToolCall, calls: usize, limit: usize) -> ToolResult {
    let output = format!(
        "you asked for {calls} tool calls at once, and only the first {limit} were made; this one was not, so make it in \
         a later turn if you still need it"
    );
    closed(call, ToolStatus::TooManyCalls, &output)
}

/// The result of a call that got none from its tool.
pub(crate) fn closed(call: &ToolCall, status: ToolStatus, output: &str) -> ToolResult {
    ToolResult::new(call, status, output)
}

impl Conversation {
    /// The conversation of a run from its recorded events: at every prefix of a journal one that a provider accepts,
    /// since a call without a result gets one that says what is known. The agent's instructions are not part of it.
    ///
    /// In a journal that was written before instructions were kept apart they are the first message; a run of an agent
    /// with the same instructions leaves it out.
    pub fn from_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut machine = AgentMachine::replay(Limits::default(), None, events);
        if let Some(stopped_in) = machine.stopped_in.take() {
            machine.phase = *stopped_in;
        }
        machine.end_tools();
        machine.conversation()
    }
}

#[cfg(test)]
mod tests;
