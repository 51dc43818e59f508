#![allow(dead_code)]

use agentflow::prelude::*;

async fn fetch(page: u32) -> Result<u32> {
    Ok(page)
}

#[workflow]
async fn fetch_all(last: u32) -> Result<Vec<u32>> {
    #[node(id = "pages.items")]
    let first = fetch(last).await?;
    let pages = map!(vec![first, last], |page| fetch(page)).await?;
    Ok(pages)
}

fn main() {}
