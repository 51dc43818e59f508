//! The observed agent, and a stand-in for its model.

use agentflow::Message;
use agentflow::message::{Part, Role, ToolCall};
use agentflow::model::{
    ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelSettings, ModelSource, ModelStream,
    Usage,
};
use agentflow::prelude::*;
use agentflow::serde_json::json;

/// The weather of a city.
#[tool(effects = "read")]
fn weather(city: String) -> String {
    format!("It rains in {city}.")
}

/// Builds an agent that tells if an umbrella is needed.
pub(crate) fn forecaster() -> Agent {
    let model = match std::env::var("AGENTFLOW_MODEL") {
        Ok(name) => ModelSource::from(name),
        Err(_) => StandIn(ModelInfo::new("example", "stand-in")).into(),
    };
    Agent::new(model)
        .name("forecaster")
        .instruct("Look at the weather before you answer.")
        .settings(ModelSettings::default().max_tokens(200))
        .tools(tools![weather])
}

/// A model that asks for the weather of the city in the last word, then repeats the tool's output.
#[derive(Debug)]
struct StandIn(ModelInfo);

impl Model for StandIn {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let last = request.messages.last();
        let part = match last.and_then(|message| message.results().next()) {
            Some(weather) => Part::Text { text: format!("Yes. {}", weather.text()) },
            None => {
                let asked = last.map(|message| message.text().into_owned()).unwrap_or_default();
                let city = asked.trim_end_matches('?').rsplit(' ').next().unwrap_or_default();
                Part::ToolCall(
                    ToolCall::new("call_1", "weather", json!({"city": city}).to_string()).into(),
                )
            }
        };
        let mut response = ModelResponse::new(Message::new(Role::Assistant, [part]));
        response.usage = Usage::new(20, 5);
        response.model = "stand-in-1".to_owned();
        ModelStream::new(futures_util::stream::iter([Ok(ModelEvent::Completed(Box::new(
            response,
        )))]))
    }
}
