//! Models over HTTP: recorded traffic, third-party servers, and servers that violate their
//! protocol.

mod aimock;
mod cassette;
mod compatible_servers;
mod fake_providers;
mod first_delta;
mod hostile_server;
mod live_runs;
mod llama_cpp;
mod llama_cpp_agent;
mod llama_cpp_chat;
mod llmock;
mod odd_answers;
mod offline;
mod provider_change;
mod scripted_server;
mod sessions;
mod wire_cases;
mod wire_cases_others;
mod wire_cases_responses;
