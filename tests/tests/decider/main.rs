//! Deciders: models or functions that are consulted between the nodes of a workflow.

mod data;
#[path = "../graphs/every_crash.rs"]
mod every_crash;
#[path = "../generated/kit/store.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is written for another test program")]
mod store;
mod typed;
mod undone;
