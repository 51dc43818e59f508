//! A rule-based model for use without a real one. It requests the rates of the currencies in the
//! question and puts the result into a sentence. It sees only the conversation.

use agentflow::message::{Message, Part, Role, ToolCall};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::serde_json::json;
use agentflow::{Model, serde_json};
use futures_util::stream;

#[derive(Debug)]
pub(crate) struct StandIn(ModelInfo);

impl StandIn {
    pub(crate) fn new() -> Self {
        Self(ModelInfo::new("example", "stand-in"))
    }
}

impl Model for StandIn {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let response = ModelResponse::new(Message::new(Role::Assistant, [next(&request)]));
        ModelStream::new(stream::iter([Ok(ModelEvent::Completed(Box::new(response)))]))
    }
}

fn next(request: &ModelRequest) -> Part {
    let messages = request.messages.messages();
    let asked = messages.iter().rfind(|message| message.role() == Role::User);
    let question = asked.map(|message| message.text().into_owned()).unwrap_or_default();
    let rates = messages.last().and_then(|message| message.results().next().cloned());
    let text = match (rates, question.split_once("The rates: ")) {
        (Some(rates), _) => rates.output.to_string(),
        (None, Some((_, rates))) => {
            let rates = rates.lines().next().unwrap_or_default();
            format!("Whoever travels gets {} for one unit.", in_words(rates))
        }
        (None, None) => {
            let is_currency =
                |word: &&str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            let mut names =
                question.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(is_currency);
            let arguments =
                json!({"base": names.next().unwrap_or("EUR"), "quotes": names.collect::<Vec<_>>()});
            return Part::ToolCall(
                ToolCall::new("", "exchange_rates", arguments.to_string()).into(),
            );
        }
    };
    Part::Text { text }
}

/// Formats `{"JPY":160.0}` as `160 JPY`.
fn in_words(rates: &str) -> String {
    let rates: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(rates).unwrap_or_default();
    let all: Vec<String> = rates.iter().map(|(name, rate)| format!("{rate} {name}")).collect();
    all.join(" and ")
}
