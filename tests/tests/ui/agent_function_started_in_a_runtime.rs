use agentflow::prelude::*;

/// Greet whoever speaks.
#[agent]
async fn greeter(cx: &Context) -> Result<String>;

#[workflow]
async fn publish(text: String) -> Result<String> {
    Ok(text)
}

async fn ask(runtime: &Runtime) -> Result<()> {
    runtime.start_agent(greeter, "I am Ada.").await?;
    runtime.start_agent(greeter::agent(), "I am Ada.").await?;
    runtime.start_named(publish, agentflow::serde_json::json!({"text": "x"})).await?;
    Ok(())
}

fn main() {
    Runtime::builder().agent(greeter).agent(greeter::agent()).build();
}
