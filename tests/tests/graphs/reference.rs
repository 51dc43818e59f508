//! Compares random graphs and random typed workflows with a naive interpreter. The interpreter
//! looks at one node after another. The results must be equal for every order of execution and
//! every crash.
//!
//! Half of the plans have a decider (`reference_decider.rs`). `AGENTFLOW_GRAPHS` sets the number of
//! graphs, `AGENTFLOW_SEED` the first seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::store::{MemoryStore, Store};
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy};
use agentflow::value::Encoded;
use agentflow::workflow::{
    Begins, Builder, Condition, Decider, Graph, GraphBody, GraphEdge, GraphNode, Handle, Mapping,
    Node, NodeEdge, Reference, Route, Router, Routes, StopPolicy,
};
use agentflow::{Error, RunId, Runtime, Workflow};
use agentflow_testing::{check_events, test_runtime};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::reference_decider::{Said, check_decisions, decider, is_refused, says};
use crate::store::{Cut, MortalStore};

/// The work of a node in a random graph.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Calls a tool that returns this value, or fails for `None`.
    Call(Option<bool>),
    /// Takes the arms whose call returned the given value. The last arm may have no condition.
    Route { arms: Vec<Option<(usize, bool)>>, all: bool },
    /// Collects the outputs of these nodes, with `null` for missing ones.
    List(Vec<usize>),
}

#[derive(Clone, Debug)]
pub(super) enum Way {
    Done,
    Failed,
    Arm(usize),
    /// The source is a call and its output equals this value.
    Is(bool),
}

#[derive(Clone, Debug)]
pub(super) struct RandomNode {
    pub(super) work: Work,
    pub(super) edges: Vec<(usize, Way)>,
    begins: Begins,
    /// Nodes whose outputs the node requires.
    pub(super) needs: Vec<usize>,
    pub(super) millis: u64,
    /// `true` if the workflow ends with the output of this node.
    ends: bool,
    /// The state key under which the node saves its output. Few keys make collisions likely.
    saves: Option<usize>,
    /// The decision about this call, if the plan has a decider.
    pub(super) said: Option<Said>,
}

/// Number of state keys.
const KEYS: usize = 2;

/// The kind of plan. A graph can read a router's choice as an output; a typed workflow cannot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Made {
    Graph,
    Typed,
}

/// The expected final state of a node.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Done(Value),
    Failed,
    Skipped,
    /// The decider skipped the node. Its outgoing edges count as if it had succeeded.
    PassedOver,
    /// The decider failed or returned a decision that is refused.
    Undecided,
}

/// Returns a random plan. Nodes depend only on earlier ones, and half of the plans have a decider.
fn choose(rng: &mut Rng, made: Made) -> Vec<RandomNode> {
    let mut all: Vec<RandomNode> = Vec::new();
    let decides = rng.bool();
    for at in 0..2 + rng.usize(..8) {
        let calls: Vec<usize> =
            (0..at).filter(|node| matches!(all[*node].work, Work::Call(_))).collect();
        let is_read =
            |node: &usize| made == Made::Graph || !matches!(all[*node].work, Work::Route { .. });
        let read: Vec<usize> = (0..at).filter(is_read).collect();
        let work = match rng.u8(..10) {
            0 | 1 if !calls.is_empty() => {
                let asked = calls[rng.usize(..calls.len())];
                // Half of the arms look at the same call, so that they exclude each other.
                let mut arm = || match rng.bool() {
                    true => Some((asked, rng.bool())),
                    false => Some((calls[rng.usize(..calls.len())], rng.bool())),
                };
                let mut arms: Vec<Option<(usize, bool)>> = [arm(), arm(), arm()].into();
                arms.truncate(1 + rng.usize(..3));
                arms.extend(rng.bool().then_some(None));
                Work::Route { arms, all: rng.bool() }
            }
            2 | 3 if at > 0 => {
                Work::List((0..1 + rng.usize(..3)).map(|_| read[rng.usize(..read.len())]).collect())
            }
            _ => Work::Call([Some(true), Some(true), Some(false), None][rng.usize(..4)]),
        };
        let mut edges: Vec<(usize, Way)> = Vec::new();
        for _ in 0..if at == 0 { 0 } else { rng.usize(..4) } {
            let from = rng.usize(..at);
            let way = match &all[from].work {
                Work::Route { arms, .. } if made == Made::Typed => {
                    Way::Arm(rng.usize(..arms.len()))
                }
                Work::Route { arms, .. } => {
                    [Way::Arm(rng.usize(..arms.len())), Way::Done, Way::Failed][rng.usize(..3)]
                        .clone()
                }
                Work::Call(_) => {
                    [Way::Done, Way::Failed, Way::Is(true), Way::Is(false)][rng.usize(..4)].clone()
                }
                Work::List(_) => Way::Done,
            };
            edges.push((from, way));
        }
        let count = u32::try_from(edges.len()).unwrap();
        // A list is unknown until all nodes that it reads have ended, so it must not start early.
        let late = !edges.is_empty() && !matches!(work, Work::List(_));
        let mut begins = match rng.u8(..8) {
            0 | 1 if late => Begins::Any,
            2 if late => Begins::Join(1 + rng.u32(..count)),
            3 if !edges.is_empty() => Begins::Barrier(1 + rng.u32(..count)),
            _ => Begins::All,
        };
        let needs = (0..if at == 0 { 0 } else { rng.usize(..2) })
            .map(|_| read[rng.usize(..read.len())])
            .collect();
        let saves =
            made == Made::Graph && matches!(work, Work::Call(_) | Work::List(_)) && rng.bool();
        let mut saves = saves.then(|| rng.usize(..KEYS));
        // Often the node is in its own arm and saves the same key as a node in another arm.
        let arm = if made == Made::Graph && matches!(work, Work::Call(_)) && rng.bool() {
            random_arm(rng, &all)
        } else {
            None
        };
        if let Some((router, arm, key)) = arm {
            (edges, begins, saves) = (vec![(router, Way::Arm(arm))], Begins::All, Some(key));
        }
        let said = (decides && matches!(work, Work::Call(_))).then(|| Said::by_chance(rng));
        all.push(RandomNode {
            work,
            edges,
            begins,
            needs,
            millis: rng.u64(..5),
            ends: false,
            saves,
            said,
        });
    }
    let lists: Vec<usize> =
        (0..all.len()).filter(|node| matches!(all[*node].work, Work::List(_))).collect();
    if !lists.is_empty() && rng.u8(..4) == 0 {
        all[lists[rng.usize(..lists.len())]].ends = true;
    }
    all
}

/// Picks an arm of a router that takes a single arm, and a key. Prefers a key that a node in
/// another arm saves.
fn random_arm(rng: &mut Rng, all: &[RandomNode]) -> Option<(usize, usize, usize)> {
    let count = |planned: &RandomNode| match &planned.work {
        Work::Route { arms, all: false } if arms.len() > 1 => Some(arms.len()),
        _ => None,
    };
    let routers: Vec<(usize, usize)> =
        (0..).zip(all).filter_map(|(at, of)| Some((at, count(of)?))).collect();
    let (router, arms) = *routers.get(rng.usize(..routers.len().max(1)))?;
    let arm = rng.usize(..arms);
    let in_another = |planned: &RandomNode| match planned.edges.as_slice() {
        [(from, Way::Arm(other))] if *from == router && *other != arm => planned.saves,
        _ => None,
    };
    let key = all.iter().find_map(in_another).unwrap_or_else(|| rng.usize(..KEYS));
    Some((router, arm, key))
}

pub(super) fn name(at: usize) -> String {
    format!("n{at}")
}

/// Builds the plan as a graph. Its output `all` contains the outputs of all nodes and the saved
/// keys.
fn graph(plan: &[RandomNode]) -> Graph {
    let seen = |node: &usize| Mapping::From {
        node: name(*node),
        at: String::new(),
        or: Some(Value::Null),
    };
    let mut graph = Graph::new("random", "all");
    graph.decider =
        plan.iter().any(|planned| planned.said.is_some()).then(|| Decider::tool("decides"));
    graph.stop_policy = StopPolicy::BestEffort;
    for (at, planned) in plan.iter().enumerate() {
        let does = match &planned.work {
            Work::Call(_) => {
                let fields = [
                    ("node", Mapping::Value(name(at).into())),
                    ("millis", Mapping::Value(planned.millis.into())),
                ];
                GraphBody::Call(Reference::tool("fate", Mapping::object(fields)))
            }
            Work::Route { arms, all } => {
                let route = |(arm, when): (usize, &Option<(usize, bool)>)| match when {
                    Some((call, true)) => {
                        Route::when(format!("a{arm}"), Condition::Is(Mapping::from(name(*call))))
                    }
                    Some((call, false)) => {
                        let is_false = Condition::Equals(
                            Mapping::from(name(*call)),
                            Mapping::Value(false.into()),
                        );
                        Route::when(format!("a{arm}"), is_false)
                    }
                    None => Route::otherwise(format!("a{arm}")),
                };
                let arms = arms.iter().enumerate().map(route);
                GraphBody::Route(if *all { Routes::all(arms) } else { Routes::first(arms) })
            }
            Work::List(nodes) => GraphBody::Value(Mapping::List(nodes.iter().map(seen).collect())),
        };
        let mut node = GraphNode::new(name(at), does).begins(planned.begins);
        node.ends = planned.ends;
        if let Some(key) = planned.saves {
            node = node.save(format!("k{key}"), "");
        }
        node.reads = planned.needs.iter().map(|need| name(*need)).collect();
        for (from, way) in &planned.edges {
            let edge = GraphEdge::from(name(*from));
            let is =
                |is: bool| Condition::Equals(Mapping::from(name(*from)), Mapping::Value(is.into()));
            node = node.edge(match way {
                Way::Done => edge,
                Way::Failed => edge.failed(),
                Way::Arm(arm) => edge.arm(format!("a{arm}")),
                Way::Is(value) => edge.when(is(*value)),
            });
        }
        graph = graph.with(node);
    }
    let kept = |key: usize| Mapping::State {
        key: format!("k{key}"),
        at: String::new(),
        or: Some(Value::Null),
        optional: false,
    };
    let all = (0..plan.len()).map(|at| seen(&at)).chain((0..KEYS).map(kept)).collect();
    graph.with(GraphNode::new("all", GraphBody::Value(Mapping::List(all))))
}

pub(super) fn random_graph(seed: u64) -> Graph {
    graph(&choose(&mut Rng::with_seed(seed), Made::Graph))
}

/// The output that a typed node requires.
#[derive(Clone, Copy)]
enum RequiredOutput {
    Nothing,
    There(Handle<Value>),
    /// The node may start before this output is known.
    Perhaps(Handle<Value>),
}

/// The source of an edge in a typed workflow.
#[derive(Clone, Copy)]
enum Source {
    Node(Handle<Value>),
    Router(Router),
}

/// Builds the plan as a typed workflow.
fn typed(plan: &[RandomNode]) -> agentflow::Result<Workflow<(), Value>> {
    Workflow::<(), Value>::build("random", [], |b, ()| {
        b.stop_policy(StopPolicy::BestEffort);
        if plan.iter().any(|planned| planned.said.is_some()) {
            let plan = plan.to_vec();
            b.decider(move |_, next| std::future::ready(says(&plan, Made::Typed, &next)));
        }
        let mut made: Vec<Source> = Vec::new();
        for (at, planned) in plan.iter().enumerate() {
            let node = typed_node(at, planned, &made);
            let late =
                |need: &usize| skips(planned) && planned.edges.iter().any(|(from, _)| from == need);
            let need = match planned.needs.first() {
                None => RequiredOutput::Nothing,
                Some(need) if late(need) => RequiredOutput::Perhaps(handle(made[*need])),
                Some(need) => RequiredOutput::There(handle(made[*need])),
            };
            made.push(match &planned.work {
                Work::Call(fate) => Source::Node(typed_call(b, node, need, *fate, planned.millis)),
                Work::Route { arms, all } => {
                    Source::Router(typed_route(b, node, need, arms, *all, &made))
                }
                Work::List(nodes) => {
                    let read = nodes.iter().map(|node| handle(made[*node])).collect();
                    Source::Node(typed_list(b, node, need, read))
                }
            });
        }
        let first = handle(made[0]);
        let read = |at: usize| {
            made.get(at)
                .copied()
                .filter(|from| matches!(from, Source::Node(_)))
                .map_or(first, handle)
        };
        let is_read: Vec<bool> = made.iter().map(|from| matches!(from, Source::Node(_))).collect();
        let all: [_; 9] = std::array::from_fn(|at| read(at).optional());
        let [a, c, d, e, f, g, h, i, j] = all;
        b.value("all", (a, c, d, e, f, g, h, i, j), move |(a, c, d, e, f, g, h, i, j)| {
            let values = [a, c, d, e, f, g, h, i, j].into_iter().zip(&is_read);
            let values =
                values.map(|(value, is_read)| value.filter(|_| *is_read).unwrap_or_default());
            // Typed workflows save no keys, so each key is `null`.
            Ok::<_, Error>(values.chain([const { Value::Null }; KEYS]).collect::<Value>())
        })
    })
}

fn handle(from: Source) -> Handle<Value> {
    match from {
        Source::Node(handle) => handle,
        Source::Router(_) => panic!("no node reads what a typed router has chosen"),
    }
}

fn typed_node(at: usize, planned: &RandomNode, made: &[Source]) -> Node {
    let mut node = Node::new(name(at)).begins(planned.begins).repeatable(true);
    for (from, way) in &planned.edges {
        node = node.edge(match (made[*from], way) {
            (Source::Router(router), Way::Arm(arm)) => NodeEdge::arm(router, *arm),
            (Source::Node(from), Way::Done) => NodeEdge::from(from),
            (Source::Node(from), Way::Failed) => NodeEdge::failed(from),
            (Source::Node(handle), Way::Is(is)) => {
                let is =
                    Condition::Equals(Mapping::from(name(*from)), Mapping::Value((*is).into()));
                NodeEdge::when(handle, is)
            }
            (_, way) => panic!("a typed workflow has no edge such as {way:?}"),
        });
    }
    if planned.ends { node.ends() } else { node }
}

fn typed_call(
    b: &mut Builder,
    node: Node,
    need: RequiredOutput,
    fate: Option<bool>,
    millis: u64,
) -> Handle<Value> {
    let call = move |read: Option<Value>| async move {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        // A decider may replace the input.
        let fate =
            read.and_then(|read| read.get("fate").cloned()).map_or(fate, |fate| fate.as_bool());
        fate.map(Value::Bool).ok_or_else(|| "it was to fail".to_owned())
    };
    match need {
        RequiredOutput::Nothing => b.node(node, (), move |_, ()| call(None)),
        RequiredOutput::There(need) => b.node(node, (need,), move |_, (read,)| call(Some(read))),
        RequiredOutput::Perhaps(need) => {
            b.node(node, (need.optional(),), move |_, (read,)| call(read))
        }
    }
}

fn typed_list(
    b: &mut Builder,
    node: Node,
    need: RequiredOutput,
    read: Vec<Handle<Value>>,
) -> Handle<Value> {
    let count = read.len();
    let [x, y, z] = std::array::from_fn(|at| read[at.min(count - 1)].optional());
    let list = move |values: [Option<Value>; 3]| -> Result<Value, Error> {
        Ok(values.into_iter().take(count).map(Option::unwrap_or_default).collect())
    };
    match need {
        RequiredOutput::Nothing => b.value(node, (x, y, z), move |(x, y, z)| list([x, y, z])),
        RequiredOutput::There(need) => {
            b.value(node, (x, y, z, need), move |(x, y, z, _)| list([x, y, z]))
        }
        RequiredOutput::Perhaps(need) => {
            b.value(node, (x, y, z, need.optional()), move |(x, y, z, _)| list([x, y, z]))
        }
    }
}

/// Adds a router that reads the calls of its conditions. A router reads three values, so the last
/// call may be read several times.
fn typed_route(
    b: &mut Builder,
    node: Node,
    need: RequiredOutput,
    arms: &[Option<(usize, bool)>],
    all: bool,
    made: &[Source],
) -> Router {
    let asked: Vec<Handle<Value>> =
        arms.iter().flatten().map(|(call, _)| handle(made[*call])).collect();
    let [x, y, z] = std::array::from_fn(|at| asked[at.min(asked.len() - 1)]);
    let wanted: Vec<Option<bool>> = arms.iter().map(|arm| arm.map(|(_, is)| is)).collect();
    let taken = move |values: [Value; 3]| -> Result<Vec<usize>, String> {
        let mut values = values.into_iter();
        let mut taken = Vec::new();
        for (at, wanted) in wanted.iter().enumerate() {
            let takes = match wanted {
                Some(is) => values.next() == Some(Value::Bool(*is)),
                None => taken.is_empty(),
            };
            taken.extend(takes.then_some(at));
        }
        if taken.is_empty() { Err("no arm is taken".to_owned()) } else { Ok(taken) }
    };
    let names: Vec<String> = (0..arms.len()).map(|arm| format!("a{arm}")).collect();
    let need = match need {
        // A value that is read twice must be required only once.
        RequiredOutput::Nothing => RequiredOutput::There(x),
        need => need,
    };
    let first = |taken: Result<Vec<usize>, String>| taken.map(|taken| taken[0]);
    match (need, all) {
        (RequiredOutput::Perhaps(need), true) => {
            b.route_all(node, names, (x, y, z, need.optional()), move |(x, y, z, _)| {
                taken([x, y, z])
            })
        }
        (RequiredOutput::Perhaps(need), false) => {
            b.route(node, names, (x, y, z, need.optional()), move |(x, y, z, _)| {
                first(taken([x, y, z]))
            })
        }
        (RequiredOutput::There(need), true) => {
            b.route_all(node, names, (x, y, z, need), move |(x, y, z, _)| taken([x, y, z]))
        }
        (RequiredOutput::There(need), false) => {
            b.route(node, names, (x, y, z, need), move |(x, y, z, _)| first(taken([x, y, z])))
        }
        (RequiredOutput::Nothing, _) => unreachable!("it needs the first that it reads"),
    }
}

/// Returns `true` if the node can start before all of its edges are known.
pub(super) fn skips(planned: &RandomNode) -> bool {
    matches!(planned.begins, Begins::Any | Begins::Join(_))
}

/// Evaluates the plan in order. Every node comes after the nodes that it depends on.
fn evaluate(plan: &[RandomNode], made: Made) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    for (at, planned) in plan.iter().enumerate() {
        let done = |node: &usize| matches!(states[*node], State::Done(_));
        let late =
            |node: &usize| skips(planned) && planned.edges.iter().any(|(from, _)| from == node);
        let taken = planned.edges.iter().filter(|(from, way)| match (&states[*from], way) {
            (State::Done(_) | State::PassedOver, Way::Done) | (State::Failed, Way::Failed) => true,
            (State::Done(value), Way::Is(is)) => *value == Value::Bool(*is),
            (State::Done(value), Way::Arm(arm)) => {
                let arm = Value::String(format!("a{arm}"));
                value["arm"] == arm
                    || value["arms"].as_array().is_some_and(|arms| arms.contains(&arm))
            }
            _ => false,
        });
        let needed = match planned.begins {
            Begins::Any => 1,
            Begins::Join(count) | Begins::Barrier(count) => count as usize,
            _ => planned.edges.len(),
        };
        let asked: Vec<usize> = match &planned.work {
            Work::Route { arms, .. } => arms.iter().flatten().map(|(call, _)| *call).collect(),
            _ => Vec::new(),
        };
        let all_there = planned.needs.iter().chain(&asked).all(|node| late(node) || done(node));
        let state = if taken.count() < needed || !all_there {
            State::Skipped
        } else {
            match &planned.work {
                Work::Call(fate) => {
                    let of = |fate: Option<bool>| {
                        fate.map_or(State::Failed, |value| State::Done(value.into()))
                    };
                    match planned.said {
                        Some(_) if is_refused(plan, made, at) => State::Undecided,
                        Some(Said::Skip) => State::PassedOver,
                        Some(Said::Revise(fate)) => of(fate),
                        _ => of(*fate),
                    }
                }
                Work::List(nodes) => {
                    State::Done(nodes.iter().map(|node| value_of(&states[*node])).collect())
                }
                Work::Route { arms, all } => route(arms, *all, &states),
            }
        };
        states.push(state);
    }
    states
}

/// Evaluates a router. It fails if a call has no output, or if no arm matches.
fn route(arms: &[Option<(usize, bool)>], all: bool, states: &[State]) -> State {
    let mut taken: Vec<String> = Vec::new();
    for (at, arm) in arms.iter().enumerate() {
        let takes = match arm {
            None => taken.is_empty(),
            Some((call, is)) => match &states[*call] {
                State::Done(value) => *value == Value::Bool(*is),
                _ => return State::Failed,
            },
        };
        if takes {
            taken.push(format!("a{at}"));
            if !all {
                break;
            }
        }
    }
    match (taken.is_empty(), all) {
        (true, _) => State::Failed,
        (false, true) => State::Done(json!({"arms": taken})),
        (false, false) => State::Done(json!({"arm": taken[0]})),
    }
}

fn value_of(state: &State) -> Value {
    match state {
        State::Done(value) => value.clone(),
        _ => Value::Null,
    }
}

/// Returns `true` if a router may start before its inputs are known. Its choice then depends on
/// timing.
fn depends_on_time(plan: &[RandomNode]) -> bool {
    plan.iter().any(|planned| match &planned.work {
        Work::Route { arms, .. } if matches!(planned.begins, Begins::Any | Begins::Join(_)) => arms
            .iter()
            .flatten()
            .any(|(call, _)| planned.edges.iter().any(|(from, _)| from == call)),
        _ => false,
    })
}

/// Returns all direct and indirect dependencies of each node.
fn all_before(plan: &[RandomNode]) -> Vec<BTreeSet<usize>> {
    let mut all: Vec<BTreeSet<usize>> = Vec::new();
    for planned in plan {
        let own: Vec<usize> = match &planned.work {
            Work::Call(_) => Vec::new(),
            Work::Route { arms, .. } => arms.iter().flatten().map(|(call, _)| *call).collect(),
            Work::List(nodes) => nodes.clone(),
        };
        let direct = planned
            .edges
            .iter()
            .map(|(from, _)| *from)
            .chain(planned.needs.iter().copied())
            .chain(own);
        let mut before: BTreeSet<usize> = direct.collect();
        let above: Vec<usize> = before.iter().flat_map(|at| &all[*at]).copied().collect();
        before.extend(above);
        all.push(before);
    }
    all
}

/// Returns the pairs of nodes that save the same key and do not wait for each other.
fn saved_twice(plan: &[RandomNode]) -> Vec<(usize, usize)> {
    let before = all_before(plan);
    let pairs = (0..plan.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
    let is_one_key = |(first, second): &(usize, usize)| {
        plan[*first].saves.is_some()
            && plan[*first].saves == plan[*second].saves
            && !before[*second].contains(first)
    };
    pairs.filter(is_one_key).collect()
}

/// Checks that two nodes which save the same key never both run, for 200 random outcomes of the
/// calls. Returns `false` if no two nodes save the same key.
fn check_exclusive(plan: &[RandomNode], made: Made, rng: &mut Rng) -> bool {
    let pairs = saved_twice(plan);
    if pairs.is_empty() {
        return false;
    }
    for _ in 0..200 {
        let mut other = plan.to_vec();
        for planned in &mut other {
            if let Work::Call(fate) = &mut planned.work {
                *fate = [Some(true), Some(false), None][rng.usize(..3)];
                planned.said = planned.said.map(|_| Said::by_chance(rng));
            }
        }
        let states = evaluate(&other, made);
        let has_begun = |at: usize| matches!(states[at], State::Done(_) | State::Failed);
        for (first, second) in &pairs {
            assert!(
                !(has_begun(*first) && has_begun(*second)),
                "n{first} and n{second}: {other:#?}"
            );
        }
    }
    true
}

/// Returns the tool `fate`, which gives each call node its planned outcome.
fn tool(plan: &[RandomNode]) -> FnTool {
    let fates: Vec<Option<bool>> = plan
        .iter()
        .map(|planned| match planned.work {
            Work::Call(fate) => fate,
            _ => None,
        })
        .collect();
    let schema = json!({
        "type": "object",
        "properties": {"node": {"type": "string"}, "millis": {"type": "integer"}},
        "required": ["node", "millis"],
        "additionalProperties": false
    });
    let policy = ToolPolicy::default().effects(Effects::Read);
    FnTool::dynamic(
        ToolDefinition::new("fate", "What a node is to give.", schema),
        move |_, arguments: Value| {
            let fate = match arguments["node"].as_str().unwrap() {
                // A decider replaced the argument `node`.
                "true" => Some(true),
                "false" => Some(false),
                "fails" => None,
                node => fates[node[1..].parse::<usize>().unwrap()],
            };
            let millis = arguments["millis"].as_u64().unwrap();
            async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                fate.ok_or("it was to fail")
            }
        },
    )
    .policy(policy)
}

fn runtime(plan: &[RandomNode], made: Made, store: impl Store) -> agentflow::Result<Runtime> {
    let runtime = test_runtime().store(store);
    let runtime = match made {
        Made::Graph => runtime.tools(tool(plan)).tools(decider(plan)).graph(graph(plan)).build(),
        Made::Typed => runtime.workflow(&typed(plan)?).build(),
    };
    runtime.catalogue().workflow_graph("random").map(|_| runtime)
}

/// Compares the journal and the result of the run with the naive interpreter.
async fn compare(
    plan: &[RandomNode],
    made: Made,
    kept: &Arc<dyn Store>,
    run: &RunId,
    ended: agentflow::Result<Encoded>,
    how: &str,
) {
    let expected = evaluate(plan, made);
    let how = &format!("{how}, {made:?}");
    let events = kept.read(run, 0, usize::MAX).await.unwrap();
    check_events(&events).unwrap_or_else(|problem| panic!("{how}: {problem}\n{plan:#?}"));
    check_decisions(&events).unwrap_or_else(|problem| panic!("{how}: {problem}\n{plan:#?}"));
    let end = plan.iter().position(|planned| planned.ends);
    let has_ended = end.is_some_and(|end| matches!(expected[end], State::Done(_)));
    let rescued = |at: usize| {
        plan.iter().any(|other| {
            other.edges.iter().any(|(from, way)| *from == at && matches!(way, Way::Failed))
        })
    };
    for (at, state) in
        expected.iter().enumerate().filter(|(at, _)| !matches!(plan[*at].work, Work::List(_)))
    {
        let of = name(at);
        let mut seen =
            events.iter().filter(|event| event.path.to_string() == of).filter_map(|event| {
                match &event.kind {
                    EventKind::NodeCompleted { output, .. } => {
                        Some(State::Done(output.decode().unwrap()))
                    }
                    EventKind::NodeFailed { .. } => Some(State::Failed),
                    EventKind::NodeSkipped { .. } => Some(State::Skipped),
                    _ => None,
                }
            });
        match seen.next_back() {
            // The end of the workflow cancels running nodes, and the remaining ones never start.
            None | Some(State::Failed | State::Skipped) if has_ended => {}
            seen => {
                // The record of a node only shows that it was skipped.
                let recorded = match state {
                    State::PassedOver | State::Undecided => &State::Skipped,
                    state => state,
                };
                assert_eq!(seen.as_ref(), Some(recorded), "{how}: {of}\n{plan:#?}");
            }
        }
    }
    if let Some(end) = end.filter(|_| has_ended) {
        let output = ended.unwrap_or_else(|error| panic!("{how}: {error}\n{plan:#?}"));
        // The list contains the outputs that existed when its node started.
        let State::Done(Value::Array(values)) = &expected[end] else {
            panic!("a list ends it\n{plan:#?}")
        };
        assert_eq!(output.decode::<Vec<Value>>().unwrap(), *values, "{how}\n{plan:#?}");
        return;
    }
    let fails = |(at, state): (usize, &State)| match state {
        State::Failed => !rescued(at),
        state => *state == State::Undecided,
    };
    let fails = expected.iter().enumerate().any(fails);
    match ended {
        Ok(output) => {
            assert!(!fails, "{how}: it should fail\n{plan:#?}");
            let is_read =
                |at: usize| made == Made::Graph || !matches!(plan[at].work, Work::Route { .. });
            let seen = |(at, state): (usize, &State)| {
                if is_read(at) { value_of(state) } else { Value::Null }
            };
            // Of the nodes that save a key, either one runs or each waits for the previous ones.
            // The last one wins.
            let kept = |key: usize| {
                let of_key =
                    plan.iter().zip(&expected).filter(|(planned, _)| planned.saves == Some(key));
                let mut done = of_key.rev().filter(|(_, state)| matches!(state, State::Done(_)));
                done.next().map(|(_, state)| value_of(state)).unwrap_or_default()
            };
            let values: Vec<Value> =
                expected.iter().enumerate().map(seen).chain((0..KEYS).map(kept)).collect();
            assert_eq!(output.decode::<Vec<Value>>().unwrap(), values, "{how}\n{plan:#?}");
        }
        Err(error) => assert!(fails, "{how}: {error}\n{plan:#?}"),
    }
}

/// Runs a plan, with a crash at `cut`, and compares it with the interpreter. Returns the number of
/// writes of the first process.
async fn run(plan: &[RandomNode], made: Made, cut: Option<Cut>) -> usize {
    let kept: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let id = RunId::new("random");
    let store = MortalStore::new(&kept, cut);
    let first = runtime(plan, made, store.clone()).unwrap();
    let how = cut.map_or_else(|| "without a crash".to_owned(), |cut| format!("crash {cut}"));
    let empty = Encoded::new(&json!({})).unwrap();
    let started = async {
        let handle = first.start_named("random", &empty).run_id(id.clone()).await.unwrap();
        let ended = handle.result().await;
        (handle, ended)
    };
    tokio::select! {
        (_, ended) = started => compare(plan, made, &kept, &id, ended, &how).await,
        () = store.died() => {
            drop(first);
            let second = runtime(plan, made, MortalStore::new(&kept, None)).unwrap();
            // The process ended before the run was stored, so there is nothing to resume.
            if kept.record(&id).await.unwrap().is_none() {
                return 0;
            }
            let ended = match second.run(&id).resume().await {
                Ok(handle) => handle.result().await,
                // The run had already ended.
                Err(_) => second.run(&id).output().await,
            };
            compare(plan, made, &kept, &id, ended, &how).await;
        }
    }
    store.writes()
}

/// Checks that the interpreter also skips every node that the error calls unreachable.
fn check_refusal(plan: &[RandomNode], made: Made, error: &str) {
    let states = evaluate(plan, made);
    for named in error.split("the node `n").skip(1) {
        let at = named.split_once("` can never begin: ");
        let at: usize =
            at.and_then(|(at, _)| at.parse().ok()).unwrap_or_else(|| panic!("{error}\n{plan:#?}"));
        assert_eq!(states[at], State::Skipped, "{error}\n{plan:#?}");
    }
}

#[test]
fn random_graphs_have_the_result_of_a_naive_interpreter() {
    let number =
        |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let graphs = number("AGENTFLOW_GRAPHS").unwrap_or(300);
    let seed = number("AGENTFLOW_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("seed {seed}");
    let (mut crashes, mut refused, mut exclusive, mut decided) = (0, 0, 0, 0);
    for number in 0..graphs {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let made = if number % 2 == 0 { Made::Graph } else { Made::Typed };
        let plan = choose(&mut rng, made);
        if depends_on_time(&plan) {
            continue;
        }
        if let Err(error) = runtime(&plan, made, MemoryStore::new()) {
            check_refusal(&plan, made, &error.to_string());
            refused += 1;
            continue;
        }
        decided += u32::from(plan.iter().any(|planned| planned.said.is_some()));
        exclusive += u32::from(check_exclusive(&plan, made, &mut rng));
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        tokio.block_on(async {
            let writes = run(&plan, made, None).await;
            let mut cuts: Vec<Cut> = (1..=writes)
                .flat_map(|write| [false, true].map(|kept| Cut { write, kept }))
                .collect();
            // Every tenth graph is cut at each write, the others at three random writes.
            rng.shuffle(&mut cuts);
            cuts.truncate(if number % 10 == 0 { usize::MAX } else { 3 });
            for cut in cuts {
                run(&plan, made, Some(cut)).await;
                crashes += 1;
            }
        });
    }
    eprintln!(
        "{graphs} graphs, {refused} of them refused, {exclusive} with one key in exclusive arms, {decided} with a decider, \
         {crashes} crashes"
    );
}
