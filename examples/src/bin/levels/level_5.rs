//! Level 5: custom components. A model is a trait with two methods; a middleware is a trait with a
//! name and the hooks it needs.

use agentflow::async_trait;
use agentflow::message::{Part, Role};
use agentflow::middleware::{Middleware, ModelStep};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::prelude::*;
use futures_util::stream;

/// A model that repeats its input.
#[derive(Debug)]
struct Echo(ModelInfo);

impl Model for Echo {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let asked =
            request.messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
        let answer = Part::Text { text: asked };
        let response = ModelResponse::new(Message::new(Role::Assistant, [answer]));
        ModelStream::new(stream::iter([Ok(ModelEvent::Completed(Box::new(response)))]))
    }
}

/// Middleware that converts the answers of models to upper case.
struct Loud;

#[async_trait]
impl Middleware for Loud {
    fn name(&self) -> &str {
        "loud"
    }

    async fn after_model(&self, _: &mut ModelStep, response: &mut ModelResponse) -> Result<()> {
        response.message = Message::assistant(response.message.text().to_uppercase()).into();
        Ok(())
    }
}

pub(crate) async fn run() -> Result<String> {
    let agent = Agent::new(Echo(ModelInfo::new("example", "echo"))).with(Loud);
    Ok(agent.run("Good morning.").await?.to_string())
}
