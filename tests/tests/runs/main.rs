//! Runs: crashes, interrupted calls, control requests, executors, compensation, changed definitions.

mod agents_ask;
mod attempts;
mod by_id;
mod compensation;
mod compensation_checks;
mod compensation_control;
mod control_requests;
mod crash;
mod definition_changes;
mod drain;
mod durable;
mod elsewhere;
mod elsewhere_cut;
mod elsewhere_deliveries;
mod elsewhere_hostile;
mod elsewhere_lost;
mod elsewhere_silent;
mod grants;
mod interrupted_beside;
mod interrupted_calls;
mod misbehaving;
mod recorded_errors;
mod run_control;
mod run_options;
mod state;
mod team;
