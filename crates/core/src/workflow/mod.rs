//! Workflows: typed, durable graphs of steps.
//!
//! Independent steps run concurrently. Every step is recorded in the journal of its run, so a run
//! continues after a crash without repeating completed steps.
//!
//! 1. [`Builder`] creates a workflow from nodes. A `#[workflow]` function expands to calls of
//!    `steps`, which uses the builder and keeps the written order of side effects (`order`).
//!    `of_graph` creates a workflow from a [`Graph`], its form as data.
//! 2. `spec` is the executable plan: nodes by index, with their edges, policies and bodies.
//!    [`Graph`] describes it.
//! 3. `machine` is a pure state machine. It takes recorded events and returns the next command.
//! 4. `driver` executes the commands, records the outcomes as events and passes them to the
//!    machine.

mod arm_sets;
mod bit_set;
mod bodies;
mod bound_edges;
mod builder;
mod builder_settings;
mod called_tools;
pub(crate) mod callee;
mod cel_names;
#[cfg(feature = "dynamic")]
mod chosen_arms;
#[cfg(feature = "dynamic")]
mod chosen_tool;
mod compact;
#[cfg_attr(
    not(feature = "dynamic"),
    allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
)]
mod condition;
#[cfg(feature = "dynamic")]
mod constants;
mod decided;
mod decider;
#[doc(hidden)]
pub mod decision_codes;
#[cfg(feature = "dynamic")]
mod decision_of_graph;
mod decision_step;
mod display;
pub(crate) mod driver;
mod dry_steps;
#[cfg_attr(
    not(feature = "dynamic"),
    allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
)]
mod entry;
pub(crate) mod expansion;
#[cfg(feature = "dynamic")]
mod facts;
mod first_question;
mod form_macros;
mod gate;
#[cfg(feature = "dynamic")]
mod given_value;
mod graph;
#[cfg_attr(
    not(feature = "dynamic"),
    allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
)]
mod graph_body;
#[cfg(feature = "dynamic")]
mod graph_choices;
#[doc(hidden)]
pub mod graph_codes;
#[cfg(feature = "documents")]
mod graph_draft;
mod graph_form;
mod graph_hash;
mod graph_of_data;
#[cfg(feature = "dynamic")]
mod graph_order;
#[cfg(feature = "dynamic")]
mod graph_reads;
#[cfg(feature = "dynamic")]
mod graph_state;
mod inner;
pub(crate) mod input_object;
mod input_schema;
pub(crate) mod inputs;
mod judged_steps;
pub(crate) mod let_output;
pub(crate) mod linked_workflow;
mod machine;
#[cfg_attr(
    not(feature = "dynamic"),
    allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
)]
mod mapping;
#[doc(hidden)]
pub mod mapping_codes;
mod names;
mod node;
mod node_dependency;
mod node_edge;
pub(crate) mod node_handle;
pub(crate) mod node_problems;
mod node_schema;
#[cfg(feature = "dynamic")]
pub(crate) mod of_graph;
pub(crate) mod one_order;
mod order;
mod outputs;
pub(crate) mod owned_output;
mod policy;
mod question_text;
#[cfg(feature = "dynamic")]
pub(crate) mod reference_steps;
mod replaced_workflow;
mod run_limits;
pub(crate) mod same_type;
mod saved_outputs;
mod saved_twice;
mod skipped_nodes;
pub(crate) mod spec;
pub(crate) mod standard;
mod state_flow;
mod state_reads;
pub(crate) mod step_error;
mod steps;
mod taken_arms;
mod taps;
#[cfg(feature = "dynamic")]
mod transform_step;
#[doc(hidden)]
pub mod value_codes;
mod workflow_parts;
mod workflow_tool;

use agentflow_schema::diagnostic::Diagnostic;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use self::builder::{Builder, Router};
pub use self::condition::Condition;
pub use self::decider::{Decider, NextNode, NodeDecision};
pub use self::display::{DisplayEdge, DisplayEdgeKind};
#[doc(hidden)]
pub use self::display::{ListedNode, question as question_of};
pub(crate) use self::driver::execute;
use self::driver::{Failed, WorkflowRun};
pub use self::entry::Begins;
pub(crate) use self::gate::{approval_of, check_answer};
pub use self::graph::{Graph, GraphNode, Guard, OrderEdge};
pub use self::graph_body::{
    GraphBody, GraphEdge, Question, Reference, ReferenceKind, Route, Routes,
};
#[cfg(feature = "documents")]
pub(crate) use self::graph_order::in_cycles;
use self::input_object::from_object;
pub use self::inputs::{Inputs, IntoInputs, IntoNamedInputs};
use self::machine::Phase;
pub(crate) use self::machine::was_stopped;
pub use self::mapping::Mapping;
pub use self::node::{Branch, Node};
pub use self::node_dependency::ResolvedDependency;
pub(crate) use self::node_dependency::by_dependency;
pub use self::node_edge::NodeEdge;
pub use self::node_handle::{Handle, Reads};
pub use self::node_schema::NodeSchema;
pub use self::policy::{NodePolicy, OnError, RetryPolicy, StopPolicy};
pub use self::run_limits::RunLimits;
use self::spec::Spec;
pub use self::spec::{NodeKind, OrderReason};
pub use self::step_error::StepFailure;
pub use self::workflow_tool::WorkflowTool;
use crate::context::Context;
use crate::error::{Error, Result, noted};
use crate::event::RunTerms;
use crate::executor::RemoteSteps;
use crate::future::BoxFuture;
use crate::run::{
    Around, Host, Journal, ResourceFactories, RunOptions, RunShared, check_resources,
};
use crate::tool::{CurrentStep, NeededResource, ReplacedKind, StandIn};
use crate::value::{Encoded, NodeValue};

/// Maximum number of concurrent steps of a run, unless the workflow sets another limit.
pub(crate) const CONCURRENCY: usize = 16;

/// A graph of steps with a typed input and output.
///
/// `#[workflow]` creates one from a function, [`build`](Self::build) from explicit nodes. Cloning
/// is cheap: it increments one reference count.
///
/// ```
/// use agentflow::{Runtime, Workflow};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// let sums = Workflow::<(i64, i64), i64>::build("sums", ["a", "b"], |b, (a, b_)| {
///     let twice = b.node("twice", (a,), |_cx, (a,)| async move { Ok::<_, agentflow::Error>(2 * a) });
///     let thrice = b.node("thrice", (b_,), |_cx, (b,)| async move { Ok::<_, agentflow::Error>(3 * b) });
///     b.value("sum", (twice, thrice), |(x, y)| Ok::<_, agentflow::Error>(x + y))
/// })?;
/// assert_eq!(sums.run(&Runtime::default(), (1, 2)).await?, 8);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "CompiledWorkflow")]
pub struct Workflow<In, Out> {
    spec: Arc<Spec>,
    types: PhantomData<fn(In) -> Out>,
}

impl<In: Inputs, Out: NodeValue> Workflow<In, Out> {
    /// Builds a workflow from its name, the names of its inputs, and a function that adds the nodes
    /// and returns the node whose output is the output of the workflow.
    ///
    /// # Errors
    /// Returns [`Error::Build`] if
    /// - two nodes have the same name, or a name is invalid or is a path within another node,
    /// - a handle of another workflow is used,
    /// - the output of a node can change after it was recorded (a `Cell`, a `Mutex`, an atomic),
    /// - a repetition has no round,
    /// - a router may take an arm that leads to no output, or
    /// - a node can never start.
    pub fn build(
        name: impl Into<Arc<str>>,
        inputs: In::Names,
        nodes: impl FnOnce(&mut Builder, In::Handles) -> Handle<Out>,
    ) -> Result<Self> {
        let name = name.into();
        let mut builder = Builder::new(Arc::clone(&name));
        let handles = In::declare(&mut builder, inputs);
        let output = nodes(&mut builder, handles);
        match builder.finish(Arc::clone(&name), output.raw()) {
            Ok(spec) => Ok(Self { spec: Arc::new(spec), types: PhantomData }),
            Err(problems) => {
                let problem = joined(&problems);
                Err(Error::Build { what: "workflow", name, problem })
            }
        }
    }

    /// Runs the workflow as a step of the run that the context belongs to. Its records are below
    /// that step, it ends when that run ends, and steps completed before a crash are not repeated.
    /// If the context does not belong to a run, the workflow becomes a new run that is kept in
    /// memory only.
    ///
    /// # Errors
    /// Returns [`Error::Node`] if a step failed and is not retried. See [`Error`] for the other
    /// errors.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the workflow and drops its running steps.
    pub async fn run_in(&self, cx: &Context, input: impl IntoInputs<In>) -> Result<Out> {
        noted(self.run_to_end(cx, input.into_inputs()).await.map_err(|failed| failed.error))
    }

    pub(crate) async fn run_to_end(&self, cx: &Context, input: In) -> Result<Out, Failed> {
        let inputs = input.encode().map_err(|error| Error::value(&self.spec.name, &error))?;
        // The workflow may write, so it waits for the earlier steps of the step that calls it.
        CurrentStep::until_turn_of_caller(self.spec.effect()).await;
        let around = Around::enter(cx.host().max_nesting, cx.depth())?;
        let output = around.scope(start(&self.spec, cx, inputs)?).await?;
        Ok(Out::decode(&output).map_err(|error| Error::value(&self.spec.name, &error))?)
    }
}

impl<In, Out> Workflow<In, Out> {
    /// Returns the name of the workflow.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns a description of the workflow: nodes, edges and types. Executes nothing.
    pub fn graph(&self) -> Graph {
        Graph::from_plan(&self.spec)
    }

    pub(crate) fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }
}

/// A workflow that [`Runtime::start`](crate::Runtime::start) accepts, implemented by [`Workflow`].
/// It is a trait so that the compiler can explain how to start other types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be started as a workflow",
    label = "write `name::workflow()` for a `#[workflow]` function `name`; a `Graph` is started by its name",
    note = "a `Graph` is registered with `Runtime::builder().graph(graph)` and started by its name, with \
            `runtime.start_named(name, input)`"
)]
pub trait IntoWorkflow {
    /// Types of the inputs.
    type In: Inputs;
    /// Type of the output.
    type Out: NodeValue;

    #[doc(hidden)]
    fn into_workflow(self) -> Workflow<Self::In, Self::Out>;
}

impl<In: Inputs, Out: NodeValue> IntoWorkflow for Workflow<In, Out> {
    type In = In;
    type Out = Out;

    fn into_workflow(self) -> Self {
        self
    }
}

/// Starts a workflow as a nested workflow if the context is a step, otherwise as a new run. Returns
/// its future.
fn start(
    spec: &Arc<Spec>,
    cx: &Context,
    inputs: Vec<Encoded>,
) -> Result<BoxFuture<'static, Result<Encoded, Failed>>> {
    let run = match cx.is_step() {
        true => match StandIn::of(cx.host(), ReplacedKind::Workflow, &spec.name) {
            None => WorkflowRun::within(spec, inputs, cx)?,
            Some(stand_in) => {
                WorkflowRun::within(&replaced_workflow::replaced(spec, stand_in)?, inputs, cx)?
            }
        },
        false => {
            let host = cx.host();
            // `RunShared` adds the resources of the host, so they are not passed on.
            let resources = cx.resources().beside(&host.resources);
            let options = RunOptions { resources, ..RunOptions::default() };
            let (shared, terms) = begun(host, spec, options, cx.grants(), None)?;
            let shared = Arc::new(shared);
            host.running.begin(&shared)?;
            WorkflowRun::new(spec, inputs, shared, terms)
        }
    };
    Ok(Box::pin(run.run_through()))
}

/// Runs a workflow with its inputs as a JSON object, nested in the run of the context or as a new
/// run.
///
/// # Errors
/// Returns [`Error::Input`] if the object does not match the inputs.
pub(crate) async fn run_by_names(
    spec: &Arc<Spec>,
    cx: &Context,
    object: &Encoded,
) -> Result<Encoded> {
    let wrong = |problem: Diagnostic| Error::Input {
        workflow: Arc::clone(&spec.name),
        problem: problem.message(),
    };
    let inputs = from_object(&spec.input_names(), object).map_err(wrong)?;
    spec.check_inputs(&inputs).map_err(wrong)?;
    CurrentStep::until_turn_of_caller(spec.effect()).await;
    let around = Around::enter(cx.host().max_nesting, cx.depth())?;
    around.scope(start(spec, cx, inputs)?).await.map_err(|failed| failed.error)
}

/// Creates the shared data and the terms of a new run. The run has the given grants in addition to
/// those in its options.
///
/// # Errors
/// Returns [`Error::RunResource`] if a resource is missing, and [`Error::Build`] if the run would
/// fail because a node needs a state key that is never set. No step has started in these cases.
pub(crate) fn begun(
    host: &Arc<Host>,
    spec: &Spec,
    mut options: RunOptions,
    grants: &[Arc<str>],
    journal: Option<Journal>,
) -> Result<(RunShared, RunTerms)> {
    let id = options.run_id.take().unwrap_or_else(|| host.new_run_id());
    check_resources_stay(host, spec, &options)?;
    // An earlier run of the session may have set the missing keys.
    if options.session.is_none() {
        let given: state_flow::Keys = options.state.keys().map(|key| key.as_str().into()).collect();
        match given.is_empty() {
            true => spec
                .unsaved_reads
                .get_or_init(|| state_flow::check_unsaved_reads(spec, &given))
                .clone()?,
            false => state_flow::check_unsaved_reads(spec, &given)?,
        }
    }
    let queued = options.queued;
    let own = match queued {
        // The process that executes the run creates its resources.
        true => options.begin(&ResourceFactories::default(), &id, &spec.name)?,
        false => options.begin(&host.factories, &id, &spec.name)?,
    };
    let mut terms = options.terms();
    spec.limits.bound(&mut terms);
    let more: Vec<Arc<str>> =
        grants.iter().filter(|scope| !terms.scopes.contains(scope)).cloned().collect();
    terms.scopes.splice(0..0, more);
    let shared = RunShared::new(id, host, journal).with_own(own, terms.max_llm_calls);
    if !queued {
        check_needs(spec, &shared)?;
    }
    Ok((shared, terms))
}

/// Checks that a run whose steps are executed in other processes has no resources given as values,
/// which cannot be sent.
///
/// # Errors
/// Returns [`Error::RunResource`] if it has.
fn check_resources_stay(host: &Host, spec: &Spec, options: &RunOptions) -> Result<()> {
    if options.resources.is_empty() || RemoteSteps::find_executor(host).is_none() {
        return Ok(());
    }
    Err(Error::RunResource {
        name: Arc::clone(&spec.name),
        problem: format!(
            "it was given {} as a value, and this runtime's executor executes its steps where a value of this process \
             cannot go; give the runtime that executes them the resource, with `run_resource` where each run has its own",
            options.resources.quoted_names()
        ),
    })
}

/// Checks that a run has the resources that its tools require. If its steps are executed in other
/// processes, these processes need the resources and check each step when it starts.
///
/// # Errors
/// Returns [`Error::RunResource`] if a resource is missing.
pub(crate) fn check_needs(spec: &Spec, shared: &RunShared) -> Result<()> {
    let needs = spec.needs();
    if needs.is_empty() || RemoteSteps::find_executor(&shared.host).is_some() {
        return Ok(());
    }
    check_needed(&spec.name, shared, needs)
}

/// Checks that a run has these resources, except those of replaced tools.
///
/// # Errors
/// Returns [`Error::RunResource`] if a resource is missing.
pub(crate) fn check_needed(
    name: &Arc<str>,
    shared: &RunShared,
    needs: &[NeededResource],
) -> Result<()> {
    let needs = needs.iter().filter(|need| !need.is_replaced(&shared.host));
    check_resources(name, &shared.resources(), needs.map(|need| (need.key, need.by.as_str())))
}

/// Returns the typed error of a failed step, for the direct caller of a workflow.
pub(crate) fn own_error<E: 'static>(original: Option<Box<dyn Any + Send>>) -> Option<E> {
    original.and_then(|original| original.downcast::<E>().ok()).map(|error| *error)
}

/// Returns the phase of a node for messages.
pub(crate) fn state_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting | Phase::Ready => "pending",
        Phase::Running => "running",
        Phase::Backoff { .. } => "waiting for its next attempt",
        Phase::Asking => "waiting for an approval",
        Phase::Interrupted => "interrupted",
        Phase::Done => "done",
        Phase::Skipped => "skipped",
        Phase::Failed => "failed",
    }
}

impl<In, Out> Clone for Workflow<In, Out> {
    fn clone(&self) -> Self {
        Self { spec: Arc::clone(&self.spec), types: PhantomData }
    }
}

impl<In, Out> fmt::Debug for Workflow<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workflow")
            .field("name", &self.spec.name)
            .field("nodes", &self.spec.nodes.len())
            .finish_non_exhaustive()
    }
}

/// Renders the problems of a workflow that is built in code in one line.
fn joined(problems: &[Diagnostic]) -> String {
    let mut texts = Vec::new();
    for problem in problems {
        texts.push(problem.message());
    }
    texts.join("; ")
}
