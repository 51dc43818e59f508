//! The inputs and the output must have the types of the function.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

#[include_workflow("include/words.yaml")]
async fn words(topic: String) -> Result<usize>;

async fn start(runtime: &Runtime) -> Result<String> {
    let run = words::start(runtime, 7).await?;
    run.result().await
}

fn main() {}
