//! Level 3: a workflow. Ordinary Rust with `.await`; steps that do not depend on each other run
//! concurrently.

use agentflow::prelude::*;
use agentflow_testing::{ScriptedModel, Turn};

/// Find when a train leaves.
#[tool(effects = "read")]
async fn train(town: String) -> String {
    format!("the 8:05 to {town}")
}

/// Find a hotel.
#[tool(effects = "read")]
async fn hotel(town: String) -> String {
    format!("the Grand in {town}")
}

/// Write one sentence about a journey with {train} and {hotel}.
#[agent(model = "openai/gpt-5-mini")]
async fn describe(cx: &Context, train: String, hotel: String) -> Result<String>;

/// Plans a journey.
#[workflow]
async fn journey(cx: &Context, town: String) -> Result<String> {
    let train = train(town).await;
    let hotel = hotel(town).await; // runs beside `train`
    let text = describe(cx, train, hotel).await?; // waits for both
    Ok(text)
}

pub(crate) async fn run() -> Result<String> {
    let model = ScriptedModel::from_fn(|request| {
        let asked =
            request.messages.messages().iter().map(|message| message.text()).collect::<String>();
        let with = asked.split_once("journey with ").map_or("", |(_, with)| with);
        Turn::text(format!("You take {}", with.trim()))
    });
    let runtime = Runtime::builder().model(model).build();
    runtime.start(journey::workflow(), "Bergen".to_owned()).await?.result().await
}
