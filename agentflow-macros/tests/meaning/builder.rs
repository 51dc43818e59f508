//! The objects that expansions use: the builder of the plan, its nodes, routers and handles. The
//! counterpart of `Steps` and `Builder` of the library.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use super::eval::{Done, Flow, Frame, Interpreter};
use super::interpreted_code::{Code, Item, Pattern, Statement};
use super::plan::{
    Body, Kind, Looks, NewNode, NodeIndex, Nodes, Plan, PlanBranch, Settings, StepBody,
};
use super::step::StepContext;
use super::types::{Inference, Ty};
use super::value::{BranchValue, Future, Handle, Host, Name, Value, intern};

/// A plan that is being built.
#[derive(Default)]
pub(super) struct Builder {
    nodes: Nodes,
    names: HashSet<String>,
    prefix: String,
    guard: Option<(NodeIndex, u32)>,
    unless: Option<NodeIndex>,
    is_best_effort: bool,
}

/// The decisions of routers on the arms around a node.
type ArmDecisions = Vec<Rc<Cell<Option<bool>>>>;

/// A node as the expansion describes it.
#[derive(Clone, Default)]
pub(super) struct NodeSettings {
    name: Name,
    settings: Settings,
    /// Answers that decide if the node depends on effects, with the steps that it then waits for.
    unless: Vec<(ArmDecisions, Looks)>,
}

impl NodeSettings {
    /// Returns the settings with the answers about types.
    fn settled(&self) -> Settings {
        let mut settings = self.settings.clone();
        for (answers, looks) in &self.unless {
            let is_other = |answer: &Rc<Cell<Option<bool>>>| {
                !answer
                    .get()
                    .unwrap_or_else(|| panic!("a question of `{}` was not answered", self.name))
            };
            if answers.iter().any(is_other) {
                settings.looks = *looks;
            }
        }
        settings
    }
}

/// Builds the plan of a workflow from the function `nodes` of its expansion.
pub(super) fn build(
    interpreter: &Interpreter,
    nodes: &Value,
    inputs: &[(Name, Ty)],
) -> Result<Plan, String> {
    let mut builder = Builder::default();
    let handles = inputs.iter().map(|(name, ty)| builder.input(name, ty.clone())).collect();
    let steps = Rc::new(RefCell::new(builder));
    let host = Value::Host(Host::Steps(Rc::clone(&steps)));
    let output = interpreter.apply(nodes, vec![host, Value::tuple(handles)], &None);
    finish(&steps, output)
}

fn finish(steps: &Rc<RefCell<Builder>>, output: Done) -> Result<Plan, String> {
    let output = match output {
        Ok(Value::Host(Host::Handle(Handle { node: Some(node), .. }))) => node,
        Ok(other) => return Err(format!("{} is not a handle", other.debug())),
        Err(_) => return Err("building the plan has failed".to_owned()),
    };
    let Builder { nodes, is_best_effort, .. } = std::mem::take(&mut *steps.borrow_mut());
    Ok(Plan { nodes: nodes.all, output, is_best_effort })
}

fn handle_value(node: NodeIndex, ty: Ty) -> Value {
    Value::Host(Host::Handle(Handle { node: Some(node), ty }))
}

fn as_handle(value: &Value) -> Handle {
    match value {
        Value::Host(Host::Handle(handle)) => handle.clone(),
        other => panic!("{} is not a handle", other.debug()),
    }
}

/// Returns the handles in a tuple, which may be nested.
fn handles(reads: &Value, into: &mut Vec<Handle>) {
    match reads {
        Value::Unit => {}
        Value::Tuple(all) => all.iter().for_each(|one| handles(one, into)),
        one => into.push(as_handle(one)),
    }
}

fn types(reads: &Value) -> Ty {
    match reads {
        Value::Unit => Ty::Unit,
        Value::Tuple(all) => Ty::Tuple(all.iter().map(types).collect()),
        one => as_handle(one).ty,
    }
}

fn indexes(reads: &Value) -> Vec<NodeIndex> {
    let mut all = Vec::new();
    handles(reads, &mut all);
    all.iter().filter_map(|handle| handle.node).collect()
}

/// Returns the reads with handles of another builder.
fn moved(reads: &Value, to: &mut dyn FnMut(&Handle) -> Value) -> Value {
    match reads {
        Value::Unit => Value::Unit,
        Value::Tuple(all) => Value::tuple(all.iter().map(|one| moved(one, to)).collect()),
        one => to(&as_handle(one)),
    }
}

fn as_name(value: &Value) -> Name {
    intern(value.as_text())
}

impl Builder {
    fn input(&mut self, name: &str, ty: Ty) -> Value {
        let body = Body::Input;
        self.add(name, Kind::Input, Vec::new(), Vec::new(), body, ty, &Settings::default())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a node")]
    fn add(
        &mut self,
        name: &str,
        kind: Kind,
        reads: Vec<NodeIndex>,
        callees: Vec<Rc<Item>>,
        body: Body,
        ty: Ty,
        settings: &Settings,
    ) -> Value {
        let path = format!("{}{name}", self.prefix);
        // Two inputs of a body can have one name, and are renamed.
        let is_new = self.names.insert(path.clone()) || kind == Kind::Input;
        assert!(is_new, "two nodes are named `{path}`");
        let (arm, unless) = (self.guard, self.unless);
        let new = NewNode { path, kind, reads, arm, unless, callees, body, ty: ty.clone() };
        handle_value(self.nodes.add(new, settings), ty)
    }

    fn join(&mut self, path: String, ends: Vec<Handle>) -> Value {
        let ty = ends.iter().fold(Ty::Never, |ty, end| ty.or(end.ty.clone()));
        let ends = ends.iter().filter_map(|end| end.node).collect();
        let outer = std::mem::take(&mut self.prefix);
        let joined =
            self.add(&path, Kind::Join, ends, Vec::new(), Body::Join, ty, &Settings::default());
        self.prefix = outer;
        joined
    }
}

/// Calls a function of the library or a constructor that only expansions use.
pub(super) fn function(of: Name, name: Name, arguments: &[Value]) -> Option<Done> {
    let first = || arguments[0].clone();
    let host = |host: Host| Some(Ok(Value::Host(host)));
    match (of, name) {
        ("Node", "new") => host(Host::Node(Rc::new(NodeSettings {
            name: as_name(&first()),
            ..Default::default()
        }))),
        ("Arms", "arm") => {
            let Value::Host(Host::Arms(arms)) = first() else { panic!("these are no arms") };
            let mut arms = Vec::clone(&arms);
            arms.push(as_handle(&arguments[1]));
            host(Host::Arms(Rc::new(arms)))
        }
        ("Arms", "same") => Some(Ok(first())),
        ("Branches", "branch") => {
            let Value::Host(Host::Branches(all)) = first() else { panic!("no branches") };
            let Value::Host(Host::Branch(one)) = &arguments[1] else { panic!("no branch") };
            let mut all = Vec::clone(&all);
            all.push(BranchValue::clone(one));
            host(Host::Branches(Rc::new(all)))
        }
        ("WorkflowContext", _) => Some(Ok(first())),
        ("__private", _) => match name {
            "told" => host(Host::Told(Rc::default())),
            "arms" => host(Host::Arms(Rc::default())),
            "returns" => host(Host::Returns(Rc::default())),
            "branches" => host(Host::Branches(Rc::default())),
            "Chosen" => Some(Ok(match first() {
                Value::Host(Host::ComputedAgain) => Value::none(),
                value => Value::some(value),
            })),
            "looked" => Some(Ok(arguments[1].clone())),
            "And" => Some(Ok(Value::tuple(arguments.to_vec()))),
            "not_this_arm" => {
                Some(Err(Flow::Panic("a node of an arm that was not taken has run".to_owned())))
            }
            "Ok" => Some(Ok(Value::ok(first()))),
            "Some" => Some(Ok(Value::some(first()))),
            "function_id" => Some(Ok(Value::Unit)),
            "TriedStep" | "TriedValue" | "FormStep" | "LetOutput" | "Output" | "Receiver"
            | "of_type" => Some(Ok(first())),
            other => panic!("the interpreter does not know `{other}` of the library"),
        },
        _ => None,
    }
}

/// Calls a method of an object of the expansion.
pub(super) fn method(
    interpreter: &Interpreter,
    host: &Host,
    name: Name,
    turbofish: &[Ty],
    arguments: Vec<Value>,
    step: &Option<Rc<StepContext>>,
) -> Done {
    match host {
        Host::Steps(steps) => Adding { interpreter, steps }.method(name, turbofish, arguments),
        Host::Node(node) => {
            let node = settings(NodeSettings::clone(node), name, &arguments);
            Ok(Value::Host(Host::Node(Rc::new(node))))
        }
        Host::Returns(returns) if name == "add" => {
            returns.borrow_mut().push(as_handle(&arguments[0]));
            Ok(Value::Unit)
        }
        Host::Told(told) if name == "is_standard" => {
            Ok(Value::Host(Host::IsStandard(Rc::clone(told))))
        }
        Host::Arguments(values) if name == "calling" => {
            Ok(Value::Future(Rc::new(Future::Ready(Value::clone(values)))))
        }
        Host::Rate if name == "lock" => Ok(Value::ok(Value::Int(interpreter.world.rate.get()))),
        Host::Rate => Ok(Value::Int(interpreter.world.rate.get())),
        Host::Local if name == "with" => {
            interpreter.apply(&arguments[0], vec![Value::Host(Host::Rate)], step)
        }
        Host::Context if name == "run_id" => Ok(Value::text("run")),
        Host::Handle(_) if name == "owned" => Ok(Value::Unit),
        _ => panic!("the interpreter does not know the method `{name}` of the library"),
    }
}

fn settings(mut node: NodeSettings, name: Name, arguments: &[Value]) -> NodeSettings {
    let answers = |value: &Value| {
        let answer = |one: &Value| match one {
            Value::Host(Host::IsStandard(told)) => Rc::clone(told),
            other => panic!("{} is not an answer", other.debug()),
        };
        value.as_list().iter().map(answer).collect()
    };
    let of = &mut node.settings;
    match name {
        "line" | "code" | "calls" | "text" | "timeout" => {}
        "direct" => of.is_direct = true,
        "checking" => of.is_check = true,
        "at_its_place" => of.looks = Looks::Everything,
        "after_effects" => of.looks = Looks::Effects,
        "at_its_place_unless" => node.unless.push((answers(&arguments[0]), Looks::Everything)),
        "after_effects_unless" => node.unless.push((answers(&arguments[0]), Looks::Effects)),
        "write" => of.writes = true,
        "unordered" => of.unordered = true,
        "repeatable" => of.repeatable = Some(arguments[0].as_bool()),
        "concurrency" => of.concurrency = Some(arguments[0].as_int() as u32),
        "after" => of.after.extend(as_handle(&arguments[0]).node),
        other => panic!("the interpreter does not know the setting `{other}` of a node"),
    }
    node
}

/// Adds nodes to a builder.
struct Adding<'a> {
    interpreter: &'a Interpreter,
    steps: &'a Rc<RefCell<Builder>>,
}

/// Returns the type in a `Result`.
fn ok_type(ty: Ty) -> Ty {
    match ty {
        Ty::Result(of, _) => *of,
        other => other,
    }
}

impl Adding<'_> {
    fn method(&self, name: Name, turbofish: &[Ty], arguments: Vec<Value>) -> Done {
        let written = turbofish.get(1).cloned().unwrap_or_default();
        let typed = |found: Ty| match &written {
            Ty::Unknown => found,
            written => written.clone(),
        };
        let node = |at: usize| match &arguments[at] {
            Value::Host(Host::Node(node)) => Rc::clone(node),
            other => panic!("{} is not a node", other.debug()),
        };
        let pure = |body: &Value, reads: &Value| {
            let ty = Inference::closure(&self.interpreter.globals, body, &[types(reads)]);
            (StepBody::Closure(body.clone(), reads.clone()), ok_type(ty))
        };
        let waiting = |body: &Value, reads: &Value, item: Option<Ty>| {
            let values = types(reads);
            let all = match item {
                Some(item) => Ty::Tuple(vec![item, values]),
                None => values,
            };
            let takes = Ty::Arguments(Box::new(all));
            let ty = Inference::closure(&self.interpreter.globals, body, &[takes]);
            let body_of = StepBody::Closure(body.clone(), reads.clone());
            (body_of, ok_type(ty), self.callees(body))
        };
        match name {
            "describe" | "concurrency" | "unread" => Ok(Value::Unit),
            "stop_policy" => {
                self.steps.borrow_mut().is_best_effort = true;
                Ok(Value::Unit)
            }
            "step" | "step_plain" | "matched" | "guarded_step" | "joined_step" => {
                let (body, ty, callees) = waiting(&arguments[2], &arguments[1], None);
                let (ty, reads) = (typed(ty), indexes(&arguments[1]));
                Ok(self.add(&node(0), reads, callees, Body::Step(body), ty))
            }
            "value" | "let_value" | "guarded_value" => {
                let (body, ty) = pure(&arguments[2], &arguments[1]);
                let (ty, reads) = (typed(ty), indexes(&arguments[1]));
                Ok(self.add(&node(0), reads, Vec::new(), Body::Pure(body), ty))
            }
            "never" => {
                let (body, _) = pure(&arguments[2], &arguments[1]);
                let mut node = NodeSettings::clone(&node(0));
                node.settings.is_check = true;
                let reads = indexes(&arguments[1]);
                Ok(self.add(&node, reads, Vec::new(), Body::Pure(body), Ty::Never))
            }
            "value_call" | "clock_value" | "check" | "never_call" => {
                let (body, ty, callees) = waiting(&arguments[2], &arguments[1], None);
                let mut node = NodeSettings::clone(&node(0));
                node.settings.is_check |= name == "check" || name == "never_call";
                let ty = match name {
                    "check" => Ty::Unit,
                    "never_call" => Ty::Never,
                    _ => typed(ty),
                };
                let reads = indexes(&arguments[1]);
                if callees.iter().any(|callee| callee.tool.is_some()) {
                    node.settings.is_under_its_tools = true;
                    return Ok(self.add(&node, reads, callees, Body::Step(body), ty));
                }
                Ok(self.add(&node, reads, callees, Body::Pure(body), ty))
            }
            "look" => {
                let (body, ty) = pure(&arguments[2], &arguments[1]);
                if let Ty::Again = ty {
                    return Ok(Value::Host(Host::Handle(Handle { node: None, ty })));
                }
                let reads = indexes(&arguments[1]);
                Ok(self.add(&node(0), reads, Vec::new(), Body::Pure(body), ty))
            }
            "route" => {
                let arms = arguments[1].as_list().iter().map(as_name).collect();
                let (pick, _) = pure(&arguments[3], &arguments[2]);
                let body = Body::Router { arms, pick };
                let reads = indexes(&arguments[2]);
                let router = self.add(&node(0), reads, Vec::new(), body, Ty::Unit);
                let at = as_handle(&router).node.expect("a router is a node");
                Ok(Value::Host(Host::Router(at)))
            }
            "arm" => self.arm(&arguments),
            "join" => {
                let Value::Host(Host::Arms(arms)) = &arguments[1] else { panic!("no arms") };
                let path = self.path_of_router(&arguments[0], "end");
                Ok(self.steps.borrow_mut().join(path, Vec::clone(arms)))
            }
            "returned" => {
                let Value::Host(Host::Returns(returns)) = &arguments[1] else { panic!("no ends") };
                let path = self.path_of_router(&arguments[0], "return");
                let joined = self.steps.borrow_mut().join(path, returns.borrow().clone());
                Ok(Value::Host(Host::Returned(as_handle(&joined).node.expect("a node"))))
            }
            // Of a deliberate fault.
            "always" => self.nested(&arguments[1]),
            "unless" => {
                let Value::Host(Host::Returned(join)) = arguments[0] else { panic!("no end") };
                let outer = self.steps.borrow_mut().unless.replace(join);
                let end = self.nested(&arguments[1]);
                self.steps.borrow_mut().unless = outer;
                end
            }
            "either" => {
                let Value::Host(Host::Returns(returns)) = &arguments[0] else { panic!("no ends") };
                let mut ends = returns.borrow().clone();
                ends.push(as_handle(&arguments[1]));
                Ok(self.steps.borrow_mut().join("return".to_owned(), ends))
            }
            "gate" => {
                let (body, _) = pure(&arguments[2], &arguments[1]);
                let reads = indexes(&arguments[1]);
                let (node, ty) = (node(0), Ty::Named("Approval"));
                let settings = node.settled();
                let (kind, body) = (Kind::Gate, Body::Gate(body));
                let mut builder = self.steps.borrow_mut();
                Ok(builder.add(node.name, kind, reads, Vec::new(), body, ty, &settings))
            }
            "items" => Ok(arguments[1].clone()),
            "map" => {
                let (items, reads) = (as_handle(&arguments[1]), &arguments[2]);
                let item = item_of(&items.ty);
                let (body, ty, callees) = waiting(&arguments[3], reads, Some(item));
                self.each(&node(0), &items, indexes(reads), callees, body, Some(ty))
            }
            "map_body" | "for_each" => {
                let (items, reads) = (as_handle(&arguments[1]), &arguments[2]);
                let item = item_of(&items.ty);
                let (plan, ty) = self.inner(Some(item), reads, &arguments[3])?;
                let body = StepBody::Inner(plan, indexes(reads));
                let ty = (name == "map_body").then_some(ty);
                self.each(&node(0), &items, indexes(reads), Vec::new(), body, ty)
            }
            "repeat" | "repeat_body" => {
                let (first, reads) = (as_handle(&arguments[1]), &arguments[2]);
                let Value::Tuple(limits) = &arguments[3] else { panic!("no limits") };
                let (body, callees) = match name {
                    "repeat" => {
                        let (body, _, callees) =
                            waiting(&arguments[4], reads, Some(first.ty.clone()));
                        (body, callees)
                    }
                    _ => {
                        let (plan, _) = self.inner(Some(first.ty.clone()), reads, &arguments[4])?;
                        (StepBody::Inner(plan, indexes(reads)), Vec::new())
                    }
                };
                let at = first.node.expect("a first value is a node");
                let (max, until) = (limits[0].as_int() as u32, limits[1].clone());
                let all = std::iter::once(at).chain(indexes(reads)).collect();
                let body = Body::Repeat { first: at, until, max, body };
                Ok(self.add(&node(0), all, callees, body, first.ty))
            }
            "branch" => {
                let (body, ty, callees) = waiting(&arguments[2], &arguments[1], None);
                self.branch(&arguments[0], &arguments[1], body, callees, ty)
            }
            "branch_body" => {
                let (plan, ty) = self.inner(None, &arguments[1], &arguments[2])?;
                let body = StepBody::Inner(plan, indexes(&arguments[1]));
                self.branch(&arguments[0], &arguments[1], body, Vec::new(), ty)
            }
            "fallback" => {
                let Value::Host(Host::Branches(all)) = &arguments[1] else { panic!("no branches") };
                let (mut reads, mut callees, mut ty) = (Vec::new(), Vec::new(), Ty::Never);
                let mut branches = Vec::new();
                for branch in all.iter() {
                    reads.extend(branch.reads.iter().filter_map(|handle| handle.node));
                    callees.extend(branch.callees.iter().cloned());
                    ty = ty.or(branch.ty.clone());
                    branches.push(PlanBranch {
                        body: branch.body.clone(),
                        callees: branch.callees.clone(),
                    });
                }
                Ok(self.add(&node(0), reads, callees, Body::Fallback(branches), ty))
            }
            other => panic!("the interpreter does not know `steps.{other}`"),
        }
    }

    fn add(
        &self,
        node: &NodeSettings,
        reads: Vec<NodeIndex>,
        callees: Vec<Rc<Item>>,
        body: Body,
        ty: Ty,
    ) -> Value {
        let settings = node.settled();
        let mut builder = self.steps.borrow_mut();
        builder.add(node.name, Kind::Other, reads, callees, body, ty, &settings)
    }

    fn each(
        &self,
        node: &NodeSettings,
        items: &Handle,
        reads: Vec<NodeIndex>,
        callees: Vec<Rc<Item>>,
        body: StepBody,
        collected: Option<Ty>,
    ) -> Done {
        let at = items.node.expect("a list is a node");
        let mut node = node.clone();
        let collects = collected.is_some();
        if !collects {
            node.settings.concurrency = Some(1);
        }
        let ty = collected.map_or(Ty::Unit, |ty| Ty::List(Box::new(ty)));
        let all = std::iter::once(at).chain(reads).collect();
        Ok(self.add(&node, all, callees, Body::Map { items: at, body, collects }, ty))
    }

    fn branch(
        &self,
        name: &Value,
        reads: &Value,
        body: StepBody,
        callees: Vec<Rc<Item>>,
        ty: Ty,
    ) -> Done {
        let mut all = Vec::new();
        handles(reads, &mut all);
        let branch = BranchValue { name: as_name(name), reads: all, body, callees, ty };
        Ok(Value::Host(Host::Branch(Rc::new(branch))))
    }

    /// Adds nodes with the same builder.
    fn nested(&self, nodes: &Value) -> Done {
        let steps = Value::Host(Host::Steps(Rc::clone(self.steps)));
        self.interpreter.apply(nodes, vec![steps], &None)
    }

    fn arm(&self, arguments: &[Value]) -> Done {
        let Value::Host(Host::Router(router)) = arguments[0] else { panic!("no router") };
        let name = arguments[1].as_text();
        let (first, outer, opened) = {
            let mut builder = self.steps.borrow_mut();
            let of = &builder.nodes.all[router as usize];
            let Body::Router { arms, .. } = &of.body else { panic!("no router") };
            let at = arms.iter().position(|arm| *arm == name).expect("the router has the arm");
            let prefix = format!("{}/{name}/", of.path);
            let outer = (std::mem::replace(&mut builder.prefix, prefix), builder.guard);
            builder.guard = Some((router, at as u32));
            let opened = builder.nodes.open_arm(router);
            (builder.nodes.all.len(), outer, opened)
        };
        let end = self.nested(&arguments[2]);
        let mut builder = self.steps.borrow_mut();
        let end = end.map(|end| {
            let handle = as_handle(&end);
            match handle.node {
                Some(node) if (node as usize) < first => builder.add(
                    "yield",
                    Kind::Join,
                    vec![node],
                    Vec::new(),
                    Body::Join,
                    handle.ty,
                    &Settings::default(),
                ),
                _ => end,
            }
        });
        builder.nodes.close_arm(opened);
        (builder.prefix, builder.guard) = outer;
        end
    }

    fn path_of_router(&self, router: &Value, end: &str) -> String {
        let Value::Host(Host::Router(router)) = router else { panic!("no router") };
        format!("{}/{end}", self.steps.borrow().nodes.all[*router as usize].path)
    }

    /// Builds the nested workflow of an item, a round or a branch.
    fn inner(
        &self,
        item: Option<Ty>,
        reads: &Value,
        nodes: &Value,
    ) -> Result<(Rc<Plan>, Ty), Flow> {
        let is_best_effort = self.steps.borrow().is_best_effort;
        let mut builder = Builder { is_best_effort, ..Builder::default() };
        let item = item.map(|ty| builder.input("item", ty));
        let outer = self.steps.borrow();
        let read = moved(reads, &mut |handle| match handle.node {
            Some(node) => {
                let path = &outer.nodes.all[node as usize].path;
                builder.input(&format!("outer.{path}"), handle.ty.clone())
            }
            None => Value::Host(Host::Handle(handle.clone())),
        });
        drop(outer);
        let inner = Rc::new(RefCell::new(builder));
        let steps = Value::Host(Host::Steps(Rc::clone(&inner)));
        let arguments = std::iter::once(steps).chain(item).chain([read]).collect();
        let output = self.interpreter.apply(nodes, arguments, &None)?;
        let ty = as_handle(&output).ty;
        let plan = finish(&inner, Ok(output)).unwrap_or_else(|problem| panic!("{problem}"));
        Ok((Rc::new(plan), ty))
    }

    /// Returns the functions that a body announces.
    fn callees(&self, body: &Value) -> Vec<Rc<Item>> {
        let Value::Closure(closure) = body else { panic!("{} is no body", body.debug()) };
        let mut code: &Code = &closure.body;
        while let Code::Sync(inner) = code {
            code = inner;
        }
        let Code::Async { body, .. } = code else { panic!("a body is async") };
        let mut code: &Code = body;
        while let Code::Sync(inner) = code {
            code = inner;
        }
        let Code::Block(statements, _) = code else { panic!("a body is a block") };
        let mut found = Vec::new();
        let mut frame = Frame::new(None, "Fault");
        for statement in statements {
            let Statement::Let { pattern: Pattern::Bind(name, None), value, .. } = statement else {
                continue;
            };
            if !name.starts_with("agentflow_call_") {
                continue;
            }
            if let Ok(Value::Function(item)) = self.interpreter.eval(value, &mut frame) {
                found.push(item);
            }
        }
        found
    }
}

fn item_of(list: &Ty) -> Ty {
    match list {
        Ty::List(of) => (**of).clone(),
        other => other.clone(),
    }
}
