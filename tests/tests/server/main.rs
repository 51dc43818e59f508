//! Tests of `agentflow::server` over loopback. The client of the tests checks every response
//! against the OpenAPI document of the server.

mod access;
mod catalogue;
mod client;
mod controls;
mod documents;
mod live;
mod page;
mod questions;
mod refused;
mod runs;
mod starts;
mod stops;
mod streams;
mod workflows;
