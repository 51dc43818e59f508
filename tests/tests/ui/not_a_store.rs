use agentflow::prelude::*;

fn main() {
    let _runtime = Runtime::builder().store("runs.db").build();
}
