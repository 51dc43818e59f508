#![allow(dead_code, unused)]

use agentflow::Result;
use agentflow::prelude::*;

async fn count(text: &str) -> Result<usize> {
    Ok(text.len())
}

async fn fetch(url: String) -> Result<String> {
    Ok(url)
}

async fn plain(n: u32) -> u32 {
    n
}

struct Db;

impl Db {
    async fn size(&self) -> Result<u32> {
        Ok(1)
    }
}

#[workflow]
async fn size(cx: &Context) -> Result<u32> {
    let db = cx.inject::<Db>()?;
    let n = db.size().await?;
    Ok(n)
}

fn main() {}
