//! Starts each program of the examples and reads what it prints, a file for each program, and holds their pages against it. One test
//! program: linked sixteen times over it would be most of what the tests of the examples need of disk and time.

mod code_review;
mod coding_agent;
mod crash;
mod exchange_tracker;
mod hello;
mod levels;
mod live_answer;
mod middleware;
mod opaque;
mod otel;
mod pages;
mod research;
mod review_board;
mod service;
#[cfg(unix)]
mod sidecar;
mod support_desk;
mod support_triage;
mod web_research;
