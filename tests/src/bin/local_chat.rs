//! A host's binary for tests: the command line with an agent whose model is served on this machine, at the address that
//! `AGENTFLOW_LOCAL` names.

use std::sync::Arc;

use agentflow::message::Role;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::{ModelInfo, ModelRequest, ModelSettings, ModelStream, ToolChoice};
use agentflow::prelude::*;

/// Throw something away for good.
#[tool(approve)]
fn throw_away(what: String) -> String {
    format!("thrown away: {what}")
}

/// You are a friendly assistant. Answer in one short sentence.
#[agent(model = "local/smollm2", tools = [throw_away], temperature = 0, max_tokens = 24)]
async fn local(cx: &Context) -> Result<String>;

/// A model that is too small to know when a tool is of use: it has to call one when the user says so, and else it must not.
struct Obliged(OpenAiChat);

impl Model for Obliged {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, mut request: ModelRequest) -> ModelStream {
        let asked = request
            .messages
            .last()
            .is_some_and(|last| last.role() == Role::User && last.text().starts_with("Throw away"));
        let choice = if asked { ToolChoice::Required } else { ToolChoice::None };
        request.settings = Arc::new(ModelSettings::clone(&request.settings).tool_choice(choice));
        self.0.stream(request)
    }
}

fn main() -> std::process::ExitCode {
    let host = Runtime::builder().model_provider("local", |model, _| {
        let address = std::env::var("AGENTFLOW_LOCAL").map_err(|_| "AGENTFLOW_LOCAL is not set".to_owned())?;
        let model = OpenAiChat::builder(model.model()).base_url(address).build();
        Ok(Arc::new(Obliged(model.map_err(|error| error.to_string())?)))
    });
    agentflow::cli::run_with(&host.build())
}
