#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

struct Reviewer;

impl Reviewer {
    #[workflow]
    async fn review(&self, diff: String) -> Result<String> {
        Ok(diff)
    }
}

fn main() {}
