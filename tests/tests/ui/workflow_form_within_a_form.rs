#![allow(dead_code)]

use agentflow::prelude::*;

async fn fetch(url: String) -> Result<String> {
    Ok(url)
}

#[workflow]
async fn first(url: String) -> Result<String> {
    let page = fallback!(timeout!("50ms", fetch(url)), fetch(url)).await?;
    Ok(page)
}

#[workflow]
async fn all(urls: Vec<String>) -> Result<Vec<String>> {
    let pages = map!(urls, |url| timeout!("50ms", fetch(url))).await?;
    Ok(pages)
}

#[workflow]
async fn blocks(url: String) -> Result<String> {
    let page = fallback!(
        {
            let value = timeout!("50ms", fetch(url)).await?;
            Ok(value)
        },
        fetch(url)
    )
    .await?;
    Ok(page)
}

fn main() {}
