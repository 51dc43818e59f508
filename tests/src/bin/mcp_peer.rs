//! A misbehaving MCP server; the first argument selects the fault. It does not use an MCP library,
//! and only client tests run it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it speaks with its client over them"
)]

use std::io::{BufRead, Write};
use std::process::{Command, Stdio, exit};
use std::time::Duration;

use serde_json::{Value, json};

fn main() {
    let how = std::env::args().nth(1).unwrap_or_default();
    let folder = std::env::args().nth(2);
    match how.as_str() {
        // Neither reads nor writes, and does not exit at the end of its input.
        "mute" => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
        "crash" => {
            eprintln!(
                "cannot open the database with {}",
                std::env::var("PEER_KEY").unwrap_or_default()
            );
            exit(3);
        }
        "noise" => println!("a banner\n{{\"not\": \"a message\"}}"),
        _ => {}
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap_or_default()) else { exit(1) };
        let id = &message["id"];
        let answer = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"result": {
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"},
            }}),
            "tools/list" => {
                let name = std::env::var("PEER_TOOL").unwrap_or_else(|_| "work".to_owned());
                json!({"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}}]}})
            }
            "tools/call" => {
                if let Some(folder) = &folder {
                    let mut calls = std::fs::File::options()
                        .create(true)
                        .append(true)
                        .open(format!("{folder}/calls"));
                    calls
                        .as_mut()
                        .map(|calls| calls.write_all(b"called\n"))
                        .expect("the folder is there")
                        .expect("room");
                }
                match how.as_str() {
                    "dies" => exit(9),
                    "environment" => {
                        let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                        result(&json!(names).to_string())
                    }
                    "echo" => {
                        json!({"result": {"content": [], "structuredContent": message["params"]["arguments"]}})
                    }
                    "tells" => result(&format!(
                        "my key is {}",
                        std::env::var("PEER_KEY").unwrap_or_default()
                    )),
                    // Leaves a child process behind that does not hold its streams.
                    "parent" => {
                        let mut child = Command::new(std::env::current_exe().expect("a program"));
                        let child = child
                            .arg("mute")
                            .stdin(Stdio::null())
                            .stdout(Stdio::null())
                            .stderr(Stdio::null());
                        result(&child.spawn().expect("a child").id().to_string())
                    }
                    _ => result("done"),
                }
            }
            _ if id.is_null() => continue,
            _ => json!({"error": {"code": -32601, "message": "there is no such method"}}),
        };
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = id.clone();
        println!("{answer}");
    }
    // Does not exit at the end of its input.
    if how == "stays" {
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

fn result(text: &str) -> Value {
    json!({"result": {"content": [{"type": "text", "text": text}]}})
}
