#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

#[workflow]
async fn review(diff: String) -> Result<String>;

fn main() {}
