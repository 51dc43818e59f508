//! [`DocumentAgent`]: an agent of a document, as data, and its conversion to an [`Agent`] after its
//! tools were found.

use std::sync::Arc;

use super::FindTools;
use crate::agent::{Agent, AgentSettings};
use crate::model::{ModelSettings, ModelSource};

/// The description of an agent in a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DocumentAgent {
    pub(crate) name: Arc<str>,
    /// Model of the agent. Default: the runtime's model.
    pub(crate) model: Option<Arc<str>>,
    /// Constant part of the instructions.
    pub(crate) instructions: String,
    /// Purpose of the agent, for its callers.
    pub(crate) description: Option<Arc<str>>,
    pub(crate) tools: Vec<Arc<str>>,
    pub(crate) settings: ModelSettings,
}

impl DocumentAgent {
    /// Creates the agent. `model` replaces the document's model. Missing tools are added to
    /// `problems` and omitted.
    pub(super) fn made(
        &self,
        model: Option<ModelSource>,
        find: FindTools<'_>,
        problems: &mut Vec<String>,
    ) -> Agent {
        let model = model.or_else(|| self.model.as_deref().map(ModelSource::from)).unwrap_or_else(|| {
            problems.push(format!(
                "the agent `{}` has no model; give the document a `model`, such as `openai/gpt-5-mini`, or the runtime one \
                 with `Runtime::builder().model(..)`",
                self.name
            ));
            // The agent is still created, so that the problems of its tools are reported too. It is
            // never run.
            ModelSource::from("none/none")
        });
        let mut agent = Agent::new(model).name(Arc::clone(&self.name));
        let settings = AgentSettings::new().model(self.settings.clone());
        agent = agent
            .settings(self.description.iter().cloned().fold(settings, AgentSettings::description));
        if !self.instructions.is_empty() {
            agent = agent.instruct(&*self.instructions);
        }
        for tool in &self.tools {
            match find(tool) {
                Ok(tools) => agent = agent.tools(tools),
                Err(problem) => problems.push(format!("the agent `{}`: {problem}", self.name)),
            }
        }
        agent
    }
}
