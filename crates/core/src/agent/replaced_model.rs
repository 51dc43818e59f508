//! `ReplacedModel`: the model of an agent that a test replaces. It calls the replacement and
//! returns its value as a model answer. The agent loop is the real one.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::message::{Message, Role};
use crate::model::{
    Model, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelRequest, ModelResponse,
    ModelStream, OutputMode, OutputSchema,
};
use crate::tool::StandIn;

pub(super) struct ReplacedModel {
    info: ModelInfo,
    stand_in: StandIn,
}

impl ReplacedModel {
    pub(super) fn new(stand_in: StandIn) -> Self {
        Self { info: ModelInfo::new("replacement", Arc::clone(&stand_in.name)), stand_in }
    }
}

#[async_trait]
impl Model for ReplacedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn output_mode(&self, _: &OutputSchema, _: bool) -> Result<OutputMode, String> {
        Ok(OutputMode::Native)
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let stand_in = self.stand_in.clone();
        ModelStream::new(futures_util::stream::once(async move {
            match stand_in.call(&arguments_of(&request).to_string(), None).await {
                Ok(output) => {
                    let text = answer_of(output.into_json(), request.output.as_deref());
                    Ok(ModelEvent::Completed(Box::new(ModelResponse::new(Message::assistant(
                        text,
                    )))))
                }
                Err(replaced) => {
                    let error =
                        ModelError::new(ModelErrorKind::BadRequest, replaced.error.message());
                    Err(error.with_provider_code("replacement"))
                }
            }
        }))
    }
}

/// Returns the request to the agent as JSON arguments for the replacement.
fn arguments_of(request: &ModelRequest) -> Value {
    let messages = request.messages.messages();
    let text = |role: Role| {
        messages.iter().filter(move |message| message.role() == role).map(|message| message.text())
    };
    let instructions: Vec<_> = text(Role::System).collect();
    json!({"instructions": instructions.join("\n"), "message": text(Role::User).next_back().unwrap_or_default()})
}

/// Returns the answer in the form that the agent decodes: a string as text, any other value in the
/// form of the output schema.
fn answer_of(json: String, output: Option<&OutputSchema>) -> String {
    let Ok(value) = serde_json::from_str::<Value>(&json) else { return json };
    let Some(output) = output else {
        return match value {
            Value::String(text) => text,
            _ => json,
        };
    };
    let is_wrapped =
        |object: &Value| object.as_object().is_some_and(|object| object.keys().eq(["value"]));
    match is_wrapped(&output.schema["properties"]) && !is_wrapped(&value) {
        true => json!({"value": value}).to_string(),
        false => json,
    }
}
