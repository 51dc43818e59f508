//! The catalogue: the workflows and agents that a runtime knows, given to it or linked into the program.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Runtime;
use crate::agent::{ErasedAgent, linked_agents};
use crate::error::{ControlError, Error, Result};
use crate::event::{AgentStarted, RunId};
use crate::run::Host;
use crate::text::nearest;
use crate::value::{Encoded, NodeValue};
use crate::workflow::linked_workflow::linked;
use crate::workflow::spec::Spec;
use crate::workflow::{Graph, Inputs, IntoInputs, Workflow, check_answer};

/// The workflows that a runtime was given, by name.
#[derive(Clone, Default)]
pub(super) struct Given(pub(super) BTreeMap<Arc<str>, Arc<Spec>>);

/// The agents that a runtime was given, by name.
#[derive(Clone, Default)]
pub(super) struct GivenAgents(pub(super) BTreeMap<Arc<str>, ErasedAgent>);

/// The workflow of a name: one that the host was given, or one that is linked into the program.
pub(super) fn workflow_spec(host: &Host, name: &str) -> Result<Arc<Spec>> {
    let given = host.part::<Given>().map(|given| &given.0);
    if let Some(spec) = given.and_then(|given| given.get(name)) {
        return Ok(Arc::clone(spec));
    }
    let linked = linked()?;
    if let Some(linked) = linked.get(name) {
        return linked.spec();
    }
    let known = given.into_iter().flat_map(BTreeMap::keys).map(|name| &**name).chain(linked.keys().copied());
    let near = nearest(name, known).map(ToOwned::to_owned);
    Err(Error::UnknownWorkflow { name: name.into(), near })
}

/// Checks an answer by the type that the workflow's node asks for.
pub(super) fn checked(host: &Host, workflow: &str, node: &str, answer: &Encoded) -> Option<Result<(), ControlError>> {
    let spec = workflow_spec(host, workflow).ok()?;
    let node = spec.nodes.iter().find(|of| of.path.to_string() == node)?;
    Some(check_answer(node, answer))
}

impl Runtime {
    /// The workflow of a name: one that the runtime was given, or one that is linked into the program.
    pub(super) fn workflow_spec(&self, name: &str) -> Result<Arc<Spec>> {
        workflow_spec(self.host(), name)
    }

    /// The agent of a run: one of its name that the runtime was given, or the `#[agent]` that is linked into the program.
    pub(super) fn agent_of(&self, run: &RunId, started: &AgentStarted) -> Result<ErasedAgent> {
        let given = self.host().part::<GivenAgents>().map(|given| &given.0);
        if let Some(agent) = given.and_then(|given| given.get(&started.name)) {
            return Ok(agent.clone());
        }
        let linked = linked_agents()?;
        if let Some(linked) = linked.get(&*started.name) {
            let instructions = started.instructions.as_ref().map(|message| message.text());
            return linked.resuming(&self.context(), instructions.as_deref());
        }
        let known = given.into_iter().flat_map(BTreeMap::keys).map(|name| &**name).chain(linked.keys().copied());
        let near = nearest(&started.name, known).map(ToOwned::to_owned);
        Err(Error::UnknownAgent { run: run.clone(), agent: Arc::clone(&started.name), near })
    }

    /// The workflows that this runtime knows, ordered by name: those it was given, and those linked into the program.
    ///
    /// # Errors
    /// When two linked workflows have one name, or one of them cannot be built.
    pub fn workflows(&self) -> Result<Vec<Graph>> {
        let linked = linked()?.into_iter().map(|(name, linked)| Ok((Arc::from(name), linked.spec()?)));
        let mut all = linked.collect::<Result<BTreeMap<Arc<str>, Arc<Spec>>>>()?;
        let given = self.host().part::<Given>().into_iter().flat_map(|given| &given.0);
        all.extend(given.map(|(name, spec)| (Arc::clone(name), Arc::clone(spec))));
        Ok(all.values().map(|spec| Graph::of(spec)).collect())
    }

    /// The description of a workflow that this runtime knows.
    ///
    /// # Errors
    /// When it knows none of this name.
    pub fn workflow_graph(&self, name: &str) -> Result<Graph> {
        Ok(Graph::of(&*self.workflow_spec(name)?))
    }
}

impl<In: Inputs, Out: NodeValue> Workflow<In, Out> {
    /// Runs the workflow here, kept in memory, to its output. Dropping the future cancels the run.
    ///
    /// # Errors
    /// [`Error::Node`] when a step failed for good; see [`Error`].
    pub async fn run(&self, runtime: &Runtime, input: impl IntoInputs<In>) -> Result<Out> {
        self.run_in(&runtime.context(), input).await
    }
}
