//! Names in a runtime and their use by agents: origins, duplicates, toolsets, and agents and
//! workflows as tools.

mod a2a_agents;
mod a2a_callers;
mod a2a_endpoints;
mod a2a_files;
mod a2a_frameworks;
mod a2a_json;
mod a2a_processes;
mod a2a_push;
mod a2a_python;
mod a2a_questions;
mod a2a_requests;
mod a2a_scripted;
mod a2a_served;
mod a2a_shares;
mod a2a_teams;
mod added_tools;
mod api_tools;
mod as_tools;
mod behind_a_function;
mod callers;
mod callers_things;
mod data_tools;
mod graphql_tools;
mod http_over_tls;
mod http_requests;
mod http_session;
mod login_server;
mod loopback_server;
mod mcp_conformance;
mod mcp_killed;
mod mcp_logins;
mod mcp_logins_attacked;
mod mcp_logins_limits;
mod mcp_logins_shared;
mod mcp_misbehaving;
mod mcp_over_http;
mod mcp_processes;
mod mcp_questions;
mod mcp_resources;
mod mcp_servers;
mod mcp_tools;
mod names;
mod nested_protocols;
mod oauth_tools;
mod odd_answers;
mod open_api_tools;
mod raw_http;
mod run_programs;
mod served;
mod served_answers;
mod served_asks;
mod served_attacked;
mod served_clients;
mod served_notifications;
mod served_over_http;
mod served_reads;
mod served_sessions;
mod served_shares;
mod served_tasks;
mod storage_tools;
mod storage_writable;
mod toolsets;

use agentflow::prelude::*;

/// Add two integers.
#[tool(effects = "none")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Judge the risk of a change in {language}.
///
/// {change}
#[agent(model = "openai/gpt-5-mini", tools = [add])]
async fn judge(cx: &Context, language: String, change: String) -> Result<u8>;

/// Doubles a number.
#[workflow]
async fn double(n: i64) -> Result<i64> {
    let twice = add(n, n);
    Ok(twice)
}
