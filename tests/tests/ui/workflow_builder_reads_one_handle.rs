use agentflow::workflow::Workflow;
use agentflow::{Error, Result};

fn double() -> Result<Workflow<(i64,), i64>> {
    Workflow::build("double", ["n"], |b, (n,)| b.value("doubled", n, |n: i64| Ok::<_, Error>(n * 2)))
}

fn main() {}
