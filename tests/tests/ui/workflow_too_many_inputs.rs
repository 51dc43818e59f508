#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

#[workflow]
async fn review(i0: u32, i1: u32, i2: u32, i3: u32, i4: u32, i5: u32, i6: u32, i7: u32, i8: u32, i9: u32, i10: u32, i11: u32, i12: u32) -> Result<u32> {
    Ok(i0)
}

fn main() {}
