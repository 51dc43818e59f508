//! Simulation tests of the agent's machine: every run is crashed after every event and resumed.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{AgentMachine, Command, Outcome, PendingTool, Refused};
use crate::agent::Limits;
use crate::agent::compact_turns::compact;
use crate::error::{Error, Failure};
use crate::event::{
    AgentHandoff, AgentStarted, Event, EventKind, PauseReason, RunBody, RunId, RunStarted,
};
use crate::message::{Conversation, Message, Part, Role, ToolCall, ToolResult, ToolStatus};
use crate::model::{ModelError, ModelResponse, StopReason, Usage};
use crate::path::StepPath;
use crate::run::{Ledger, time_spent};
use crate::time::Timestamp;
use crate::tool::Effects;

/// The outcome of a model's turn.
#[derive(Clone, Debug)]
enum Turn {
    Answer,
    Empty,
    Paused,
    Fails,
    Calls(Vec<Call>),
}

#[derive(Clone, Debug)]
struct Call {
    tool: usize,
    succeeds: bool,
    effects: Effects,
    idempotent: bool,
}

impl Call {
    fn repeatable(&self) -> bool {
        self.idempotent || self.effects != Effects::Write
    }
}

fn call() -> impl Strategy<Value = Call> {
    let effects = prop_oneof![Just(Effects::None), Just(Effects::Read), Just(Effects::Write)];
    (0..3_usize, any::<bool>(), effects, any::<bool>()).prop_map(
        |(tool, succeeds, effects, idempotent)| Call { tool, succeeds, effects, idempotent },
    )
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        6 => prop::collection::vec(call(), 1..6).prop_map(Turn::Calls),
        2 => Just(Turn::Answer),
        1 => Just(Turn::Empty),
        1 => Just(Turn::Paused),
        1 => Just(Turn::Fails),
    ];
    prop::collection::vec(turn, 1..6)
}

/// The environment of a run: the model's turns, the tools, and the effects that happened.
struct World {
    turns: Vec<Turn>,
    /// Decides the order in which the tools of a turn end.
    order: u64,
    effects: BTreeMap<String, u32>,
}

impl World {
    fn response(&self, turn: u32) -> Option<ModelResponse> {
        let turn_of_model = self.turns.get(turn as usize - 1).unwrap_or(&Turn::Answer);
        let parts = match turn_of_model {
            Turn::Fails => return None,
            Turn::Empty => Vec::new(),
            Turn::Paused => vec![Part::Text { text: "searching".to_owned() }],
            Turn::Answer => vec![Part::Text { text: "done".to_owned() }],
            Turn::Calls(calls) => calls
                .iter()
                .enumerate()
                .map(|(at, call)| {
                    Part::ToolCall(Arc::new(ToolCall::new(
                        format!("{turn}.{at}"),
                        format!("t{}", call.tool),
                        "{}",
                    )))
                })
                .collect(),
        };
        let mut response = ModelResponse::new(Message::new(Role::Assistant, parts));
        response.usage = Usage::new(10 * u64::from(turn), 3);
        if matches!(turn_of_model, Turn::Paused) {
            response.stop_reason = StopReason::PauseTurn;
        }
        Some(response)
    }

    fn call(&self, call: &ToolCall) -> &Call {
        let (turn, at) = call.id.split_once('.').unwrap();
        match &self.turns[turn.parse::<usize>().unwrap() - 1] {
            Turn::Calls(calls) => &calls[at.parse::<usize>().unwrap()],
            other => panic!("{other:?} has no calls"),
        }
    }

    fn run(&mut self, call: &ToolCall) -> ToolResult {
        *self.effects.entry(call.id.clone()).or_default() += 1;
        let status = if self.call(call).succeeds { ToolStatus::Success } else { ToolStatus::Error };
        ToolResult::new(call, status, "1")
    }
}

/// A run that can be crashed after any number of events.
struct Simulation<'w> {
    machine: AgentMachine,
    world: &'w mut World,
    events: Vec<Event>,
    stop_after: usize,
}

struct Crash;

impl Simulation<'_> {
    fn record(&mut self, path: StepPath, kind: EventKind) -> Result<(), Crash> {
        if self.events.len() == self.stop_after {
            return Err(Crash);
        }
        self.machine.apply(&path, &kind);
        let (run_id, seq) = (RunId::new("r"), self.events.len() as u64 + 1);
        self.events.push(Event {
            run_id,
            seq,
            part: 0,
            time: Timestamp::from_millis(seq),
            path,
            kind,
        });
        Ok(())
    }

    fn run(&mut self) -> Result<Outcome, Crash> {
        if self.events.is_empty() {
            let started = begun();
            self.record(StepPath::root(), EventKind::RunStarted(Arc::new(started)))?;
        }
        loop {
            match self.machine.command() {
                Command::CallModel { path } => self.call_model(&path)?,
                Command::CallTools(tools) => self.call_tools(tools)?,
                Command::RejectOutput { path, problem } => {
                    self.record(path, EventKind::OutputRejected { problem })?;
                }
                Command::Transfer { .. } => unreachable!("it is not in a team"),
                Command::Deliver { .. } | Command::AwaitMessage => {
                    unreachable!("no message is sent to it")
                }
                Command::EndStep { step } => {
                    self.record(StepPath::root(), EventKind::RunStep { step })?;
                }
                Command::Finish(outcome) => return Ok(outcome),
            }
        }
    }

    fn call_model(&mut self, path: &StepPath) -> Result<(), Crash> {
        self.record(
            path.clone(),
            EventKind::ModelStarted { provider: "p".into(), model: "m".into() },
        )?;
        let end = match self.world.response(self.machine.turn()) {
            Some(response) => EventKind::ModelCompleted(Arc::new(response)),
            None => {
                EventKind::ModelFailed { error: Arc::new(Failure::from(&ModelError::truncated())) }
            }
        };
        self.record(path.clone(), end)
    }

    fn call_tools(&mut self, tools: Vec<PendingTool>) -> Result<(), Crash> {
        let (refused, mut tools): (Vec<_>, Vec<_>) =
            tools.into_iter().partition(|tool| tool.refused.is_some());
        for tool in refused {
            if tool.refused != Some(Refused::Interrupted) {
                let call = Arc::clone(&tool.call);
                let started = EventKind::ToolStarted {
                    call,
                    effects: Effects::None,
                    idempotent: true,
                    given: None,
                    compensate: None,
                };
                self.record(tool.path.clone(), started)?;
            }
            let result = Arc::new(tool.refusal().unwrap());
            self.record(
                tool.path,
                EventKind::ToolFailed {
                    result,
                    duration_ms: 0,
                    answered_by: None,
                    error: None,
                    cause: None,
                },
            )?;
        }
        for tool in &tools {
            let Call { effects, idempotent, .. } = *self.world.call(&tool.call);
            let call = Arc::clone(&tool.call);
            self.record(
                tool.path.clone(),
                EventKind::ToolStarted { call, effects, idempotent, given: None, compensate: None },
            )?;
        }
        let order = self.world.order;
        tools.sort_by_key(|tool| {
            tool.call.id.bytes().fold(order, |hash, byte| hash.rotate_left(7) ^ u64::from(byte))
        });
        for tool in tools {
            let result = Arc::new(self.world.run(&tool.call));
            let kind = match result.status {
                ToolStatus::Success => EventKind::ToolCompleted {
                    result,
                    duration_ms: 0,
                    answered_by: None,
                    saved: None,
                },
                _ => EventKind::ToolFailed {
                    result,
                    duration_ms: 0,
                    answered_by: None,
                    error: None,
                    cause: None,
                },
            };
            self.record(tool.path, kind)?;
        }
        Ok(())
    }
}

fn begun() -> RunStarted {
    RunStarted::new(RunBody::Agent(AgentStarted::new("a".into(), None, Conversation::from("go"))))
}

fn limits() -> Limits {
    Limits::default().max_steps(4).max_tool_failures(4).max_tool_calls_per_turn(3)
}

fn described(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed(completed) => format!("{completed:?}"),
        Outcome::Failed(error) => error.to_string(),
        Outcome::ModelFailed => "model failed".to_owned(),
        Outcome::Ended(_) => "ended".to_owned(),
    }
}

fn simulate(turns: &[Turn], order: u64) -> (Vec<Event>, Outcome) {
    let mut world = World { turns: turns.to_vec(), order, effects: BTreeMap::new() };
    let mut simulation = Simulation {
        machine: AgentMachine::new(StepPath::root(), limits(), None),
        world: &mut world,
        events: Vec::new(),
        stop_after: usize::MAX,
    };
    let Ok(outcome) = simulation.run() else { panic!("nothing stops this one") };
    (simulation.events, outcome)
}

proptest! {
    #[test]
    fn every_prefix_is_a_conversation_that_a_provider_accepts(turns in turns(), order: u64) {
        let (events, _) = simulate(&turns, order);
        for end in 0..=events.len() {
            let conversation = Conversation::from_events(&events[..end]);
            prop_assert!(conversation.open_calls().is_empty(), "after {} events: {:?}", end, conversation);
            // Results follow the order of the calls, independent of the order in which they ended.
            for pair in conversation.messages().windows(2) {
                let calls: Vec<_> = pair[0].tool_calls().map(|call| &call.id).collect();
                if !calls.is_empty() {
                    let results: Vec<_> = pair[1].results().map(|result| &result.call_id).collect();
                    prop_assert_eq!(calls, results);
                }
            }
        }
    }

    #[test]
    fn the_same_events_give_the_same_command(turns in turns(), order: u64) {
        let (events, _) = simulate(&turns, order);
        let mut live = AgentMachine::new(StepPath::root(), limits(), None);
        for (at, event) in events.iter().enumerate() {
            live.apply(&event.path, &event.kind);
            let replayed = AgentMachine::replay(limits(), None, &events[..=at]);
            prop_assert_eq!(format!("{:?}", live.command()), format!("{:?}", replayed.command()));
        }
    }

    #[test]
    fn a_run_cut_off_anywhere_ends_as_it_would_have(turns in turns(), order: u64) {
        let (events, outcome) = simulate(&turns, order);
        for stop_after in 1..events.len() {
            let mut world = World { turns: turns.clone(), order, effects: BTreeMap::new() };
            let mut first = Simulation {
                machine: AgentMachine::new(StepPath::root(), limits(), None),
                world: &mut world,
                events: Vec::new(),
                stop_after,
            };
            prop_assert!(first.run().is_err());
            let events = first.events;
            let mut again = Simulation {
                machine: AgentMachine::replay(limits(), None, &events),
                world: &mut world,
                events,
                stop_after: usize::MAX,
            };
            let Ok(resumed) = again.run() else { panic!("nothing stops this one") };
            let conversation = again.machine.history();
            prop_assert!(conversation.open_calls().is_empty());
            let mut was_interrupted = false;
            for result in conversation.messages().iter().flat_map(|message| message.results()) {
                was_interrupted |= result.status == ToolStatus::Interrupted;
            }
            prop_assert!(world.effects.keys().all(|id| !id.ends_with(['3', '4'])), "{:?}", world.effects);
            for (id, times) in &world.effects {
                let call = ToolCall::new(id.clone(), "", "");
                prop_assert!(*times == 1 || world.call(&call).repeatable(), "{} ran {} times", id, times);
            }
            if !was_interrupted {
                prop_assert_eq!(described(&resumed), described(&outcome));
            }
        }
    }
}

/// Returns the state of the machine after these events, and the values that budgets and the time
/// limit use.
fn state_after(events: &[Event], base: &StepPath) -> String {
    let mut machine = AgentMachine::replay(limits(), None, events);
    // The shared name only saves memory. A resumed machine creates it again.
    machine.last_called = None;
    let machine = format!("{machine:?}");
    // The order of this map is random. It only contains indices into the list, so it is removed.
    let machine: String = (machine.split("by_path: {"))
        .map(|part| part.split_once("}, left: ").map_or(part, |(_, rest)| rest))
        .collect();
    let ledger = Ledger::of(events);
    let records = events.iter().map(|event| (event.time, &event.path, &event.kind));
    let spent = time_spent(records, base, Timestamp::from_millis(1_000_000));
    let (rows, tokens, last) =
        (ledger.rows().to_vec(), ledger.tokens_of(base), ledger.last_tokens_of(base));
    format!("{machine} {rows:?} {tokens} {last} {} {spent:?}", ledger.longest_answer())
}

/// Returns the snapshot of these events; `None` in the middle of a turn.
fn snapshot_of(events: &[Event]) -> Option<Vec<Event>> {
    let last = events.last()?.clone();
    let spent = Ledger::of(events).spent();
    let mut kept =
        compact(AgentMachine::new(StepPath::root(), limits(), None), |_, _| {}, events.to_vec())?;
    kept.extend(spent.map(|kind| Event { path: StepPath::root(), kind, ..last }));
    Some(kept)
}

/// Inserts operator events at the given positions: the run is paused for a while, its process ends,
/// or both.
fn operated(events: Vec<Event>, at: &[(usize, u8)]) -> Vec<Event> {
    let root = StepPath::root();
    let mut all: Vec<Event> = Vec::new();
    let mut later = 0;
    for (n, mut event) in events.into_iter().enumerate() {
        for (_, what) in at.iter().filter(|(at, _)| *at == n && n > 0) {
            let kinds = match what % 3 {
                0 => vec![
                    EventKind::paused(PauseReason::Operator),
                    EventKind::recovered(None),
                    EventKind::resumed(),
                ],
                1 => vec![EventKind::recovered(None)],
                _ => vec![EventKind::paused(PauseReason::Operator), EventKind::resumed()],
            };
            for kind in kinds {
                later += 10 + u64::from(*what);
                let time = Timestamp::from_millis(n as u64 + later);
                all.push(Event { path: root.clone(), kind, time, ..event.clone() });
            }
        }
        event.time = Timestamp::from_millis(n as u64 + 1 + later);
        all.push(event);
    }
    all
}

proptest! {
    #[test]
    fn a_snapshot_of_every_prefix_leads_to_the_same_state_as_all_of_it(
        turns in turns(),
        order: u64,
        at in prop::collection::vec((0..30_usize, any::<u8>()), 0..4),
    ) {
        let events = operated(simulate(&turns, order).0, &at);
        let root = StepPath::root();
        let mut earlier: Option<(usize, Vec<Event>)> = None;
        for cut in 1..=events.len() {
            let Some(kept) = snapshot_of(&events[..cut]) else { continue };
            // A snapshot that is made from an earlier one is the same.
            if let Some((at, before)) = earlier.take() {
                let again = [&before, &events[at..cut]].concat();
                let of_both = snapshot_of(&again);
                prop_assert_eq!(of_both.as_ref(), Some(&kept));
            }
            for end in cut..=events.len() {
                let resumed = [&kept, &events[cut..end]].concat();
                prop_assert_eq!(state_after(&resumed, &root), state_after(&events[..end], &root), "{} of {}", cut, end);
            }
            earlier = Some((cut, kept));
        }
        // Each turn that is followed by another one has a snapshot.
        let is_over = |(at, event): (usize, &Event)| {
            matches!(event.kind, EventKind::RunStep { .. }) && snapshot_of(&events[..=at]).is_none()
        };
        prop_assert!(events.iter().enumerate().filter(|event| is_over(*event)).count() <= 1);
    }
}

#[test]
fn a_failed_call_that_is_retried_is_no_part_of_a_snapshot() {
    let events = simulate(&[Turn::Paused, Turn::Paused, Turn::Fails], 0).0;
    let root = StepPath::root();
    let last = events.last().unwrap().clone();
    let error = Arc::new(Failure::from(&ModelError::truncated()));
    let at = |path: &StepPath, kind| Event { path: path.clone(), kind, ..last.clone() };
    let mut all = events.clone();
    let call = last.path.clone();
    all.push(at(&root, EventKind::RunFailed { error }));
    all.push(at(&root, EventKind::resumed()));
    all.push(at(&call, EventKind::NodeReset { by: "ada".into() }));
    all.push(at(&root, EventKind::recovered(None)));
    all.push(at(&call, EventKind::ModelStarted { provider: "p".into(), model: "m".into() }));
    all.push(at(
        &call,
        EventKind::ModelCompleted(Arc::new(ModelResponse::new(Message::new(
            Role::Assistant,
            [Part::ToolCall(Arc::new(ToolCall::new("9", "t0", "{}")))],
        )))),
    ));
    let tool = root.tool(call_turn(&call), "t0", 0);
    let started = EventKind::ToolStarted {
        call: Arc::new(ToolCall::new("9", "t0", "{}")),
        effects: Effects::None,
        idempotent: true,
        given: None,
        compensate: None,
    };
    all.push(at(&tool, started));
    let result = Arc::new(super::closed(&ToolCall::new("9", "t0", "{}"), ToolStatus::Success, "1"));
    all.push(at(
        &tool,
        EventKind::ToolCompleted { result, duration_ms: 0, answered_by: None, saved: None },
    ));
    all.push(at(&root, EventKind::RunStep { step: call_turn(&call) }));
    let kept = snapshot_of(&all).expect("a turn is over");
    assert_eq!(state_after(&kept, &root), state_after(&all, &root));
    assert!(kept.iter().all(|event| event.path.is_root()), "{kept:?}");
}

#[test]
fn a_snapshot_of_a_team_has_who_took_over_last_and_how_often() {
    let mut events = simulate(&[Turn::Paused, Turn::Paused, Turn::Paused], 0).0;
    let root = StepPath::root();
    let steps: Vec<usize> = (events.iter().enumerate())
        .filter(|(_, event)| matches!(event.kind, EventKind::RunStep { .. }))
        .map(|(at, _)| at)
        .collect();
    for (to, at) in [("b", steps[1]), ("a", steps[0])] {
        let instructions = (to == "b").then(|| Arc::new(Message::system(to)));
        let transfer = AgentHandoff::new("x".into(), to.into(), instructions);
        let kind = EventKind::AgentHandoff(Arc::new(transfer));
        events.insert(at, Event { path: root.clone(), kind, ..events[at].clone() });
    }
    let of = |events: &[Event]| {
        let mut machine = AgentMachine::new(root.clone(), limits(), None);
        machine.in_team();
        events.iter().for_each(|event| machine.replay_one(&event.path, &event.kind));
        format!("{machine:?}")
    };
    let cuts: Vec<_> =
        (1..=events.len()).filter_map(|cut| Some((cut, snapshot_of(&events[..cut])?))).collect();
    assert_eq!(cuts.len(), 3);
    for (cut, kept) in cuts {
        for end in cut..=events.len() {
            assert_eq!(
                of(&[&kept, &events[cut..end]].concat()),
                of(&events[..end]),
                "{cut} of {end}"
            );
        }
    }
}

/// Returns the turn of a model call.
fn call_turn(path: &StepPath) -> u32 {
    path.to_string().trim_start_matches("model#").parse().unwrap()
}

#[test]
fn the_limits_have_errors_of_their_own() {
    let failing = Call { tool: 0, succeeds: false, effects: Effects::None, idempotent: false };
    let working = Call { succeeds: true, ..failing.clone() };
    let end = |turns: &[Turn]| match simulate(turns, 0).1 {
        Outcome::Failed(error) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        end(&vec![Turn::Calls(vec![working]); 9]),
        Error::MaxStepsReached { steps: 4 }
    ));
    assert!(matches!(
        end(&[Turn::Calls(vec![failing.clone(); 3]), Turn::Calls(vec![failing; 3])]),
        Error::ToolFailures { failures: 6, status: ToolStatus::Error, .. }
    ));
    assert!(matches!(end(&vec![Turn::Paused; 9]), Error::MaxStepsReached { steps: 4 }));
    assert!(
        matches!(end(&[Turn::Empty]), Error::NoAnswer { ref stop_reason } if stop_reason == "stop")
    );
}

#[test]
fn what_the_provider_withheld_is_no_answer() {
    let mut machine = AgentMachine::new(StepPath::root(), limits(), None);
    let root = StepPath::root();
    machine.apply(&root, &EventKind::RunStarted(Arc::new(begun())));
    let mut response = ModelResponse::new(Message::assistant("half a sen"));
    response.stop_reason = StopReason::ContentFilter;
    machine.apply(&root.model(1), &EventKind::ModelCompleted(Arc::new(response)));
    machine.apply(&root, &EventKind::RunStep { step: 1 });
    assert!(matches!(machine.command(), Command::Finish(Outcome::Failed(Error::NoAnswer { .. }))));
}

#[test]
fn an_event_that_does_not_fit_changes_nothing() {
    let mut machine = AgentMachine::new(StepPath::root(), limits(), None);
    let before = format!("{machine:?}");
    for kind in [
        EventKind::RunStep { step: 3 },
        EventKind::ModelStarted { provider: "p".into(), model: "m".into() },
    ] {
        machine.apply(&StepPath::root(), &kind);
    }
    assert_eq!(format!("{machine:?}"), before);
}

/// Executes a turn with this number of calls, from the answer to the results, and returns its
/// duration.
fn turn_of(calls: usize) -> std::time::Duration {
    let (limits, root) = (limits().max_tool_calls_per_turn(calls), StepPath::root());
    let mut machine = AgentMachine::new(root.clone(), limits, None);
    machine.apply(&root, &EventKind::RunStarted(Arc::new(begun())));
    let parts =
        (0..calls).map(|at| Part::ToolCall(Arc::new(ToolCall::new(at.to_string(), "t", "{}"))));
    let response = ModelResponse::new(Message::new(Role::Assistant, parts.collect::<Vec<_>>()));
    let began = std::time::Instant::now();
    let response = crate::agent::call_ids::CallIds::default().distinct(
        Box::new(response),
        1,
        machine.request(),
    );
    machine.apply(&root.model(1), &EventKind::ModelCompleted(Arc::from(response)));
    let Command::CallTools(tools) = machine.command() else { panic!("{:?}", machine.command()) };
    for PendingTool { path, call, .. } in &tools {
        let (call, effects) = (Arc::clone(call), Effects::None);
        machine.apply(
            path,
            &EventKind::ToolStarted {
                call,
                effects,
                idempotent: false,
                given: None,
                compensate: None,
            },
        );
    }
    assert_eq!(machine.open_steps().len(), calls);
    for PendingTool { path, call, .. } in tools.iter().rev() {
        let result = Arc::new(super::closed(call, ToolStatus::Success, "1"));
        machine.apply(
            path,
            &EventKind::ToolCompleted { result, duration_ms: 0, answered_by: None, saved: None },
        );
    }
    assert!(matches!(machine.command(), Command::EndStep { step: 1 }));
    assert!(machine.history().open_calls().is_empty());
    began.elapsed()
}

#[test]
fn the_cost_of_a_turn_grows_with_its_calls_and_not_with_their_square() {
    let few = (0..5).map(|_| turn_of(1000)).min().unwrap_or_default();
    let many = (0..2).map(|_| turn_of(30_000)).min().unwrap_or_default();
    // 30 times as much, not 900 times.
    assert!(many < few * 200, "{few:?} and {many:?}");
}
