//! Learns which function a step calls. The function's type says whether it is a `#[tool]`, an `#[agent]` or a
//! `#[workflow]`, also when it was renamed or imported; its name could only be guessed. So a tool's policy holds for
//! the node that calls it.
//!
//! `#[workflow]` writes the step `let page = fetch(url).await?;` as
//!
//! ```text
//! steps.step(Node::new("page"), (url,), move |args| async move {
//!     let f = fetch;                      // only the compiler can say what `fetch` is
//!     let callees = [function_id(&f)];    // built: notes the type of `f`, and never goes further
//!     let (cx, (url,)) = args.calling(callees).await;
//!     Ok(f(url).await?)                   // run: ready at once, with the context and the values
//! })
//! ```
//!
//! [`ask_callees`] polls this body once while the workflow is built; none of the user's code runs then. The type is
//! asked for within the body, since the type parameters of a generic function follow from the arguments of its call.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use serde_json::Value;

use super::linked_workflow::LinkedWorkflow;
use super::saved_outputs::FIELDS;
#[cfg(feature = "dynamic")]
use super::spec::Referenced;
use super::spec::{Body, NodeSpec, Spec};
use crate::agent::AgentDefinition;
use crate::context::Context;
use crate::dry_run::DryCall;
use crate::linked;
use crate::tool::{Effects, HiddenEffect, NeededResource, ToolDefinition, ToolPolicy, ToolRef};

/// Which attribute a function has.
#[derive(Clone)]
enum CalleeKind {
    Tool(ToolRef),
    Agent(&'static AgentDefinition),
    Workflow(LinkedWorkflow),
}

fn kind(function: TypeId) -> Option<&'static CalleeKind> {
    static KINDS: OnceLock<HashMap<TypeId, CalleeKind>> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        let kind = |item: Box<dyn Any>| match item.downcast::<ToolRef>() {
            Ok(tool) => Some(CalleeKind::Tool(*tool)),
            Err(item) => match item.downcast::<&'static AgentDefinition>() {
                Ok(agent) => Some(CalleeKind::Agent(*agent)),
                Err(item) => item.downcast::<LinkedWorkflow>().ok().map(|workflow| CalleeKind::Workflow(*workflow)),
            },
        };
        linked::all().filter_map(|(function, item)| Some((function, kind(item)?))).collect()
    });
    kinds.get(&function)
}

/// The definition of a tool, when the function is one.
pub(super) fn tool_definition(function: TypeId) -> Option<Arc<ToolDefinition>> {
    match kind(function)? {
        CalleeKind::Tool(tool) => Some(Arc::clone(tool.definition())),
        _ => None,
    }
}

/// The policy of a tool, when the function is one.
pub(super) fn tool_policy(function: TypeId) -> Option<ToolPolicy> {
    Some(tool_definition(function)?.policy.clone())
}

/// Whether a function is a tool that must not be called twice, and whose call within an expression cannot wait until its
/// start is kept.
pub(super) fn is_once_and_sync(function: TypeId) -> bool {
    match kind(function) {
        Some(CalleeKind::Tool(tool)) => tool.returns_at_once() && !tool.definition().policy.is_repeatable(),
        _ => false,
    }
}

/// The function behind a tool that is linked into the program.
#[cfg(feature = "dynamic")]
pub(super) fn function_of(tool: &ToolRef) -> Option<TypeId> {
    let tool = tool.original();
    let is_it = |of: &ToolRef| of.is(tool);
    linked::all().find_map(|(function, item)| item.downcast_ref::<ToolRef>().is_some_and(is_it).then_some(function))
}

/// The word for the function's attribute, for graphs and drawings.
pub(super) fn word(function: TypeId) -> Option<&'static str> {
    Some(match kind(function)? {
        CalleeKind::Tool(_) => "tool",
        CalleeKind::Agent(_) => "agent",
        CalleeKind::Workflow(_) => "workflow",
    })
}

/// The call of a function, as a dry run shows it.
pub(super) fn dry_call(function: TypeId) -> Option<DryCall> {
    Some(match kind(function)? {
        CalleeKind::Tool(tool) => DryCall::tool(tool.catalogue_name(), &tool.definition().policy),
        CalleeKind::Agent(agent) => DryCall::new("agent", agent.name()),
        CalleeKind::Workflow(workflow) => DryCall::new("workflow", workflow.name),
    })
}

/// Whether a function changes something outside of the run, or asks a person, as far as that is declared. A workflow
/// that is being built, since it calls itself, counts as one that does.
pub(super) fn writes(function: TypeId) -> bool {
    let tool_writes = |tool: &ToolRef| tool.definition().policy.effects == Effects::Write;
    match kind(function) {
        Some(CalleeKind::Tool(tool)) => tool_writes(tool),
        Some(CalleeKind::Agent(agent)) => agent.tools().iter().any(tool_writes),
        Some(CalleeKind::Workflow(workflow)) => workflow.spec().map_or(true, |spec| spec.writes_or_asks()),
        None => false,
    }
}

/// Returns true if a function is a tool that needs an approval.
pub(super) fn asks(function: TypeId) -> bool {
    tool_policy(function).is_some_and(|policy| policy.approve)
}

/// Returns true if a function is a tool that needs an approval and, not being `async`, cannot wait for it.
pub(super) fn asks_and_is_sync(function: TypeId) -> bool {
    match kind(function) {
        Some(CalleeKind::Tool(tool)) => tool.returns_at_once() && tool.definition().policy.approve,
        _ => false,
    }
}

/// Returns true if all effects of a function are declared: it is a tool, an agent, or a workflow that calls no plain
/// functions. A recursive workflow, which is still being built, counts as undeclared.
fn is_declared(function: TypeId) -> bool {
    match kind(function) {
        Some(CalleeKind::Tool(_) | CalleeKind::Agent(_)) => true,
        Some(CalleeKind::Workflow(workflow)) => {
            workflow.spec().is_ok_and(|spec| !spec.nodes.iter().any(|node| node.is_opaque))
        }
        None => false,
    }
}

/// Returns true if a node may make calls that the plan does not show. Arguments of a call do not count.
pub(super) fn is_opaque(node: &NodeSpec, direct: bool) -> bool {
    let is_declared = |callee: &TypeId| is_declared(*callee);
    let own = match &node.body {
        Body::Step(_) | Body::Map { .. } | Body::Repeat { .. } if node.inner.is_none() => {
            !(direct && node.callees.first().is_some_and(is_declared))
        }
        Body::Race(branches) | Body::Fallback(branches) => {
            let calls = branches.iter().filter(|branch| branch.inner.is_none()).count();
            node.callees.len() < calls || !node.callees.iter().all(is_declared)
        }
        _ => false,
    };
    own || node.bodies().any(|(_, inner)| inner.nodes.iter().any(|node| node.is_opaque))
}

/// Returns true if a function is known to read data that others may change.
pub(super) fn reads_effects(function: TypeId) -> bool {
    let effect = match kind(function) {
        Some(CalleeKind::Tool(tool)) => HiddenEffect::of_policy(&tool.definition().policy),
        Some(CalleeKind::Agent(agent)) => {
            HiddenEffect::strongest(agent.tools().iter().map(|tool| HiddenEffect::of_policy(&tool.definition().policy)))
        }
        Some(CalleeKind::Workflow(workflow)) => workflow.spec().ok().and_then(|spec| spec.effect()),
        None => None,
    };
    effect.is_some()
}

/// The workflow that a function is.
pub(super) fn workflow(function: TypeId) -> Option<Arc<Spec>> {
    match kind(function)? {
        CalleeKind::Workflow(workflow) => workflow.spec().ok(),
        _ => None,
    }
}

/// What a function is beside a function.
pub(super) enum Callee {
    Tool(ToolRef),
    Agent(&'static AgentDefinition),
    Workflow(Arc<Spec>),
}

/// What a function is, when it has one of our attributes. A workflow that cannot be built says so when it is called.
pub(super) fn callee(function: TypeId) -> Option<Callee> {
    Some(match kind(function)? {
        CalleeKind::Tool(tool) => Callee::Tool(tool.clone()),
        CalleeKind::Agent(agent) => Callee::Agent(agent),
        CalleeKind::Workflow(workflow) => Callee::Workflow(workflow.spec().ok()?),
    })
}

/// The resources that the tools of a workflow take, each with who takes it: those that its steps call, or that the models
/// of `#[agent]`s in them may call, as far as they are written in it and in the workflows that it calls.
pub(super) fn needs(spec: &Spec) -> Vec<NeededResource> {
    needs_of(&spec.nodes)
}

/// The same of some of its nodes.
pub(super) fn needs_of(nodes: &[NodeSpec]) -> Vec<NeededResource> {
    let (mut needs, mut seen) = (Vec::new(), HashSet::new());
    collect_needs(nodes, &mut seen, &mut needs);
    needs
}

fn collect_needs(nodes: &[NodeSpec], seen: &mut HashSet<TypeId>, needs: &mut Vec<NeededResource>) {
    for node in nodes {
        for callee in node.callee.iter().chain(&node.callees).filter(|callee| seen.insert(**callee)).collect::<Vec<_>>()
        {
            match kind(*callee) {
                Some(CalleeKind::Tool(tool)) => needs.extend(NeededResource::all_of(tool, "")),
                Some(CalleeKind::Agent(agent)) => {
                    let by = format!(" of the agent `{}`", agent.name());
                    needs.extend(agent.tools().iter().flat_map(|tool| NeededResource::all_of(tool, &by)));
                }
                // One that cannot be built says so when it is called.
                Some(CalleeKind::Workflow(workflow)) => {
                    if let Ok(spec) = workflow.spec() {
                        collect_needs(&spec.nodes, seen, needs);
                    }
                }
                None => {}
            }
        }
        #[cfg(feature = "dynamic")]
        for reference in &node.references {
            match reference {
                Referenced::Agent(agent) => needs.extend(agent.needs()),
                Referenced::Workflow(spec) => collect_needs(&spec.nodes, seen, needs),
                Referenced::Tool(_) | Referenced::Unfetched(_) => {}
            }
        }
        for (_, body) in node.bodies() {
            collect_needs(&body.nodes, seen, needs);
        }
    }
}

/// The tools that the steps of a workflow call, or that the models of `#[agent]`s in them may call, as far as they are
/// written in it and in the workflows that it calls, each with the schema of its answer where that is known.
pub(super) fn tools(spec: &Spec) -> Vec<(Arc<ToolDefinition>, Option<Value>)> {
    let (mut tools, mut seen) = (Vec::new(), HashSet::new());
    collect_tools(&spec.nodes, &mut seen, &mut tools);
    tools
}

fn collect_tools(
    nodes: &[NodeSpec],
    seen: &mut HashSet<TypeId>,
    tools: &mut Vec<(Arc<ToolDefinition>, Option<Value>)>,
) {
    let described = |tool: &ToolRef| (Arc::clone(tool.definition()), tool.output_schema());
    for node in nodes {
        for callee in node.callee.iter().chain(&node.callees).filter(|callee| seen.insert(**callee)).collect::<Vec<_>>()
        {
            match kind(*callee) {
                Some(CalleeKind::Tool(tool)) => tools.push(described(tool)),
                Some(CalleeKind::Agent(agent)) => tools.extend(agent.tools().iter().map(described)),
                Some(CalleeKind::Workflow(workflow)) => {
                    if let Ok(spec) = workflow.spec() {
                        collect_tools(&spec.nodes, seen, tools);
                    }
                }
                None => {}
            }
        }
        if node.callee.is_none() {
            tools.extend(node.called.iter().map(|tool| (Arc::clone(tool), None)));
        }
        for (_, body) in node.bodies() {
            collect_tools(&body.nodes, seen, tools);
        }
    }
}

/// The keys of the state that a node saves, as far as that is declared: what the agents that it calls save their answers
/// under, in it and in the workflows that it calls, and what is data says itself.
pub(super) fn saved_keys(node: &NodeSpec) -> BTreeSet<Arc<str>> {
    let (mut keys, mut seen) = (BTreeSet::new(), HashSet::new());
    collect_keys(std::slice::from_ref(node), &mut seen, &mut keys);
    keys
}

fn collect_keys(nodes: &[NodeSpec], seen: &mut HashSet<TypeId>, keys: &mut BTreeSet<Arc<str>>) {
    for node in nodes {
        let transforms = node.does.iter().flat_map(|does| does.transforms());
        keys.extend(transforms.flat_map(|transform| transform.set_keys()).map(Arc::from));
        keys.extend(node.saves.keys().filter(|key| *key != FIELDS).map(|key| Arc::from(key.as_str())));
        for callee in node.callee.iter().chain(&node.callees).filter(|callee| seen.insert(**callee)).collect::<Vec<_>>()
        {
            match kind(*callee) {
                Some(CalleeKind::Agent(agent)) => keys.extend(agent.saved_key()),
                Some(CalleeKind::Workflow(workflow)) => {
                    if let Ok(spec) = workflow.spec() {
                        collect_keys(&spec.nodes, seen, keys);
                    }
                }
                _ => {}
            }
        }
        #[cfg(feature = "dynamic")]
        for reference in &node.references {
            match reference {
                Referenced::Agent(agent) => keys.extend(agent.saved_key().cloned()),
                Referenced::Workflow(spec) => collect_keys(&spec.nodes, seen, keys),
                Referenced::Tool(_) | Referenced::Unfetched(_) => {}
            }
        }
        for (_, body) in node.bodies() {
            collect_keys(&body.nodes, seen, keys);
        }
    }
}

/// The argument of a step's body: in a run the context and the values that the step reads, while the workflow is built
/// the place for the function that the body is about to call.
#[doc(hidden)]
pub struct StepArgs<V>(Args<V>);

enum Args<V> {
    Run(Option<(Context, V)>),
    Ask(Arc<OnceLock<Vec<TypeId>>>),
}

impl<V> fmt::Debug for StepArgs<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepArgs").finish_non_exhaustive()
    }
}

impl<V> StepArgs<V> {
    pub(super) fn run(cx: Context, values: V) -> Self {
        Self(Args::Run(Some((cx, values))))
    }

    /// The context and the values, in a run; never ready in a body that was only asked.
    pub fn calling<const N: usize>(self, callees: [TypeId; N]) -> ReadyArgs<V> {
        if let Args::Ask(answer) = &self.0 {
            // It is asked once.
            let _ = answer.set(callees.into());
        }
        ReadyArgs(self.0)
    }
}

/// The future of [`StepArgs::calling`].
#[doc(hidden)]
pub struct ReadyArgs<V>(Args<V>);

impl<V> fmt::Debug for ReadyArgs<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyArgs").finish_non_exhaustive()
    }
}

impl<V> Unpin for ReadyArgs<V> {}

impl<V> Future for ReadyArgs<V> {
    type Output = (Context, V);

    fn poll(mut self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Args::Run(values) => values.take().map_or(Poll::Pending, Poll::Ready),
            Args::Ask(_) => Poll::Pending,
        }
    }
}

/// The functions that a body calls, by their types: polls the body up to `calling`.
pub(super) fn ask_callees<V, F: Future>(body: &impl Fn(StepArgs<V>) -> F) -> Vec<TypeId> {
    let answer = Arc::new(OnceLock::new());
    let asked = pin!(body(StepArgs(Args::Ask(Arc::clone(&answer)))));
    drop(asked.poll(&mut std::task::Context::from_waker(Waker::noop())));
    answer.get().cloned().unwrap_or_default()
}
