use agentflow::prelude::*;

/// Add two integers.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tokio::main]
async fn main() -> Result<()> {
    let agent = Agent::new("openai/gpt-5-mini").tools(tools![add]);
    println!("{}", agent.run("What is 2 + 3?").await?);
    Ok(())
}
