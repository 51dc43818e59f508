//! The command line, run as a process.

mod a2a;
mod chat;
mod cli;
mod cli_documents;
mod cli_stored_documents;
mod cli_undoing;
mod cli_workflows;
mod configured;
mod every_form;
mod mcp;
mod runs_listed;
mod serve;
mod sessions;
mod terminal;
mod worker;
