//! Executes a plan: any node may begin when the nodes that it waits for have ended, and running
//! nodes take turns in any order. The counterpart of the machine and the driver of the library,
//! without limits of concurrency.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::builtins::into_fault;
use super::eval::{Done, Flow, Interpreter};
use super::interpreted_code::Item;
use super::kit::actions::Act;
use super::plan::{Body, HiddenEffect, NodeIndex, Plan, PlanNode, StepBody};
use super::step::{Journal, Record, StepContext};
use super::value::{Host, Value};

/// The failure of a node.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) text: String,
    /// The error of the workflow's type.
    pub(super) value: Value,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.debug())
    }
}

impl Failure {
    fn from_error(error: &Value) -> Self {
        let value = into_fault(error);
        Self { text: value.display(), value }
    }

    fn from_text(text: String) -> Self {
        let value = Value::data("Fault", "Run", vec![("0", Value::text(&text))]);
        Self { text, value }
    }
}

/// Converts the end of a body into the output of its node.
fn output(ended: Done) -> Result<Value, Failure> {
    match ended {
        Ok(value) => match value.variant() {
            ("Ok", Some(value)) => Ok(value.clone()),
            (_, error) => Err(Failure::from_error(error.expect("an error is there"))),
        },
        Err(Flow::Panic(text)) => Err(Failure::from_text(text)),
        Err(_) => panic!("a body has ended by leaving a loop"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Ready,
    Running,
    Done,
    Skipped,
    Failed,
}

impl Phase {
    fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Skipped | Self::Failed)
    }
}

/// The state of a run.
pub(super) struct RunState {
    plan: Rc<Plan>,
    phases: RefCell<Vec<Phase>>,
    outputs: RefCell<Vec<Option<Value>>>,
    failures: RefCell<Vec<(NodeIndex, Failure)>>,
    /// First node that may not run because of a failure.
    stopped_from: Cell<Option<NodeIndex>>,
}

impl RunState {
    fn new(plan: Rc<Plan>, inputs: Vec<Value>) -> Self {
        let count = plan.nodes.len();
        let mut inputs = inputs.into_iter();
        let mut phases = vec![Phase::Waiting; count];
        let mut outputs = vec![None; count];
        for (at, node) in plan.nodes.iter().enumerate() {
            if let Body::Input = node.body {
                phases[at] = Phase::Done;
                outputs[at] = Some(inputs.next().expect("there is an input"));
            }
        }
        Self {
            plan,
            phases: RefCell::new(phases),
            outputs: RefCell::new(outputs),
            failures: RefCell::default(),
            stopped_from: Cell::new(None),
        }
    }

    fn phase(&self, node: NodeIndex) -> Phase {
        self.phases.borrow()[node as usize]
    }

    fn set(&self, node: NodeIndex, phase: Phase) {
        self.phases.borrow_mut()[node as usize] = phase;
    }

    fn output(&self, node: NodeIndex) -> Option<Value> {
        self.outputs.borrow()[node as usize].clone()
    }

    fn is_stopped(&self, node: NodeIndex) -> bool {
        self.stopped_from.get().is_some_and(|from| node >= from)
    }

    /// Returns `true` if a call with this effect may begin in the node: the steps above whose
    /// effects it could see have ended.
    pub(super) fn has_turn(&self, node: NodeIndex, effect: HiddenEffect) -> bool {
        (0..node).all(|at| {
            let of = &self.plan.nodes[at as usize];
            let counts = !of.unordered && (effect == HiddenEffect::Writes || of.is_opaque);
            !counts || self.phase(at).has_ended()
        })
    }

    /// Returns the arm that a router chose.
    fn chosen(&self, router: NodeIndex) -> Option<u32> {
        self.output(router).map(|arm| arm.as_int() as u32)
    }

    fn is_in_untaken_arm(&self, node: NodeIndex) -> bool {
        match self.plan.nodes[node as usize].arm {
            None => false,
            Some((router, arm)) => match self.chosen(router) {
                Some(chosen) => chosen != arm,
                None => self.is_in_untaken_arm(router),
            },
        }
    }

    /// Returns `true` if a node cannot run although the nodes that it waits for have ended.
    fn has_obstacle(&self, node: &PlanNode) -> bool {
        let is_other_arm = |(router, arm)| self.chosen(router) != Some(arm);
        let has_returned = |join: NodeIndex| {
            self.plan.nodes[join as usize].reads.iter().any(|end| {
                let Some((router, arm)) = self.plan.nodes[*end as usize].arm else { return false };
                match self.chosen(router) {
                    Some(chosen) => chosen == arm,
                    None => !self.is_in_untaken_arm(router),
                }
            })
        };
        let holds_back = |of: NodeIndex| match self.phase(of) {
            Phase::Failed => true,
            Phase::Skipped => !self.is_in_untaken_arm(of),
            _ => false,
        };
        node.arm.is_some_and(is_other_arm)
            || node.unless.is_some_and(has_returned)
            || node.reads.iter().any(|read| self.output(*read).is_none())
            || node.after.iter().any(|after| after.why.holds_back() && holds_back(after.node))
    }

    /// Decides on all nodes whose predecessors have ended.
    fn decide(&self) {
        for (at, node) in self.plan.nodes.iter().enumerate() {
            let index = at as NodeIndex;
            if self.phase(index) != Phase::Waiting
                || node.awaited().any(|before| !self.phase(before).has_ended())
            {
                continue;
            }
            if let Body::Join = node.body {
                let is_taken =
                    node.arm.is_none_or(|(router, arm)| self.chosen(router) == Some(arm));
                let taken = node.reads.iter().find_map(|end| self.output(*end));
                match taken.filter(|_| is_taken) {
                    Some(output) => self.complete(index, output),
                    None => self.set(index, Phase::Skipped),
                }
            } else {
                let phase = if self.has_obstacle(node) { Phase::Skipped } else { Phase::Ready };
                self.set(index, phase);
            }
        }
    }

    fn complete(&self, node: NodeIndex, output: Value) {
        self.outputs.borrow_mut()[node as usize] = Some(output);
        self.set(node, Phase::Done);
    }

    fn fail(&self, node: NodeIndex, failure: Failure) {
        self.set(node, Phase::Failed);
        self.failures.borrow_mut().push((node, failure));
        if !self.plan.is_best_effort && self.stopped_from.get().is_none_or(|from| node < from) {
            self.stopped_from.set(Some(node));
        }
    }

    /// Returns the values that a body reads.
    fn values(&self, reads: &Value) -> Value {
        match reads {
            Value::Unit => Value::Unit,
            Value::Tuple(all) => Value::tuple(all.iter().map(|one| self.values(one)).collect()),
            Value::Host(Host::Handle(handle)) => match handle.node {
                Some(node) => self.output(node).expect("a node reads what is there"),
                None => Value::Host(Host::ComputedAgain),
            },
            other => panic!("{} is not a handle", other.debug()),
        }
    }
}

type Ending<'a> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + 'a>>;

/// Runs a plan to its end.
pub(super) async fn run(
    interpreter: &Interpreter,
    plan: Rc<Plan>,
    inputs: Vec<Value>,
    path: String,
    journal: Rc<Journal>,
    outer: Option<Rc<StepContext>>,
) -> Result<Value, Failure> {
    let state = Rc::new(RunState::new(Rc::clone(&plan), inputs));
    let mut running: Vec<(NodeIndex, Ending<'_>)> = Vec::new();
    poll_fn(|cx| {
        loop {
            if journal.is_dead() {
                return Poll::Pending;
            }
            state.decide();
            let ready: Vec<NodeIndex> = (0..plan.nodes.len() as NodeIndex)
                .filter(|node| state.phase(*node) == Phase::Ready && !state.is_stopped(*node))
                .collect();
            if !ready.is_empty() && (running.is_empty() || interpreter.world.below(3) > 0) {
                let node = ready[interpreter.world.below(ready.len())];
                state.set(node, Phase::Running);
                interpreter.world.happens();
                let of = Execution {
                    interpreter,
                    state: Rc::clone(&state),
                    plan: Rc::clone(&plan),
                    node,
                    path: format!("{path}/{}", plan.nodes[node as usize].path),
                    journal: Rc::clone(&journal),
                    outer: outer.clone(),
                };
                running.push((node, Box::pin(of.execute())));
                let last = running.len() - 1;
                if poll_one(&state, &mut running, last, cx) {
                    running.retain(|(node, _)| !state.is_stopped(*node));
                }
                continue;
            }
            if running.is_empty() {
                return Poll::Ready(finish(&state));
            }
            let first = interpreter.world.below(running.len());
            let (count, mut has_ended) = (running.len(), false);
            for turn in 0..count {
                if journal.is_dead() {
                    return Poll::Pending;
                }
                if poll_one(&state, &mut running, (first + turn) % count, cx) {
                    interpreter.world.happens();
                    has_ended = true;
                    break;
                }
            }
            // A failure stops the running steps below it.
            running.retain(|(node, _)| !state.is_stopped(*node));
            if !has_ended && ready.is_empty() {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Polls a running node. Returns `true` if it has ended.
fn poll_one(
    state: &RunState,
    running: &mut Vec<(NodeIndex, Ending<'_>)>,
    at: usize,
    cx: &mut Context<'_>,
) -> bool {
    let Poll::Ready(ended) = running[at].1.as_mut().poll(cx) else { return false };
    let (node, _) = running.remove(at);
    match ended {
        Ok(output) => state.complete(node, output),
        Err(failure) => state.fail(node, failure),
    }
    true
}

fn finish(state: &RunState) -> Result<Value, Failure> {
    let failures = state.failures.borrow();
    if let Some((_, failure)) = failures.iter().min_by_key(|(node, _)| *node) {
        return Err(failure.clone());
    }
    let nothing = || Failure::from_text("there is no output".to_owned());
    state.output(state.plan.output).ok_or_else(nothing)
}

/// The execution of a node.
struct Execution<'a> {
    interpreter: &'a Interpreter,
    state: Rc<RunState>,
    plan: Rc<Plan>,
    node: NodeIndex,
    path: String,
    journal: Rc<Journal>,
    outer: Option<Rc<StepContext>>,
}

impl Execution<'_> {
    async fn execute(self) -> Result<Value, Failure> {
        let plan = Rc::clone(&self.plan);
        let node = &plan.nodes[self.node as usize];
        match self.journal.get(&self.path) {
            Some(Record::Completed(value)) => return Ok(value),
            Some(Record::Failed(failure)) => return Err(failure),
            _ => {}
        }
        let ended = match &node.body {
            Body::Input | Body::Join => panic!("it has no body"),
            Body::Pure(body) => self.pure(body).await,
            Body::Router { arms, pick } => self.pure(pick).await.map(|arm| {
                let at = arms.iter().position(|known| *known == arm.as_text());
                Value::Int(at.expect("a router chooses one of its arms") as i64)
            }),
            Body::Gate(question) => self.gate(question).await,
            Body::Step(body) => {
                return self.unit(node, body, None, &node.direct, self.path.clone()).await;
            }
            Body::Map { items, body, collects } => self.map(node, *items, body, *collects).await,
            Body::Repeat { first, until, max, body } => {
                self.repeat(node, *first, until, *max, body).await
            }
            Body::Fallback(branches) => {
                let mut texts: Vec<String> = Vec::new();
                let mut ended = None;
                for (at, branch) in branches.iter().enumerate() {
                    let path = format!("{}[{at}]", self.path);
                    match self.unit(node, &branch.body, None, &None, path).await {
                        Ok(value) => {
                            ended = Some(Ok(value));
                            break;
                        }
                        Err(failure) => {
                            texts.push(failure.text.clone());
                            let text = format!(
                                "all {} branches failed: {}",
                                texts.len(),
                                texts.join("; ")
                            );
                            ended = Some(Err(Failure { text, ..failure }));
                        }
                    }
                }
                ended.expect("there is a branch")
            }
        };
        self.record(&self.path, &ended).await;
        ended
    }

    async fn record(&self, path: &str, ended: &Result<Value, Failure>) {
        let record = match ended {
            Ok(value) => Record::Completed(value.clone()),
            Err(failure) => Record::Failed(failure.clone()),
        };
        self.journal.write(path, record).await;
    }

    /// Computes a value, which does not wait.
    async fn pure(&self, body: &StepBody) -> Result<Value, Failure> {
        let StepBody::Closure(closure, reads) = body else { panic!("a value has no plan") };
        let values = self.state.values(reads);
        // The body of a value that calls functions is async, and takes its context too.
        match self.interpreter.apply(closure, vec![values.clone()], &None) {
            Ok(Value::Future(_)) => {
                let ended =
                    self.interpreter.async_closure(closure, vec![with_context(values)], None).await;
                output(ended)
            }
            ended => output(ended),
        }
    }

    async fn gate(&self, question: &StepBody) -> Result<Value, Failure> {
        let question = match self.journal.get(&self.path) {
            Some(Record::Asked(question)) => question,
            _ => {
                let asked = self.pure(question).await?;
                let Value::Tuple(parts) = &asked else { panic!("a question has two parts") };
                let question = parts[0].as_text().to_owned();
                self.journal.write(&self.path, Record::Asked(question.clone())).await;
                question
            }
        };
        let world = &self.interpreter.world;
        world.think().await;
        world.note(Act::Gate, "gate", 0, question.clone());
        let rule = self.interpreter.globals.function("rule").expect("the kit has a rule");
        let rule = Value::Function(Rc::clone(rule));
        match self.interpreter.apply(&rule, vec![Value::text(question)], &None) {
            Ok(answer) => Ok(answer),
            Err(_) => panic!("a rule gives an answer"),
        }
    }

    /// Executes a step, an item, a round or a branch, and records its end.
    async fn unit(
        &self,
        node: &PlanNode,
        body: &StepBody,
        item: Option<Value>,
        direct: &Option<Rc<Item>>,
        path: String,
    ) -> Result<Value, Failure> {
        match self.journal.get(&path) {
            Some(Record::Completed(value)) => return Ok(value),
            Some(Record::Failed(failure)) => return Err(failure),
            Some(Record::Started { is_repeatable: false }) => {
                self.journal.retries.set(self.journal.retries.get() + 1);
            }
            _ => {}
        }
        let is_repeatable = node.is_repeatable;
        self.journal.write(&path, Record::Started { is_repeatable }).await;
        let step = Rc::new(StepContext {
            path: path.clone(),
            run: Rc::clone(&self.state),
            node: self.node,
            direct: direct.clone(),
            is_direct_taken: Cell::new(false),
            has_turn: node.has_turn(),
            outer: self.outer.clone(),
            journal: Rc::clone(&self.journal),
            calls: RefCell::new(HashMap::new()),
        });
        let ended = match body {
            StepBody::Closure(closure, reads) => {
                let values = self.state.values(reads);
                let values = match item {
                    Some(item) => Value::tuple(vec![item, values]),
                    None => values,
                };
                let arguments = vec![with_context(values)];
                output(self.interpreter.async_closure(closure, arguments, Some(step)).await)
            }
            StepBody::Inner(plan, reads) => {
                let read = reads.iter().map(|node| self.state.output(*node).expect("it is there"));
                let inputs = item.into_iter().chain(read).collect();
                let journal = Rc::clone(&self.journal);
                let plan = Rc::clone(plan);
                let body = format!("{path}/body");
                let inner = run(self.interpreter, plan, inputs, body, journal, Some(step));
                let inner: Ending<'_> = Box::pin(inner);
                inner.await
            }
        };
        self.record(&path, &ended).await;
        ended
    }

    async fn map(
        &self,
        node: &PlanNode,
        items: NodeIndex,
        body: &StepBody,
        collects: bool,
    ) -> Result<Value, Failure> {
        let items = self.state.output(items).expect("a list is there");
        let items = items.as_list();
        let at_once = node.concurrency.map_or(items.len(), |limit| limit.max(1) as usize);
        let mut outputs: Vec<Option<Value>> = vec![None; items.len()];
        let mut running: Vec<(usize, Ending<'_>)> = Vec::new();
        let mut begun = 0;
        let direct = &node.direct;
        let ended = poll_fn(|cx| {
            loop {
                while begun < items.len() && running.len() < at_once {
                    let path = format!("{}[{begun}]", self.path);
                    let item = Some(items[begun].clone());
                    running.push((begun, Box::pin(self.unit(node, body, item, direct, path))));
                    begun += 1;
                }
                if running.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let (count, mut has_ended) = (running.len(), false);
                let first = self.interpreter.world.below(count);
                for turn in 0..count {
                    if self.journal.is_dead() {
                        return Poll::Pending;
                    }
                    let at = (first + turn) % count;
                    if let Poll::Ready(ended) = running[at].1.as_mut().poll(cx) {
                        let (item, _) = running.remove(at);
                        match ended {
                            Ok(output) => outputs[item] = Some(output),
                            Err(failure) => return Poll::Ready(Err(failure)),
                        }
                        has_ended = true;
                        break;
                    }
                }
                if !has_ended {
                    return Poll::Pending;
                }
            }
        })
        .await;
        ended.map(|()| match collects {
            true => Value::list(outputs.into_iter().flatten().collect()),
            false => Value::Unit,
        })
    }

    async fn repeat(
        &self,
        node: &PlanNode,
        first: NodeIndex,
        until: &Value,
        max: u32,
        body: &StepBody,
    ) -> Result<Value, Failure> {
        let mut last = self.state.output(first).expect("a first value is there");
        for round in 0..max {
            let path = format!("{}[{round}]", self.path);
            last = self.unit(node, body, Some(last), &node.direct, path).await?;
            match self.interpreter.apply(until, vec![last.clone()], &None) {
                Ok(is_over) if is_over.as_bool() => break,
                Ok(_) => {}
                Err(_) => return Err(Failure::from_text("the end is not known".to_owned())),
            }
        }
        Ok(last)
    }
}

/// Returns the argument of the body of a step.
fn with_context(values: Value) -> Value {
    let all = Value::tuple(vec![Value::Host(Host::Context), values]);
    Value::Host(Host::Arguments(Rc::new(all)))
}
