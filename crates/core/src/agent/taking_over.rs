//! Handoffs within a run: from the next turn on, another agent of the team has the conversation.
//! The limits, the answer type and the hooks of the run remain unchanged. `team.rs` defines which
//! agent may hand off to which.

use std::sync::Arc;

use super::driver::Run;
use super::hook_calls::{HookChain, hooks_of};
use super::plan::Plan;
use crate::error::{Error, Result};
use crate::event::{AgentHandoff, EventKind, TRANSFER_TOOL};
use crate::middleware::Middleware;
use crate::resource::Resources;

/// State of a run that an agent needs when it takes over.
pub(super) struct TeamRunState {
    first: Arc<Plan>,
    /// Hooks of the run and of its first agent.
    hooks: HookChain,
    /// Callbacks of the request. They apply to every agent of the team.
    callbacks: Vec<Arc<dyn Middleware>>,
    /// Resources of the request.
    given: Resources,
    /// Scopes that the request granted.
    granted: Vec<Arc<str>>,
    /// Error if the current agent is no longer in the team.
    pub(super) problem: Option<Error>,
}

impl TeamRunState {
    pub(super) fn new(
        plan: &Arc<Plan>,
        given: &Resources,
        granted: &[Arc<str>],
        (hooks, callbacks): (&HookChain, Vec<Arc<dyn Middleware>>),
    ) -> Option<Box<Self>> {
        plan.team.as_ref().map(|_| {
            let (first, hooks) = (Arc::clone(plan), Arc::clone(hooks));
            Box::new(Self {
                first,
                hooks,
                callbacks,
                given: given.clone(),
                granted: granted.to_vec(),
                problem: None,
            })
        })
    }
}

impl Run {
    /// Returns the plan of the agent with which the run started.
    pub(super) fn first_plan(&self) -> &Arc<Plan> {
        self.team.as_ref().map_or(&self.plan, |team| &team.first)
    }

    /// Returns the hooks of the first agent.
    pub(super) fn first_hooks(&self) -> &HookChain {
        self.team.as_ref().map_or(&self.hooks, |team| &team.hooks)
    }

    /// `true` if a tool of this name hands off the conversation.
    pub(super) fn is_transfer(&self, name: &str) -> bool {
        self.team.is_some() && name == TRANSFER_TOOL
    }

    /// Records a handoff and switches to the target agent.
    ///
    /// # Errors
    /// [`Error::Build`] if the team has no such agent any more.
    pub(super) fn transfer(&mut self, to: &str) -> Result<()> {
        let next = self.first_plan().of_team(to)?;
        let transfer = AgentHandoff::new(
            Arc::clone(&self.plan.name),
            Arc::clone(&next.name),
            next.instructions.clone(),
        );
        self.record(self.segment.base.clone(), EventKind::AgentHandoff(Arc::new(transfer)));
        self.switch_agent(to);
        Ok(())
    }

    /// Switches to the agent of this name. If it is no longer in the team, the run fails when it is
    /// driven.
    pub(super) fn switch_agent(&mut self, name: &str) {
        let Some(team) = &mut self.team else { return };
        let plan = match team.first.of_team(name) {
            Ok(plan) => plan,
            Err(problem) => {
                team.problem = Some(problem);
                return;
            }
        };
        team.problem = None;
        let shared = &self.segment.shared;
        self.machine.set_output_rule(plan.output.as_ref().map(|output| output.rule.clone()));
        self.hooks = hooks_of(&plan, shared, &team.callbacks);
        self.resources = plan.resources_in(shared, &team.given);
        self.scopes = plan.scopes.iter().chain(&team.granted).cloned().collect();
        self.offered = Arc::clone(&plan.offered);
        self.plan = plan;
    }
}
