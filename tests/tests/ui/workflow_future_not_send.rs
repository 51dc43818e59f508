#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

async fn local() -> Result<String> {
    let text = std::rc::Rc::new(String::new());
    std::future::ready(()).await;
    Ok(text.to_string())
}

#[workflow]
async fn review() -> Result<String> {
    let text = local().await?;
    Ok(text)
}

fn main() {}
