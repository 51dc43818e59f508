//! Workflows and their runs: every form, crashes, control requests.

mod as_a_function;
mod at_its_place;
mod attacked;
mod borrowed_views;
mod branch_calls;
mod by_id;
mod callers;
mod calls;
mod control_requests;
mod crash;
mod definition_changes;
mod durable;
mod failures;
mod grants;
mod interrupted_calls;
mod misbehaving;
mod natural;
mod nested_order;
mod recorded_errors;
mod remedies;
mod retried_calls;
mod run_control;
mod sync_calls;
mod workflow;
mod workflow_macro;
mod workflow_properties;
