#![allow(dead_code)]

use agentflow::prelude::*;

#[workflow]
struct Review {
    diff: String,
}

fn main() {}
