//! Starts and resumes runs in this process. `start` contains the methods of
//! [`Runtime`](crate::runtime::Runtime) that start, recover and execute;
//! [`StartRun`](start_run::StartRun) holds the options of a workflow run until it is awaited.
//!
//! A resumed run is reserved in this process and leased from the store
//! ([`RunLease`](lease::RunLease)). Its journal is loaded, `changes` compares the recorded
//! definition with the current one, and `workflow_runs` or `agent_runs` continues the run.
//! `queued_start` stores a run for another process, and a [`Worker`](worker::Worker) executes such
//! runs. `compensate_run` continues a run that is only compensated. `execute_step` executes a single step
//! of a run that another process owns.

pub(crate) mod agent_runs;
pub(crate) mod changes;
pub(crate) mod compensate_run;
mod execute_step;
pub(crate) mod lease;
mod queued_start;
pub(crate) mod start;
pub(crate) mod start_run;
pub(crate) mod worker;
pub(crate) mod workflow_runs;
