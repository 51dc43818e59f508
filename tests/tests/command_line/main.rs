//! The command line, run as a process.

mod chat;
mod cli;
mod cli_workflows;
