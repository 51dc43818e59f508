//! Custom middleware around an agent's tools and model: a log, masked card numbers, and a call
//! limit. Also uses two middlewares of the library: a token budget and a cost tracker.
//!
//! `middleware` works offline with a scripted model. The model asks for two customers, the second
//! call is refused, and it answers. The program prints the log and the answer to standard output,
//! and the costs to standard error.

mod layers;

use agentflow::middleware::{Price, Prices, cost_tracker, token_budget};
use agentflow::model::Usage;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow_testing::{ScriptedModel, Turn};

use crate::layers::{Audit, CallLimit, HideCards};

/// Read what is known of a customer.
#[tool(effects = "read")]
fn customer(name: String) -> String {
    format!("{name} pays with 4000123412341234, since 2019")
}

fn model() -> ScriptedModel {
    ScriptedModel::new([
        Turn::call("customer", json!({"name": "Ada"})).usage(Usage::new(400, 20)),
        Turn::call("customer", json!({"name": "Grace"})).usage(Usage::new(450, 20)),
        Turn::with(|request| {
            let results = request.messages.messages().iter().flat_map(|message| message.results());
            let seen: Vec<&str> = results.map(|result| result.output.as_str()).collect();
            Turn::text(seen.join("; ")).usage(Usage::new(500, 60))
        }),
    ])
    .named("openai", "gpt-5-mini")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let audit = Audit::default();
    // The outermost layer is first. The log therefore shows the masked outputs and the refusals, as
    // the model sees them.
    let layers = Runtime::builder().with(audit.clone()).with(HideCards).with(CallLimit::new(1));
    // From the library: a call that would exceed the budget is not made, and the costs of each
    // answer are added up.
    let prices = Prices::new().model("openai/gpt-5-mini", Price::per_million(0.25, 2.0));
    let costs = cost_tracker(prices).max_cost(0.01);
    let runtime = layers.with(token_budget(5_000)).with(costs.clone()).build();
    let agent = Agent::new(model()).name("clerk").tools(tools![customer]).runtime(&runtime);
    let answer = agent.run("What do we know of Ada and Grace?").await?;
    for line in audit.lines() {
        println!("{line}");
    }
    println!("the answer: {answer}");
    eprintln!("spent: {:.6} of 0.01", costs.total());
    Ok(())
}
