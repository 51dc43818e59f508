//! Workflows written as YAML documents that use the tools of this program.
//!
//! The program is agentflow's command line with the documents of the folder `workflows` next to
//! this file: `workflow list`, `workflow run exchange_tracker --input '{"message": "EUR in USD and
//! JPY?"}'`. The latter is the default without arguments. `AGENTFLOW_MODEL` names the model;
//! without it a rule-based stand-in answers.

mod stand_in;
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};

use agentflow::document::Document;
use agentflow::model::{ModelRef, ModelSource};
use agentflow::prelude::*;

use crate::stand_in::StandIn;

fn main() -> ExitCode {
    if std::env::args().len() == 1 {
        return by_default();
    }
    match runtime() {
        Ok(runtime) => agentflow::cli::run_with(&runtime),
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<Runtime, Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/exchange_tracker/workflows");
    let model: ModelSource = match std::env::var("AGENTFLOW_MODEL") {
        Ok(name) => name.parse::<ModelRef>()?.into(),
        Err(_) => StandIn::new().into(),
    };
    Ok(Runtime::builder().documents(Document::read_folder(folder)?).model(model).build())
}

/// Runs this program again with default arguments.
fn by_default() -> ExitCode {
    let run = [
        "workflow",
        "run",
        "exchange_tracker",
        "--input",
        r#"{"message": "What is EUR in USD and JPY?"}"#,
    ];
    let program =
        std::env::current_exe().and_then(|program| Command::new(program).args(run).status());
    match program {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
