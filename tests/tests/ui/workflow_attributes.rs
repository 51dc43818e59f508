#![allow(dead_code)]

use agentflow::Result;
use agentflow::prelude::*;

async fn report(text: String) -> Result<String> {
    Ok(text)
}

#[workflow]
async fn on_the_last_form(text: String) -> Result<bool> {
    #[node(timeuot = "7d", retry = 2)]
    gate!("send {text}?", answer = bool).await
}

#[workflow]
async fn on_the_output(text: String) -> Result<String> {
    let said = report(text).await?;
    #[node(retry = 2)]
    Ok(said)
}

#[workflow]
async fn on_arms(text: String) -> Result<String> {
    let said = match text.as_str() {
        #[node(retry = 2)]
        "a" => report(text).await?,
        #[cfg(unix)]
        "b" => report(text).await?,
        _ => #[node(retry = 2)]
        {
            report(text).await?
        }
    };
    Ok(said)
}

#[workflow]
async fn within_a_form(texts: Vec<String>) -> Result<Vec<String>> {
    let said = map!(texts, |text| #[node(retry = 2)] report(text)).await?;
    map!(said, async |text| -> Result<String> { report(text) }).await
}

#[workflow]
async fn conditional(input: String) -> Result<String> {
    #[cfg(feature = "reports")]
    let text = report(input).await?;
    #[cfg_attr(unix, node(retry = 2))]
    let said = report(text).await?;
    Ok(said)
}

#[workflow]
async fn unknown(
    /// A text.
    text: String,
    #[node(retry = 2)] other: String,
) -> Result<String> {
    #[nod(retry = 2)]
    let said = report(text + &other).await?;
    Ok(said)
}

#[tool]
fn described(
    /// Everything about the run.
    cx: &Context,
) -> String {
    cx.path().to_string()
}

fn main() {}
