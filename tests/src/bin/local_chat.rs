//! A host binary for tests: the command line with an agent whose model server runs on this machine,
//! at the address in `AGENTFLOW_LOCAL`.

use std::sync::Arc;

use agentflow::message::{Part, Role, ToolCall};
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::{
    ModelError, ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream, OutputSchema,
};
use agentflow::prelude::*;
use agentflow::tool::ToolManifest;
use futures_util::StreamExt;

/// Throw something away for good.
#[tool(approve)]
fn throw_away(what: String) -> String {
    format!("thrown away: {what}")
}

/// You are a friendly assistant. Answer in one short sentence.
#[agent(model = "local/smollm2", tools = [throw_away], temperature = 0, max_tokens = 24)]
async fn local(cx: &Context) -> Result<String>;

/// A wrapper for a model that is too small to call tools, and whose server's chat template ignores
/// tools. When the user asks for it, the model writes arguments that match the tool's schema, and
/// this wrapper turns them into a tool call.
struct Obliged(OpenAiChat);

impl Model for Obliged {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, mut request: ModelRequest) -> ModelStream {
        let tool = request
            .tools
            .definitions()
            .first()
            .map(|tool| (tool.name.to_string(), tool.parameters.clone()));
        request.tools = ToolManifest::default();
        let last = request.messages.last();
        let is_asked = last
            .is_some_and(|last| last.role() == Role::User && last.text().starts_with("Throw away"));
        let Some((name, parameters)) = tool.filter(|_| is_asked) else {
            return self.0.stream(request);
        };
        request.output = Some(Arc::new(OutputSchema::new(&name, parameters)));
        let called = move |event: Result<ModelEvent, ModelError>| {
            let call = match event {
                Ok(ModelEvent::Completed(written)) => {
                    let arguments = written.message.text().into_owned();
                    let call =
                        Part::ToolCall(Arc::new(ToolCall::new("call_1", name.as_str(), arguments)));
                    let message = Message::new(Role::Assistant, vec![call]);
                    Some(Ok(ModelEvent::Completed(Box::new(ModelResponse::new(message)))))
                }
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            };
            std::future::ready(call)
        };
        ModelStream::new(self.0.stream(request).filter_map(called))
    }
}

fn main() -> std::process::ExitCode {
    let host = Runtime::builder().model_provider("local", |model, _| {
        let address = std::env::var("AGENTFLOW_LOCAL")
            .map_err(|_| "AGENTFLOW_LOCAL is not set".to_owned())?;
        let model = OpenAiChat::builder(model.model()).base_url(address).build();
        Ok(Arc::new(Obliged(model.map_err(|error| error.to_string())?)))
    });
    agentflow::cli::run_with(&host.build())
}
