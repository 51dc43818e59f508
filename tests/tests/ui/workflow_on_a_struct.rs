#![allow(dead_code)]

use agentflow::prelude::*;
use agentflow::Result;

#[workflow]
struct Review {
    diff: String,
}

fn main() {}
