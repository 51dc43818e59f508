//! Access to runs through the store. [`RunRef`](run_ref::RunRef) controls, follows and reads a
//! single run by its id; [`Runs`](run_list::Runs) lists runs and works with many of them. The run
//! may be executed by this process, by another process, or by no process.
//!
//! Control requests are stored first, and the calls return after their effect is stored. Everything
//! else is derived from the journal: `inspect` reports the nodes of a run with their `attempts` and
//! their compensation, `run_graph` its graph with the status of each node, `open_questions` lists what people are asked, and `retention` removes runs.

pub(crate) mod attempts;
pub(crate) mod compensation_report;
pub(crate) mod inspect;
pub(crate) mod open_questions;
pub(crate) mod retention;
pub(crate) mod run_graph;
pub(crate) mod run_list;
pub(crate) mod run_ref;
