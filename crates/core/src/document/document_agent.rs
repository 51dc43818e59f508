//! An agent of a document, as data, and the agent that is made of it once tools are found by their names.

use std::sync::Arc;

use super::FindTools;
use crate::agent::{Agent, AgentSettings};
use crate::model::{ModelSettings, ModelSource};

/// An agent as a document describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DocumentAgent {
    pub(crate) name: Arc<str>,
    /// Without it, it has the model that the runtime has in place of others.
    pub(crate) model: Option<Arc<str>>,
    /// Its constant text.
    pub(crate) instructions: String,
    /// Purpose of the agent, for those who call it.
    pub(crate) description: Option<Arc<str>>,
    pub(crate) tools: Vec<Arc<str>>,
    pub(crate) settings: ModelSettings,
}

impl DocumentAgent {
    /// The agent, with another model if there is one for it. What is not found is noted, and left out of the agent.
    pub(super) fn made(&self, model: Option<ModelSource>, find: FindTools<'_>, problems: &mut Vec<String>) -> Agent {
        let model = model.or_else(|| self.model.as_deref().map(ModelSource::from)).unwrap_or_else(|| {
            problems.push(format!(
                "the agent `{}` has no model; give the document a `model`, such as `openai/gpt-5-mini`, or the runtime one \
                 with `Runtime::builder().model(..)`",
                self.name
            ));
            ModelSource::from("none/none")
        });
        let mut agent = Agent::new(model).name(Arc::clone(&self.name));
        let settings = AgentSettings::new().model(self.settings.clone());
        agent = agent.settings(self.description.iter().cloned().fold(settings, AgentSettings::description));
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
