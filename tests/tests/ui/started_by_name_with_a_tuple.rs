use agentflow::prelude::*;

async fn start(runtime: Runtime) {
    let _ = runtime.start_named("add", (1, 2));
}

fn main() {}
