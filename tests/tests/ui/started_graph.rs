use agentflow::prelude::*;
use agentflow::workflow::Graph;

async fn start(runtime: Runtime, graph: Graph) {
    let _ = runtime.start(graph, ());
}

fn main() {}
