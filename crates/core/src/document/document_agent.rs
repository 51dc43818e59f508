//! [`DocumentAgent`]: an agent of a document, as data, and its conversion to an [`Agent`] after its
//! tools were found.

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject, SubjectKind};
use std::sync::Arc;

use super::FindTools;
use super::document_codes;
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
        problems: &mut Vec<Diagnostic>,
    ) -> Agent {
        let model =
            model.or_else(|| self.model.as_deref().map(ModelSource::from)).unwrap_or_else(|| {
                problems.push(
                    Diagnostic::new(document_codes::AGENT_WITHOUT_MODEL).name("agent", &self.name),
                );
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
                Err(problem) => {
                    let agent = DiagnosticSubject::new(SubjectKind::Agent, &*self.name);
                    problems.push(problem.of(agent));
                }
            }
        }
        agent
    }
}
