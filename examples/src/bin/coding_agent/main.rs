//! An agent that repairs a program in a folder with five tools: `read_repo_structure`,
//! `read_files`, `apply_patch`, `run_tests`, whose output is kept as an artifact, and
//! `summarize_diff`.
//!
//! The tools can access the files of the folder and run one program. This is not a sandbox: the
//! tests run the files below `src` with the rights of this process. If you do not trust the model's
//! code, run the program in a container or as another user.
//!
//! `coding_agent` works offline, in a temporary folder, with a scripted model. The model also tries
//! three things that are refused: a file outside of the folder, a change of a read-only file, and a
//! patch that does not apply. The program prints each call with its output, then the artifacts.

mod stand_in;
mod tools;

use std::error::Error;
use std::fs;
use std::path::Path;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use futures_util::StreamExt;

/// The program in the folder. It contains a mistake.
const SUM: &str = "sum() { echo $(($1 - $2)); }\n";
/// The program's tests. The agent may only read them.
const TESTS: &str = ". src/sum.sh\ncase 'sum of 2 and 3' in *\"$1\"*) ;; *) exit 0 ;; esac\n\
    [ \"$(sum 2 3)\" = 5 ] && echo 'ok: 2 + 3' || { echo \"failed: 2 + 3 is $(sum 2 3)\"; exit 1; }\n";

/// Creates a folder with a faulty program.
fn prepare(folder: &Path) -> std::io::Result<()> {
    fs::create_dir(folder.join("src"))?;
    fs::create_dir(folder.join("tests"))?;
    fs::write(folder.join("src/sum.sh"), SUM)?;
    fs::write(folder.join("tests/all.sh"), TESTS)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    prepare(folder.path())?;

    let repository = tools::Repository::open(folder.path()).await?;
    let runtime = Runtime::builder().store(MemoryStore::new()).resource(repository).build();
    let agent = Agent::new(stand_in::model())
        .name("coder")
        .instruct("Make the tests pass. Sum up in one sentence what you changed.")
        .tools(tools![
            tools::read_repo_structure,
            tools::read_files,
            tools::apply_patch,
            tools::run_tests,
            tools::summarize_diff
        ])
        .runtime(&runtime);
    let run = agent.start("The tests of this folder fail.")?;
    let mut events = run.events();
    while let Some(event) = events.next().await {
        match &event.kind {
            EventKind::ToolStarted { call, .. } => println!("{} {}", call.name, call.arguments),
            EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
                println!("  {}: {}", result.status, result.output);
            }
            _ => {}
        }
    }
    println!("{}", run.result().await?);
    for artifact in runtime.run(run.run_id()).artifacts().await? {
        println!("kept: {artifact}");
    }
    Ok(())
}
