//! Finds out which functions a step calls. The type of a function identifies a `#[tool]`,
//! `#[agent]` or `#[workflow]`, also if the function was renamed or imported. Its name alone could
//! not. Thus the policy of a tool applies to the node that calls it.
//!
//! `#[workflow]` expands the step `let page = fetch(url).await?;` to
//!
//! ```text
//! steps.step(Node::new("page"), (url,), move |args| async move {
//!     let f = fetch;                      // only the compiler can say what `fetch` is
//!     let callees = [function_id(&f)];    // while building: records the type, then stops
//!     let (cx, (url,)) = args.calling(callees).await;
//!     Ok(f(url).await?)                   // in a run: `args` completes at once
//! })
//! ```
//!
//! [`find_callees`] polls this body once while the workflow is built. No user code runs during that
//! poll. The type is determined inside the body, because the type parameters of a generic function
//! follow from the arguments of its call.

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
use super::spec::ReferencedDefinition;
use super::spec::{Body, PlanNode, Spec};
use crate::agent::AgentDefinition;
use crate::context::Context;
use crate::dry_run::DryCall;
use crate::linked;
use crate::tool::{Effects, HiddenEffect, NeededResource, ToolDefinition, ToolPolicy, ToolRef};

/// The attribute of a function, with its definition.
#[derive(Clone)]
enum CalleeKind {
    Tool(ToolRef),
    Agent(&'static AgentDefinition),
    Workflow(LinkedWorkflow),
}

/// Looks up a function among all linked tools, agents and workflows.
fn kind(function: TypeId) -> Option<&'static CalleeKind> {
    static KINDS: OnceLock<HashMap<TypeId, CalleeKind>> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        let kind = |item: Box<dyn Any>| match item.downcast::<ToolRef>() {
            Ok(tool) => Some(CalleeKind::Tool(*tool)),
            Err(item) => match item.downcast::<&'static AgentDefinition>() {
                Ok(agent) => Some(CalleeKind::Agent(*agent)),
                Err(item) => item
                    .downcast::<LinkedWorkflow>()
                    .ok()
                    .map(|workflow| CalleeKind::Workflow(*workflow)),
            },
        };
        linked::all().filter_map(|(function, item)| Some((function, kind(item)?))).collect()
    });
    kinds.get(&function)
}

/// Returns the definition of a tool.
pub(super) fn tool_definition(function: TypeId) -> Option<Arc<ToolDefinition>> {
    match kind(function)? {
        CalleeKind::Tool(tool) => Some(Arc::clone(tool.definition())),
        _ => None,
    }
}

/// Returns the policy of a tool.
pub(super) fn tool_policy(function: TypeId) -> Option<ToolPolicy> {
    Some(tool_definition(function)?.policy.clone())
}

/// Returns `true` if the function is a synchronous tool that must not be called twice. Its call
/// cannot wait until its start is committed.
pub(super) fn is_once_and_sync(function: TypeId) -> bool {
    match kind(function) {
        Some(CalleeKind::Tool(tool)) => {
            tool.returns_at_once() && !tool.definition().policy.is_repeatable()
        }
        _ => false,
    }
}

/// Returns the function of a tool that is linked into the program.
#[cfg(feature = "dynamic")]
pub(super) fn function_of(tool: &ToolRef) -> Option<TypeId> {
    let tool = tool.original();
    let is_it = |of: &ToolRef| of.is(tool);
    linked::all().find_map(|(function, item)| {
        item.downcast_ref::<ToolRef>().is_some_and(is_it).then_some(function)
    })
}

/// Returns the attribute of a function as a word, for graphs and drawings.
pub(super) fn word(function: TypeId) -> Option<&'static str> {
    Some(match kind(function)? {
        CalleeKind::Tool(_) => "tool",
        CalleeKind::Agent(_) => "agent",
        CalleeKind::Workflow(_) => "workflow",
    })
}

/// Returns the description of a call for dry runs.
pub(super) fn dry_call(function: TypeId) -> Option<DryCall> {
    Some(match kind(function)? {
        CalleeKind::Tool(tool) => DryCall::tool(tool.catalogue_name(), &tool.definition().policy),
        CalleeKind::Agent(agent) => DryCall::new("agent", agent.name()),
        CalleeKind::Workflow(workflow) => DryCall::new("workflow", workflow.name),
    })
}

/// Returns `true` if the function is declared to change data outside of the run or to ask a person.
/// A workflow that is still being built because it calls itself is assumed to do so.
pub(super) fn writes(function: TypeId) -> bool {
    let tool_writes = |tool: &ToolRef| tool.definition().policy.effects == Effects::Write;
    match kind(function) {
        Some(CalleeKind::Tool(tool)) => tool_writes(tool),
        Some(CalleeKind::Agent(agent)) => agent.tools().iter().any(tool_writes),
        Some(CalleeKind::Workflow(workflow)) => {
            workflow.spec().map_or(true, |spec| spec.writes_or_asks())
        }
        None => false,
    }
}

/// Returns `true` if the function is a tool that needs an approval.
pub(super) fn asks(function: TypeId) -> bool {
    tool_policy(function).is_some_and(|policy| policy.approve)
}

/// Returns `true` if the function is a tool that needs an approval and cannot wait for it, because
/// it is not `async`.
pub(super) fn asks_and_is_sync(function: TypeId) -> bool {
    match kind(function) {
        Some(CalleeKind::Tool(tool)) => tool.returns_at_once() && tool.definition().policy.approve,
        _ => false,
    }
}

/// Returns `true` if all effects of the function are declared: it is a tool, an agent, or a
/// workflow that does not call plain functions. A workflow that is still being built because it
/// calls itself counts as undeclared.
fn is_declared(function: TypeId) -> bool {
    match kind(function) {
        Some(CalleeKind::Tool(_) | CalleeKind::Agent(_)) => true,
        Some(CalleeKind::Workflow(workflow)) => {
            workflow.spec().is_ok_and(|spec| !spec.nodes.iter().any(|node| node.is_opaque))
        }
        None => false,
    }
}

/// Returns `true` if a node may make calls that the plan does not show. Calls in the arguments of
/// another call do not count.
pub(super) fn is_opaque(node: &PlanNode, direct: bool) -> bool {
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

/// Returns `true` if the function is declared to read data that others may change.
pub(super) fn reads_effects(function: TypeId) -> bool {
    let effect = match kind(function) {
        Some(CalleeKind::Tool(tool)) => HiddenEffect::of_policy(&tool.definition().policy),
        Some(CalleeKind::Agent(agent)) => HiddenEffect::strongest(
            agent.tools().iter().map(|tool| HiddenEffect::of_policy(&tool.definition().policy)),
        ),
        Some(CalleeKind::Workflow(workflow)) => workflow.spec().ok().and_then(|spec| spec.effect()),
        None => None,
    };
    effect.is_some()
}

/// Returns the plan of a workflow.
pub(super) fn workflow(function: TypeId) -> Option<Arc<Spec>> {
    match kind(function)? {
        CalleeKind::Workflow(workflow) => workflow.spec().ok(),
        _ => None,
    }
}

/// A function with one of the attributes.
pub(super) enum Callee {
    Tool(ToolRef),
    Agent(&'static AgentDefinition),
    Workflow(Arc<Spec>),
}

/// Returns the tool, agent or workflow that a function is. Returns `None` for a workflow that
/// cannot be built: its call reports the error.
pub(super) fn callee(function: TypeId) -> Option<Callee> {
    Some(match kind(function)? {
        CalleeKind::Tool(tool) => Callee::Tool(tool.clone()),
        CalleeKind::Agent(agent) => Callee::Agent(agent),
        CalleeKind::Workflow(workflow) => Callee::Workflow(workflow.spec().ok()?),
    })
}

/// Returns the resources that the tools of a workflow require, each with the tool that requires it.
/// Includes tools called by steps and tools offered to the models of `#[agent]`s, also in called
/// workflows.
pub(super) fn needs(spec: &Spec) -> Vec<NeededResource> {
    needs_of(&spec.nodes)
}

/// Returns the resources that the tools of some nodes require.
pub(super) fn needs_of(nodes: &[PlanNode]) -> Vec<NeededResource> {
    let (mut needs, mut seen) = (Vec::new(), HashSet::new());
    collect_needs(nodes, &mut seen, &mut needs);
    needs
}

fn collect_needs(nodes: &[PlanNode], seen: &mut HashSet<TypeId>, needs: &mut Vec<NeededResource>) {
    for node in nodes {
        for callee in node
            .callee
            .iter()
            .chain(&node.callees)
            .filter(|callee| seen.insert(**callee))
            .collect::<Vec<_>>()
        {
            match kind(*callee) {
                Some(CalleeKind::Tool(tool)) => needs.extend(NeededResource::all_of(tool, "")),
                Some(CalleeKind::Agent(agent)) => {
                    let by = format!(" of the agent `{}`", agent.name());
                    needs.extend(
                        agent.tools().iter().flat_map(|tool| NeededResource::all_of(tool, &by)),
                    );
                }
                // The call reports the error if the workflow cannot be built.
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
                ReferencedDefinition::Agent(agent) => needs.extend(agent.needs()),
                ReferencedDefinition::Workflow(spec) => collect_needs(&spec.nodes, seen, needs),
                ReferencedDefinition::Tool(_) | ReferencedDefinition::Unfetched(_) => {}
            }
        }
        for (_, body) in node.bodies() {
            collect_needs(&body.nodes, seen, needs);
        }
    }
}

/// Returns the tools of a workflow, each with the schema of its output if it is known. Includes
/// tools called by steps and tools offered to the models of `#[agent]`s, also in called workflows.
pub(super) fn tools(spec: &Spec) -> Vec<(Arc<ToolDefinition>, Option<Value>)> {
    let (mut tools, mut seen) = (Vec::new(), HashSet::new());
    collect_tools(&spec.nodes, &mut seen, &mut tools);
    tools
}

fn collect_tools(
    nodes: &[PlanNode],
    seen: &mut HashSet<TypeId>,
    tools: &mut Vec<(Arc<ToolDefinition>, Option<Value>)>,
) {
    let described = |tool: &ToolRef| (Arc::clone(tool.definition()), tool.output_schema());
    for node in nodes {
        for callee in node
            .callee
            .iter()
            .chain(&node.callees)
            .filter(|callee| seen.insert(**callee))
            .collect::<Vec<_>>()
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

/// Returns the state keys that a node is declared to save: by the agents that it calls, also in
/// called workflows, and by nodes that are data.
pub(super) fn saved_keys(node: &PlanNode) -> BTreeSet<Arc<str>> {
    let (mut keys, mut seen) = (BTreeSet::new(), HashSet::new());
    collect_keys(std::slice::from_ref(node), &mut seen, &mut keys);
    keys
}

fn collect_keys(nodes: &[PlanNode], seen: &mut HashSet<TypeId>, keys: &mut BTreeSet<Arc<str>>) {
    for node in nodes {
        let transforms = node.does.iter().flat_map(|does| does.transforms());
        keys.extend(transforms.flat_map(|transform| transform.set_keys()).map(Arc::from));
        keys.extend(
            node.saves.keys().filter(|key| *key != FIELDS).map(|key| Arc::from(key.as_str())),
        );
        for callee in node
            .callee
            .iter()
            .chain(&node.callees)
            .filter(|callee| seen.insert(**callee))
            .collect::<Vec<_>>()
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
                ReferencedDefinition::Agent(agent) => keys.extend(agent.saved_key().cloned()),
                ReferencedDefinition::Workflow(spec) => collect_keys(&spec.nodes, seen, keys),
                ReferencedDefinition::Tool(_) | ReferencedDefinition::Unfetched(_) => {}
            }
        }
        for (_, body) in node.bodies() {
            collect_keys(&body.nodes, seen, keys);
        }
    }
}

/// The argument of a step's body. In a run it contains the context and the values that the step
/// reads. While the workflow is built, it records the function that the body is about to call.
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

    /// Returns a future of the context and the values. While the workflow is built, it records
    /// `callees` and never completes.
    pub fn calling<const N: usize>(self, callees: [TypeId; N]) -> ReadyArgs<V> {
        if let Args::Ask(answer) = &self.0 {
            // Only the first call counts.
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

/// Returns the types of the functions that a body calls. Polls the body up to `calling`.
pub(super) fn find_callees<V, F: Future>(body: &impl Fn(StepArgs<V>) -> F) -> Vec<TypeId> {
    let answer = Arc::new(OnceLock::new());
    let asked = pin!(body(StepArgs(Args::Ask(Arc::clone(&answer)))));
    drop(asked.poll(&mut std::task::Context::from_waker(Waker::noop())));
    answer.get().cloned().unwrap_or_default()
}
