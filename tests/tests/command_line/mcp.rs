//! `agentwf mcp` as a process: it serves the tools of its program, and calls the tools of a server.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use agentflow_tests::{Agentwf, Ended};
use serde_json::{Value, json};

const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");

fn agentwf(args: &[&str]) -> Ended {
    Agentwf::new(HOST).args(args).run()
}

/// Runs a client command against a server that is this program itself.
fn of_server(args: &[&str], serve: &[&str]) -> Ended {
    let all: Vec<&str> = ["mcp"]
        .iter()
        .chain(args)
        .chain(&["--", HOST, "mcp", "serve"])
        .chain(serve)
        .copied()
        .collect();
    agentwf(&all)
}

#[test]
fn it_lists_and_calls_the_tools_that_another_process_serves() {
    let tools =
        of_server(&["tools", "--json"], &["--tool", "add,get_weather", "--workflow", "quick"])
            .line();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mcp.server.add", "mcp.server.get_weather", "mcp.server.quick"]);
    let listed = of_server(&["tools"], &["--tool", "add"]);
    assert!(listed.stdout.contains("Add two integers."), "{}", listed.stdout);
    let sum = of_server(&["call", "add", "--input", r#"{"a": 1, "b": 2}"#], &[]);
    assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "3\n"), "{}", sum.stderr);
    let whole = of_server(&["call", "add", "--input", r#"{"a": 1, "b": 2}"#, "--json"], &[]).line();
    assert_eq!(
        (&whole["status"], &whole["output"]),
        (&json!("success"), &json!(r#"{"result":3}"#))
    );
    let wrong = of_server(&["call", "add", "--input", r#"{"a": 1}"#, "--json"], &[]);
    assert_eq!((wrong.code, &wrong.line()["status"]), (Some(1), &json!("invalid_arguments")));
    let unknown = of_server(&["call", "ad"], &["--tool", "add"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("mcp.server.add"), "{}", unknown.stderr);
}

#[test]
fn what_cannot_be_served_or_reached_is_one_sentence() {
    let unknown = agentwf(&["mcp", "serve", "--workflow", "quik"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.contains("`quick`"), "{}", unknown.stderr);
    for server in [&["--url", "http://127.0.0.1:1/mcp"][..], &["--", "/no/such/program"]] {
        let lost = agentwf(&[&["mcp", "tools"], server].concat());
        assert_eq!((lost.code, lost.stdout.as_str()), (Some(1), ""), "{server:?}");
        assert!(lost.stderr.contains("MCP server"), "{}", lost.stderr);
        // The error is printed once, and without type names.
        assert_eq!(lost.stderr.lines().count(), 1, "{}", lost.stderr);
    }
    let ended = agentwf(&["mcp", "tools", "--", "false"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(
        ended.stderr.contains("its process ended") && !ended.stderr.contains("::"),
        "{}",
        ended.stderr
    );
    assert_eq!(agentwf(&["mcp", "tools"]).code, Some(2));
}

#[test]
fn a_server_ends_with_its_input_and_writes_nothing_but_messages() {
    let mut server = Agentwf::new(HOST).args(["mcp", "serve"]).start_with(Stdio::piped());
    let mut input = server.stdin.take().unwrap();
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    writeln!(
        input,
        "{}",
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    )
    .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "agentflow", "{answer}");
    drop(input);
    let ended = Ended::of(server, Duration::from_secs(30), "mcp serve");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn it_lists_and_reads_the_resources_and_prompts_of_a_server() {
    let Some(server) = agentflow_tests::mcp_everything() else { return };
    let run = |args: &[&str]| {
        let of_server = [server.get_program()].into_iter().chain(server.get_args());
        let of_server = of_server.map(|text| text.to_str().unwrap().to_owned());
        let args =
            args.iter().map(|arg| (*arg).to_owned()).chain(["--".to_owned()]).chain(of_server);
        Agentwf::new(HOST).args(["mcp".to_owned()]).args(args.collect::<Vec<String>>()).run()
    };
    let listed = run(&["resources", "--json"]).line();
    let listed = listed.as_array().unwrap();
    let of = |key: &str| listed.iter().filter_map(|entry| entry[key].as_str()).collect::<Vec<_>>();
    let uris = of("uri");
    assert!(uris.len() > 3 && uris.is_sorted() && of("uri_template").len() == 2, "{listed:?}");
    let features = "demo://resource/static/document/features.md";
    let shown = run(&["resources"]);
    assert!(shown.stdout.contains(features) && shown.code == Some(0), "{}", shown.stdout);
    let read = run(&["resources", features]);
    assert!(
        read.stdout.starts_with("# Everything Server") && read.code == Some(0),
        "{}",
        read.stderr
    );
    let read = run(&["resources", "demo://resource/dynamic/blob/1", "--json"]).line();
    assert!(read[0]["blob"].is_string() && read[0]["text"].is_null(), "{read}");
    let bytes = run(&["resources", "demo://resource/dynamic/blob/1"]);
    assert!(bytes.stdout.starts_with("Resource 1"), "{}", bytes.stdout);
    let unknown = run(&["resources", "demo://nowhere"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.contains("refused `resources/read`"), "{}", unknown.stderr);
    let prompts = run(&["prompts", "--json"]).line();
    assert_eq!(prompts[0]["name"], "args-prompt", "{prompts}");
    assert!(run(&["prompts"]).stdout.contains("(city, state?)"));
    let prompt = run(&["prompts", "args-prompt", "--input", r#"{"city": "Oslo"}"#]);
    assert_eq!(
        (prompt.code, prompt.stdout.as_str()),
        (Some(0), "user\nWhat's weather in Oslo?\n"),
        "{}",
        prompt.stderr
    );
    let prompt =
        run(&["prompts", "args-prompt", "--json", "--input", r#"{"city": "Oslo"}"#]).line();
    assert_eq!(
        (&prompt[0]["role"], &prompt[0]["parts"][0]["text"]),
        (&json!("user"), &json!("What's weather in Oslo?"))
    );
    assert_eq!(run(&["prompts", "args-prompt"]).code, Some(1));
    assert_eq!(run(&["prompts", "args-prompt", "--input", "7"]).code, Some(1));
    assert_eq!(agentwf(&["mcp", "resources"]).code, Some(2));
}

#[test]
fn a_server_without_resources_has_empty_lists() {
    for what in ["resources", "prompts"] {
        let listed = of_server(&[what, "--json"], &["--tool", "add"]);
        assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), "[]\n"), "{}", listed.stderr);
        let said = of_server(&[what], &["--tool", "add"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""));
        assert!(said.stderr.contains(&format!("the server has no {what}")), "{}", said.stderr);
        let lost = agentwf(&["mcp", what, "--url", "http://127.0.0.1:1/mcp"]);
        assert_eq!(lost.code, Some(1));
        assert!(lost.stderr.contains("MCP server"), "{}", lost.stderr);
    }
}
