#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

#[workflow]
fn review<T>(a: &str, mut b: String, (c, d): (u8, u8), e: &Context, f: impl Clone) -> Result<usize> {
    Ok(a.len() + b.len())
}

fn main() {}
