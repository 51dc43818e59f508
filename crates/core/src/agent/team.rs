//! `Team`: agents that hand off the conversation to each other. This module validates the targets
//! and defines the handoff tool; the machine and the driver execute handoffs.

use std::collections::HashSet;
use std::sync::Arc;

use agentflow_schema::text::{did_you_mean, head, nearest};
use serde_json::json;

use super::agent_tool::DESCRIPTION;
use super::machine::Transfer;
use super::plan::Plan;
use super::typed_output::Output;
use super::{Agent, Description};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::{EventKind, TRANSFER_TOOL};
use crate::run::{Host, RunJournal};
use crate::tool::{
    Effects, Tool, ToolDefinition, ToolError, ToolFuture, ToolOutput, ToolPolicy, read_arguments,
};

/// A group of agents that hand off a conversation to each other: for example a first agent that
/// finds out the topic, and experts. One agent has the conversation at a time.
///
/// [`build`](Self::build) returns an ordinary agent: it can be run, streamed, resumed, used as a
/// tool and used in a workflow. Each agent with targets gets the tool `transfer_to_agent`. The
/// target agent sees the whole conversation, with its own instructions, model, tools, scopes,
/// resources and callbacks. The other tool calls of a turn are executed before the handoff. If a
/// turn requests several handoffs, only the first one is made. The next run starts with the first
/// agent again.
///
/// The limits and the answer type of the first agent apply. Turns, model calls, time and failures
/// are counted across all agents, and [`Limits::max_handoffs`](super::Limits::max_handoffs) ends a
/// run whose agents hand off in a circle. A handoff is recorded as `agent.handoff`, and a resumed
/// run continues with the agent that had the conversation.
///
/// ```
/// use agentflow::agent::Team;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let triage = ScriptedModel::new([Turn::call("transfer_to_agent", json!({"agent": "billing"}))]);
/// let triage = Agent::new(triage).name("triage").instruct("Find out what it is about.");
/// let billing = ScriptedModel::new([Turn::text("You were charged twice; the second charge is gone.")]);
/// let billing = Agent::new(billing).name("billing").instruct("You know invoices and payments.");
///
/// let desk = Team::new(triage, &["billing"]).agent(billing, &["triage"]).build()?;
/// let result = desk.run("Why do I pay twice?").await?;
/// assert_eq!(result.output(), "You were charged twice; the second charge is gone.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a team does nothing until it is built"]
#[doc(alias = "handoff")]
#[doc(alias = "handoffs")]
#[doc(alias = "transfer_targets")]
#[doc(alias = "sub_agents")]
pub struct Team<O = String> {
    first: Agent<O>,
    targets: Vec<Arc<str>>,
    others: Vec<(Agent, Vec<Arc<str>>)>,
    about: Vec<(Arc<str>, Arc<str>)>,
}

impl<O: 'static> Team<O> {
    /// Creates a team that starts with this agent, which may hand off to the agents with the given
    /// names. The names are set by [`Agent::name`].
    pub fn new(first: Agent<O>, targets: &[&str]) -> Self {
        Self { first, targets: owned(targets), others: Vec::new(), about: Vec::new() }
    }

    /// Adds an agent, which may hand off to the agents with the given names. An agent without
    /// targets always answers.
    pub fn agent(mut self, agent: Agent, targets: &[&str]) -> Self {
        self.others.push((agent, owned(targets)));
        self
    }

    /// Describes an agent to the other models of the team. Default: its
    /// [description](super::AgentSettings::description), or else the beginning of its instructions.
    pub fn about(mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        self.about.push((name.into(), text.into()));
        self
    }

    /// Builds the team as an agent with the name and answer type of the first one. An agent without
    /// a runtime uses the runtime of the first one.
    ///
    /// # Errors
    /// [`Error::Build`] if a target is not in the team, two agents have the same name, an agent is
    /// the target of no handoff, or an agent is a team itself or has its own user message. Errors
    /// that [`Agent::build`] reports for a single agent are reported by `Agent::build` of the team,
    /// or when a run starts.
    pub fn build(self) -> Result<Agent<O>> {
        let Self { first, targets, others, about } = self;
        let team = &first.description;
        let names: Vec<Arc<str>> = std::iter::once(&first.description.name)
            .chain(others.iter().map(|(agent, _)| &agent.description.name))
            .map(Arc::clone)
            .collect();
        check_names(team, &names)?;
        let all = std::iter::once((&names[0], &targets))
            .chain(names[1..].iter().zip(others.iter().map(|of| &of.1)));
        check_targets(team, &names, all)?;
        for (name, _) in &about {
            check_known(team, &names, name, "`about` names")?;
        }
        if !team.members.is_empty() {
            return Err(team.build_error("it is a team already; add the agents to that team"));
        }
        for (agent, _) in &others {
            agent.description.check_member(team)?;
        }
        let described = |target: &Arc<str>| {
            let at = names.iter().position(|name| name == target).expect("checked above");
            // The last `about` for an agent wins, then its own description.
            let said = about
                .iter()
                .rev()
                .find(|(name, _)| name == target)
                .map(|(_, text)| Arc::clone(text));
            let own = || match at {
                0 => first.description.about(),
                other => others[other - 1].0.description.about(),
            };
            Target { name: Arc::clone(target), about: said.unwrap_or_else(own) }
        };
        let targets: Vec<Target> = targets.iter().map(described).collect();
        let members = others
            .iter()
            .map(|(agent, targets)| {
                let targets = targets.iter().map(described).collect();
                agent.clone().changed(|agent| agent.targets = targets)
            })
            .collect();
        Ok(first.clone().changed(|agent| (agent.targets, agent.members) = (targets, members)))
    }
}

fn owned(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| (*name).into()).collect()
}

fn check_names(team: &Description, names: &[Arc<str>]) -> Result<()> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(team.build_error(format!(
            "two agents of the team have the name `{name}`; give each one of its own with `Agent::name`"
        ))),
        None => Ok(()),
    }
}

fn check_known(team: &Description, names: &[Arc<str>], name: &str, who: &str) -> Result<()> {
    if names.iter().any(|known| **known == *name) {
        return Ok(());
    }
    let near = did_you_mean(nearest(name, names.iter().map(|name| &**name)));
    Err(team.build_error(format!("{who} the agent `{name}`, which is not in the team{near}")))
}

/// Checks that every target is another agent of the team, and that every agent can be reached from
/// the first one.
fn check_targets<'a>(
    team: &Description,
    names: &[Arc<str>],
    all: impl Iterator<Item = (&'a Arc<str>, &'a Vec<Arc<str>>)>,
) -> Result<()> {
    let all: Vec<_> = all.collect();
    for (name, targets) in &all {
        for target in *targets {
            check_known(team, names, target, &format!("`{name}` may transfer to"))?;
            if target == *name {
                return Err(team
                    .build_error(format!("`{name}` may transfer to itself; remove that target")));
            }
        }
    }
    // A breadth-first search from the first agent.
    let mut reached = vec![&names[0]];
    let mut at = 0;
    while at < reached.len() {
        let (_, targets) =
            all.iter().find(|(name, _)| *name == reached[at]).expect("each name has its targets");
        for target in targets.iter() {
            if !reached.contains(&target) {
                reached.push(target);
            }
        }
        at += 1;
    }
    match names.iter().find(|name| !reached.contains(name)) {
        Some(name) => Err(team.build_error(format!(
            "no agent transfers to `{name}`; name it as a target, or leave it out"
        ))),
        None => Ok(()),
    }
}

impl Description {
    /// Returns the description for models of this program: the configured one, or else the
    /// beginning of the instructions.
    pub(super) fn about(&self) -> Arc<str> {
        match (&self.purpose, &self.instructions, self.definition) {
            (Some(purpose), ..) => Arc::clone(purpose),
            (None, Some(instructions), _) => head(instructions, DESCRIPTION).into(),
            (None, None, Some(definition)) => head(definition.instruction(), DESCRIPTION).into(),
            (None, None, None) => "".into(),
        }
    }

    /// Returns the description for other programs. It never contains the instructions.
    pub(super) fn public(&self) -> Arc<str> {
        self.purpose.clone().unwrap_or_else(|| format!("Ask the agent `{}`.", self.name).into())
    }

    /// Checks that the first agent was not renamed after the team was built. The other agents refer
    /// to it by its old name.
    ///
    /// # Errors
    /// [`Error::Build`].
    fn check_renamed(&self) -> Result<()> {
        let others = || self.members.iter().map(|other| &*other.description);
        let is_known =
            |name: &Arc<str>| *name == self.name || others().any(|other| other.name == *name);
        let unknown =
            others().flat_map(|other| &other.targets).find(|target| !is_known(&target.name));
        if unknown.is_some() || others().any(|other| other.name == self.name) {
            return Err(self.build_error(
                "the team was built when its first agent had another name; name that agent before `Team::new`",
            ));
        }
        Ok(())
    }

    fn check_member(&self, team: &Self) -> Result<()> {
        if !self.members.is_empty() {
            return Err(team.build_error(format!(
                "its agent `{}` is a team itself; add its agents separately",
                self.name
            )));
        }
        if self.prompt.as_ref().is_some_and(|prompt| prompt.asks()) {
            return Err(team.build_error(format!(
                "its agent `{}` asks something of its own, since its comment or a parameter puts text into the user's \
                 message; an agent that takes over answers what was asked: leave only instructions",
                self.name
            )));
        }
        Ok(())
    }
}

/// A possible target of a handoff.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) name: Arc<str>,
    about: Arc<str>,
}

/// Plans of the agents that the first one can hand off to, directly or indirectly.
pub(super) struct TeamPlan(Vec<Arc<Plan>>);

impl TeamPlan {
    /// Plans the other members of the team. Returns `None` if the agent is not in a team.
    ///
    /// # Errors
    /// [`Error::Build`] for an agent that [`Agent::build`] rejects.
    pub(super) fn new<O>(first: &Description, output: &Output<O>) -> Result<Option<Self>> {
        if first.members.is_empty() {
            return Ok(None);
        }
        first.check_renamed()?;
        let plans = first.members.iter().map(|member| {
            let bound = match Arc::ptr_eq(&member.description.host, Host::of_process()) {
                true => {
                    let own = member.description.resources.clone();
                    member.clone().host(&first.host).resources(&first.resources).resources(&own)
                }
                false => member.clone(),
            };
            Plan::new(&bound.description, output).map(Arc::new)
        });
        Ok(Some(Self(plans.collect::<Result<_>>()?)))
    }

    pub(super) fn plans(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.0.iter()
    }
}

impl Plan {
    /// Returns the plans of the other members of the team.
    pub(super) fn others(&self) -> impl Iterator<Item = &Arc<Self>> {
        self.team.iter().flat_map(TeamPlan::plans)
    }

    /// Returns the plan of a member of the team. Called on the plan of the first agent.
    ///
    /// # Errors
    /// [`Error::Build`] if the team does not contain the agent, because it was changed after the
    /// handoff was recorded.
    pub(super) fn of_team(self: &Arc<Self>, name: &str) -> Result<Arc<Self>> {
        match std::iter::once(self).chain(self.others()).find(|plan| *plan.name == *name) {
            Some(plan) => Ok(Arc::clone(plan)),
            None => Err(Error::Build {
                what: "agent",
                name: Arc::clone(&self.name),
                problem: format!(
                    "the run was transferred to `{name}`, which is not in the team any more; add an agent of that name to \
                     resume it"
                ),
            }),
        }
    }
}

impl Plan {
    /// Checks that the team contains the agent to which a recorded run was handed off last.
    ///
    /// # Errors
    /// [`Error::Build`].
    pub(super) fn check_transfers(self: &Arc<Self>, journal: &RunJournal) -> Result<()> {
        if self.team.is_none() {
            return Ok(());
        }
        let transfers = journal.all().filter_map(|event| match &event.kind {
            EventKind::AgentHandoff(transfer) if event.path.is_root() => Some(&transfer.to),
            _ => None,
        });
        transfers.last().map_or(Ok(()), |to| self.of_team(to).map(drop))
    }
}

/// The tool with which a model hands off the conversation. The call only checks the name; the
/// machine requests the handoff when it sees the result.
pub(super) struct HandoffTool {
    definition: Arc<ToolDefinition>,
    targets: Vec<Arc<str>>,
}

impl HandoffTool {
    pub(super) fn new(targets: &[Target]) -> Self {
        let mut about = String::from(
            "Transfer the conversation to another agent, which sees all of it and answers from then on. Call it alone, \
             when one of these fits better than you:",
        );
        for Target { name, about: what } in targets {
            about.push_str("\n- ");
            about.push_str(name);
            if !what.is_empty() {
                about.push_str(": ");
                about.push_str(what);
            }
        }
        let names: Vec<&str> = targets.iter().map(|target| &*target.name).collect();
        let parameters = json!({
            "type": "object",
            "properties": {"agent": {"type": "string", "enum": names, "description": "The agent that takes over."}},
            "required": ["agent"],
            "additionalProperties": false,
        });
        let mut definition = ToolDefinition::new(TRANSFER_TOOL, about, parameters);
        definition.policy = ToolPolicy::default().effects(Effects::None);
        let targets = targets.iter().map(|target| Arc::clone(&target.name)).collect();
        Self { definition: Arc::new(definition), targets }
    }

    fn answer(&self, arguments: &str) -> Result<ToolOutput, ToolError> {
        let Transfer { agent } = read_arguments(arguments, &self.definition.parameters)?;
        if !self.targets.iter().any(|target| **target == *agent) {
            let names = self.targets.iter().map(|target| &**target);
            let hint = match nearest(&agent, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("give one of: {}", names.collect::<Vec<_>>().join(", ")),
            };
            return Err(ToolError::invalid_arguments(format!(
                "`agent`: you cannot transfer to `{agent}`; {hint}"
            )));
        }
        Ok(ToolOutput::text(format!("`{agent}` has the conversation now")))
    }
}

impl Tool for HandoffTool {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, _: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        ToolFuture::ready(self.answer(arguments))
    }

    fn checks_arguments(&self) -> bool {
        true
    }
}
