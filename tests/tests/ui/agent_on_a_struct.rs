use agentflow::prelude::*;

/// Judge.
#[agent]
struct Judge;

fn main() {}
