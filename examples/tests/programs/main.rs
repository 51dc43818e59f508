//! Runs each program of the examples and checks its output, one file per program, and compares the
//! output with its page. All files form one test program: linking sixteen of them would take most
//! of the disk space and time of the example tests.

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
