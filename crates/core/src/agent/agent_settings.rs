//! `AgentSettings`: optional settings of an agent.

use std::sync::Arc;

use super::Description;
use super::limits::Limits;
use super::output_key::OutputKey;
use crate::model::ModelSettings;
use crate::state::StateKey;

/// Optional settings of an agent, used by [`Agent::settings`](super::Agent::settings). [`Limits`]
/// and [`ModelSettings`] can also be passed directly.
///
/// ```
/// use agentflow::agent::{AgentSettings, Limits};
/// use agentflow::model::ModelSettings;
/// use agentflow::prelude::*;
///
/// let strict = Agent::new("openai/gpt-5-mini").settings(Limits::default().max_steps(3));
/// let settings = AgentSettings::new()
///     .description("Answers questions about invoices.")
///     .model(ModelSettings::default().temperature(0.2))
///     .grant(["invoices"]);
/// let clerk = strict.name("clerk").settings(settings);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "settings do nothing until an agent has them"]
pub struct AgentSettings {
    description: Option<Arc<str>>,
    model: Option<ModelSettings>,
    limits: Option<Limits>,
    scopes: Vec<Arc<str>>,
    output_key: Option<OutputKey>,
}

impl AgentSettings {
    /// Creates settings that change nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the description for callers of the agent. It appears in the
    /// [catalogue](crate::Runtime::catalogue), is sent to clients of a server, and to models that
    /// use the agent as a tool or in a team. Default: catalogue and clients see only the name,
    /// since they must not see the instructions; models of this program see the beginning of the
    /// instructions.
    pub fn description(mut self, description: impl Into<Arc<str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the settings of each model call, such as the temperature.
    #[doc(alias = "temperature")]
    pub fn model(mut self, settings: ModelSettings) -> Self {
        self.model = Some(settings);
        self
    }

    /// Sets the limits of each run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Grants scopes to all runs of the agent, in addition to the scopes that were granted before.
    /// A tool that requires a missing scope returns `unauthorized`.
    pub fn grant<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Saves the answer under a state key: text as a string, another output as a value of its type.
    /// The value is part of the answer's record, so it is saved if and only if the agent has
    /// answered. In a session, the next run sees the value. For an agent in a step or a tool, the
    /// following steps see it. In a team, the agent that answers uses its own key.
    ///
    /// The type of the key must be the type of the agent's [`output`](super::Agent::output), and
    /// the key must not outlive the session (`user:`, `app:`). Otherwise
    /// [`build`](super::Agent::build) and each run fail with [`Error::Build`](crate::Error::Build).
    /// An answer over the size limit, see [`state`](crate::state), fails the run with
    /// [`Error::State`](crate::Error::State).
    ///
    /// ```
    /// use agentflow::agent::AgentSettings;
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// static SUMMARY: StateKey<String> = StateKey::session("summary");
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(agentflow::store::MemoryStore::new()).build();
    /// let agent = Agent::new(ScriptedModel::new([Turn::text("All is well.")])).runtime(&runtime);
    /// let result = agent.settings(AgentSettings::new().output_key(&SUMMARY)).run("What is new?").await?;
    /// let state = runtime.run(result.run_id()).state().await?;
    /// assert_eq!(state.get(&SUMMARY).unwrap().unwrap(), "All is well.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn output_key<O>(mut self, key: &StateKey<O>) -> Self {
        self.output_key = Some(OutputKey::new(key));
        self
    }

    /// Applies the settings that are set to a description.
    pub(super) fn apply(self, agent: &mut Description) {
        let Self { description, model, limits, scopes, output_key } = self;
        agent.purpose = description.or(agent.purpose.take());
        agent.output_key = output_key.or(agent.output_key.take());
        agent.scopes.extend(scopes);
        if let Some(model) = model {
            agent.settings = model;
        }
        if let Some(limits) = limits {
            agent.limits = limits;
        }
    }
}

impl From<ModelSettings> for AgentSettings {
    fn from(settings: ModelSettings) -> Self {
        Self::new().model(settings)
    }
}

impl From<Limits> for AgentSettings {
    fn from(limits: Limits) -> Self {
        Self::new().limits(limits)
    }
}
