//! Middleware of one's own around an agent's tools and model: a log, card numbers that are hidden, and a limit of calls; and of
//! the library: a budget of tokens, and what the run has spent.
//!
//! `middleware` works offline: the model is scripted. It asks for two customers, is refused the second one, and answers.
//! What it prints is the log and then the answer; on standard error it says what was spent.

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
    // The outermost first: the log has what the model sees, cards hidden and refusals included.
    let layers = Runtime::builder().with(audit.clone()).with(HideCards).with(CallLimit::new(1));
    // Of the library: a call that would exceed the budget is not made, and each answer is counted by its price.
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
