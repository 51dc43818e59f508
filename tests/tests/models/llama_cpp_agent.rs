//! A typed `#[agent]` against llama.cpp's server with a small real model. The server constrains the
//! model's output to the schema of the return type. It installs about 130 MB, so it runs only on
//! request: `AGENTFLOW_LIVE=1 cargo test --test models llama_cpp_agent`.

use std::time::Duration;

use agentflow::model::openai_chat::OpenAiChat;
use agentflow::{Context, Runtime, agent};
use agentflow_tests::LlamaServer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Country {
    capital: String,
    continent: Continent,
    #[schemars(range(min = 1, max = 9))]
    confidence: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Continent {
    Africa,
    America,
    Asia,
    Europe,
    Oceania,
}

/// You know geography. Describe the country {country} as JSON with its capital city, its continent and how sure you
/// are, from 1 to 9.
#[agent(model = "openai-chat/smollm2", temperature = 0, max_tokens = 60, output_retries = 0)]
async fn describe(cx: &Context, country: String) -> agentflow::Result<Country>;

/// Only one attempt is allowed. Without the server's constraint, a model this small would not
/// produce valid output.
#[tokio::test]
async fn the_server_keeps_a_small_model_to_the_return_type() {
    let Some(server) = LlamaServer::start() else { return };
    let model = OpenAiChat::builder("smollm2")
        .base_url(format!("{}/v1", server.base()))
        .build()
        .expect("a model");
    let runtime = Runtime::builder().model(model).build();
    let answer = tokio::time::timeout(
        Duration::from_secs(240),
        describe(&runtime.context(), "France".into()),
    )
    .await
    .expect("an answer in time")
    .expect("an answer that fits");
    assert!(answer.capital.contains("Paris"), "{answer:?}");
    assert!((1..=9).contains(&answer.confidence), "{answer:?}");
}
