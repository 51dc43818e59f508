use agentflow::prelude::*;

struct Judge;

impl Judge {
    /// Judge {text}.
    #[agent]
    async fn judge(&self, text: String) -> agentflow::Result<String>;
}

fn main() {}
