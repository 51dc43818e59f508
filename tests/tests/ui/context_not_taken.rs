use agentflow::prelude::*;

#[tool]
fn name(text: String) -> String {
    format!("{text} {}", cx.run_id())
}

#[tool]
async fn wait(text: String) -> String {
    cx.cancelled().await;
    text
}

async fn step(_cx: &Context, text: String) -> agentflow::Result<String> {
    Ok(text)
}

#[workflow]
async fn flow(text: String) -> agentflow::Result<String> {
    step(cx, text).await
}

#[workflow]
async fn flow_of_a_map(texts: Vec<String>) -> agentflow::Result<Vec<String>> {
    map!(texts, |text| step(cx, text)).await
}

// A local variable named `cx` gets no message.
#[tool]
fn own(text: String) -> String {
    let cx = text.len();
    format!("{}", cx + 1)
}

fn main() {
    let _ = (tools![name, wait, own], flow::workflow());
}
