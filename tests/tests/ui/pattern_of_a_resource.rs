use agentflow::prelude::*;

struct Directory;

/// Look somebody up.
#[tool]
async fn look_up(Inject(directory): Inject<Directory>, name: String) -> String {
    let _ = directory;
    name
}

fn main() {
    agentflow::tools![look_up];
}
