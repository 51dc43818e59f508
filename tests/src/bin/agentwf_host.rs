//! A host's own binary: the command line over tools that are linked into it.

use std::sync::Arc;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};

/// Add two integers.
#[tool(effects = "none")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// The weather of a city.
#[tool(effects = "read")]
async fn get_weather(
    /// The city's name.
    city: String,
    unit: Option<String>,
) -> String {
    let unit = unit.unwrap_or_else(|| "celsius".to_owned());
    format!("12 degrees {unit} in {city}")
}

/// Wait, for a test that stops a run meanwhile.
#[tool(effects = "none")]
async fn wait(milliseconds: u64) -> &'static str {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    "waited"
}

/// Hold a thread, for a test of what cannot be stopped.
#[tool(effects = "none")]
fn block(milliseconds: u64) -> &'static str {
    std::thread::sleep(Duration::from_millis(milliseconds));
    "held"
}

/// Forget everything; only for a run that may.
#[tool(scopes("admin"), approve)]
fn forget() -> &'static str {
    "forgotten"
}

/// A model of the host's own: it says the task again.
struct Parrot(ModelInfo);

impl Model for Parrot {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let said = request.messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
        let answer = ModelResponse::new(Message::assistant(said));
        Box::pin(futures_util::stream::iter([Ok(ModelEvent::Completed(Box::new(answer)))]))
    }
}

fn main() -> std::process::ExitCode {
    let host = Runtime::builder()
        .model_provider("parrot", |model, _| Ok(Arc::new(Parrot(ModelInfo::new(model.provider(), model.model())))));
    agentflow::cli::run_with(&host.build())
}
