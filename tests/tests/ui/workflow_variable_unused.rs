#![allow(dead_code)]
#![deny(unused_variables, unused_mut)]

use agentflow::prelude::*;
use agentflow::Result;

async fn pack(n: u32) -> Result<u32> {
    Ok(n)
}

#[workflow]
async fn order(n: Option<u32>, list: Vec<u32>) -> Result<u32> {
    for one in &list {
        let double = one * 2;
        println!("{one}");
    }
    match n {
        Some(mut n) => pack(n).await,
        None => Ok(0),
    }
}

fn main() {}
