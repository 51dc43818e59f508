//! The command line, run as a process.

mod cli;
mod cli_workflows;
