//! Middleware of one's own around an agent's tools and model: a log, card numbers that are hidden, and a limit of calls.
//!
//! `middleware` works offline: the model is scripted. It asks for two customers, is refused the second one, and answers.
//! What it prints is the log and then the answer.

mod layers;

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
        Turn::call("customer", json!({"name": "Ada"})),
        Turn::call("customer", json!({"name": "Grace"})),
        Turn::with(|request| {
            let results = request.messages.messages().iter().flat_map(|message| message.results());
            let seen: Vec<&str> = results.map(|result| result.output.as_str()).collect();
            Turn::text(seen.join("; "))
        }),
    ])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let audit = Audit::default();
    // The outermost first: the log has what the model sees, cards hidden and refusals included.
    let runtime = Runtime::builder().with(audit.clone()).with(HideCards).with(CallLimit::new(1)).build();
    let agent = Agent::new(model()).name("clerk").tools(tools![customer]).runtime(&runtime);
    let answer = agent.run("What do we know of Ada and Grace?").await?;
    for line in audit.lines() {
        println!("{line}");
    }
    println!("the answer: {answer}");
    Ok(())
}
