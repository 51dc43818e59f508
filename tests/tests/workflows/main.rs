//! Workflows and their runs: every form, what a crash leaves, and what operators can do to them.

mod attacked;
mod control_requests;
mod crash;
mod definition_changes;
mod durable;
mod failures;
mod misbehaving;
mod run_control;
mod workflow;
mod workflow_macro;
mod workflow_properties;
