//! A host of runs that use an MCP server, and that server itself. The server's tool asks a person a
//! question during its call. The test kills the host while it waits for the answer.
//!
//! - `mcp-asking serve CALLS` is the server (MCP revision 2026-07-28). Each call adds a line to the
//!   file CALLS.
//! - `mcp-asking start STORE CALLS FORM` starts a run, prints its questions, and keeps waiting.
//! - `mcp-asking wait STORE CALLS FORM` resumes the runs in the store, prints their questions, and
//!   keeps waiting.
//! - `mcp-asking answer STORE CALLS FORM JSON` answers all questions and executes nothing.
//! - `mcp-asking finish STORE CALLS FORM` resumes the runs in the store and prints the outcome.
//!
//! FORM selects the caller of the tool: `agent`, `two` (two of its calls in one turn), `nested` (an
//! agent that is a tool of another agent), or `node` (a node of a graph).

#![allow(clippy::print_stdout, reason = "it speaks with its client, and with its test, over it")]

use std::io::{BufRead, Write};
use std::time::Duration;

use agentflow::agent::AgentTool;
use agentflow::mcp::McpClient;
use agentflow::prelude::*;
use agentflow::store::{RunFilter, SqliteStore};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{ScriptedModel, Turn};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["serve", calls] = *arguments {
        serve(calls);
        return Ok(());
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match *arguments {
            ["start", store, calls, form] => {
                let runtime = host(store, calls, form).await?;
                let input = Encoded::new(&json!({})).expect("it is JSON");
                match form {
                    "node" => drop(runtime.start_named("trip", input).await?),
                    _ => drop(runtime.start_agent("booking", r#"{"message": "Go."}"#).await?),
                }
                wait(&runtime).await
            }
            ["wait", store, calls, form] => {
                let runtime = host(store, calls, form).await?;
                runtime.recover().await?;
                wait(&runtime).await
            }
            ["answer", store, calls, form, answer] => {
                let runtime = host(store, calls, form).await?;
                let answer: Value = serde_json::from_str(answer).expect("an answer is JSON");
                for question in runtime.runs().questions(RunFilter::new()).await? {
                    runtime.run(&question.run).answer(&question.path, &answer, "ada").await?;
                }
                Ok(())
            }
            ["finish", store, calls, form] => {
                let runtime = host(store, calls, form).await?;
                for run in runtime.recover().await?.resumed {
                    println!("finished {}", run.result().await?);
                }
                Ok(())
            }
            _ => panic!("mcp-asking serve CALLS, or start|wait|answer|finish STORE CALLS FORM"),
        }
    })
}

/// Prints the questions once all have been asked, then waits until the process is killed.
async fn wait(runtime: &Runtime) -> Result<()> {
    loop {
        let questions = runtime.runs().questions(RunFilter::new()).await?;
        if !questions.is_empty() {
            let paths: Vec<String> =
                questions.iter().map(|question| question.path.to_string()).collect();
            println!("asked {}", paths.join(" "));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn host(store: &str, calls: &str, form: &str) -> Result<Runtime> {
    let program = std::env::current_exe().expect("a running program has a path");
    let flights =
        McpClient::stdio("flights", program.to_str().expect("it is a text")).args(["serve", calls]);
    let flights = flights.build().expect("its name is one");
    let store = SqliteStore::open(store).await?;
    let runtime = Runtime::builder().store(store).toolset(flights.clone());
    let booking = |calls: Vec<(&'static str, Value)>| {
        ScriptedModel::from_fn(move |request| match request.messages.len() {
            1 => Turn::calls(calls.clone()),
            _ => {
                let last = request.messages.last().into_iter().flat_map(|last| last.results());
                Turn::text(last.map(|of| of.text().into_owned()).collect::<Vec<_>>().join(", "))
            }
        })
    };
    let to = |city: &str| ("mcp__flights__book", json!({"to": city}));
    Ok(match form {
        "agent" => runtime
            .agent(&Agent::new(booking(vec![to("Oslo")])).tools(flights).name("booking"))
            .build(),
        "two" => {
            let model = booking(vec![to("Oslo"), to("Rome")]);
            runtime.agent(&Agent::new(model).tools(flights).name("booking")).build()
        }
        "nested" => {
            let clerk = Agent::new(booking(vec![to("Oslo")])).tools(flights).name("clerk");
            let clerk = AgentTool::new(clerk).name("clerk").description("Books.");
            let model = booking(vec![("clerk", json!({"request": "To Oslo."}))]);
            runtime.agent(&Agent::new(model).tools(clerk).name("booking")).build()
        }
        "node" => {
            let with = json!({"object": {"to": {"value": "Oslo"}}});
            // Uses the alternative name of the server's tool.
            let book = json!({"call": {"kind": "tool", "name": "flights:book", "with": with}});
            let graph: Graph = serde_json::from_value(json!({
                "version": 1, "name": "trip", "output": "book", "concurrency": 1,
                "nodes": [{"name": "book", "does": book}],
            }))
            .expect("it is the JSON of a graph");
            runtime.graph(graph).build()
        }
        other => panic!("there is no form `{other}`"),
    })
}

/// Runs the MCP server on standard input and output.
fn serve(calls: &str) {
    let note = |line: &str| {
        let mut calls = std::fs::File::options()
            .create(true)
            .append(true)
            .open(calls)
            .expect("the folder is there");
        calls.write_all(format!("{line}\n").as_bytes()).expect("there is room");
    };
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap_or_default()) else { return };
        let (id, params) = (&message["id"], &message["params"]);
        let result = match message["method"].as_str().unwrap_or_default() {
            _ if id.is_null() => continue,
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "flights", "version": "1"}},
            }),
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
                json!({"tools": [{"name": "book", "inputSchema": schema}], "ttlMs": 0, "cacheScope": "private"})
            }
            "tools/call" => match params["requestState"].as_str() {
                None => {
                    let to = params["arguments"]["to"].as_str().unwrap_or_default();
                    note(&format!("called {to}"));
                    let schema = json!({
                        "type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"],
                    });
                    let question = json!({"mode": "form", "message": "Which seat?", "requestedSchema": schema});
                    json!({
                        "resultType": "input_required", "requestState": to,
                        "inputRequests": {"seat": {"method": "elicitation/create", "params": question}},
                    })
                }
                Some(to) => {
                    let answer = &params["inputResponses"]["seat"];
                    note(&format!("continued {to}"));
                    let seat = answer["content"]["seat"].as_str().unwrap_or("no seat");
                    let text = format!("booked {seat} to {to}");
                    json!({"content": [{"type": "text", "text": text}]})
                }
            },
            _ => {
                let error = json!({"code": -32601, "message": "there is no such method"});
                println!("{}", json!({"jsonrpc": "2.0", "id": id, "error": error}));
                continue;
            }
        };
        let mut result = result;
        if result["resultType"].is_null() {
            result["resultType"] = "complete".into();
        }
        println!("{}", json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }
}
