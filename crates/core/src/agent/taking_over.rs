//! A transfer within a run: from the next turn on, another agent of the team has the conversation. The run stays that of
//! the first agent: its limits, its answer, the hooks around it. Who may transfer to whom is said in `team.rs`.

use std::sync::Arc;

use super::driver::Run;
use super::hook_calls::{HookChain, hooks_of};
use super::plan::Plan;
use crate::error::{Error, Result};
use crate::event::{AgentHandoff, EventKind, TRANSFER_TOOL};
use crate::middleware::Middleware;
use crate::resource::Resources;

/// What an agent that takes over needs to know of the run.
pub(super) struct InTeam {
    first: Arc<Plan>,
    /// The hooks around the run and its first agent.
    hooks: HookChain,
    /// The callbacks of the request, for every agent of the team.
    callbacks: Vec<Arc<dyn Middleware>>,
    /// The resources that the run was given.
    given: Resources,
    /// The scopes that the run was granted.
    granted: Vec<Arc<str>>,
    /// Why the agent that has the conversation cannot have it.
    pub(super) problem: Option<Error>,
}

impl InTeam {
    pub(super) fn of(
        plan: &Arc<Plan>,
        given: &Resources,
        granted: &[Arc<str>],
        (hooks, callbacks): (&HookChain, Vec<Arc<dyn Middleware>>),
    ) -> Option<Box<Self>> {
        plan.team.as_ref().map(|_| {
            let (first, hooks) = (Arc::clone(plan), Arc::clone(hooks));
            Box::new(Self { first, hooks, callbacks, given: given.clone(), granted: granted.to_vec(), problem: None })
        })
    }
}

impl Run {
    /// The plan of the agent that the run began with.
    pub(super) fn first_plan(&self) -> &Arc<Plan> {
        self.team.as_ref().map_or(&self.plan, |team| &team.first)
    }

    /// The hooks around that agent.
    pub(super) fn first_hooks(&self) -> &HookChain {
        self.team.as_ref().map_or(&self.hooks, |team| &team.hooks)
    }

    /// Whether a call of a tool of this name transfers the conversation.
    pub(super) fn is_transfer(&self, name: &str) -> bool {
        self.team.is_some() && name == TRANSFER_TOOL
    }

    /// Records that another agent takes over, which it does then.
    ///
    /// # Errors
    /// [`Error::Build`] when there is no such agent any more.
    pub(super) fn transfer(&mut self, to: &str) -> Result<()> {
        let next = self.first_plan().of_team(to)?;
        let transfer =
            AgentHandoff::new(Arc::clone(&self.plan.name), Arc::clone(&next.name), next.instructions.clone());
        self.record(self.segment.base.clone(), EventKind::AgentHandoff(Arc::new(transfer)));
        self.takes_over(to);
        Ok(())
    }

    /// The agent of this name has the conversation. When it is not there any more, the run fails for that as soon as it
    /// is driven.
    pub(super) fn takes_over(&mut self, name: &str) {
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
        self.machine.answers_by(plan.output.as_ref().map(|output| output.rule.clone()));
        self.hooks = hooks_of(&plan, shared, &team.callbacks);
        self.resources = plan.resources_in(shared, &team.given);
        self.scopes = plan.scopes.iter().chain(&team.granted).cloned().collect();
        self.offered = Arc::clone(&plan.offered);
        self.plan = plan;
    }
}
