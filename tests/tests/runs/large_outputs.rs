//! Tests large tool outputs: they become artifacts that the model reads in pieces. The same holds
//! after a crash at each write, and in the next run of a session.

use std::sync::Arc;

use agentflow::agent::{LargeOutputs, Limits, RunRequest};
use agentflow::message::{Media, Role, ToolStatus};
use agentflow::middleware::redact;
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::session::Session;
use agentflow::store::{
    ArtifactStore, Epoch, MemoryStore, SqliteStore, Store, StoreError, StoreErrorKind, StoreLayer,
};
use agentflow::tool::ToolOutput;
use agentflow::{Error, RunId, async_trait};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, test_runtime};

/// Returns a text that repeats `0123é`.
fn lines(bytes: usize) -> String {
    "0123é".chars().cycle().take(bytes).collect()
}

/// Gives a long text.
#[tool(effects = "read")]
fn long_text(size: usize) -> String {
    lines(size)
}

/// Gives a long list.
#[tool(effects = "read")]
fn long_list(size: usize) -> Vec<usize> {
    (0..size).collect()
}

/// Gives a picture with a long text.
#[tool(effects = "read")]
fn long_picture(size: usize) -> ToolOutput {
    ToolOutput::json(&1)
        .unwrap()
        .with_text(lines(size))
        .with_media(Media::of_bytes("image/png", [1, 2, 3]))
}

/// Returns an agent that calls all three tools at once, reads the text to its end, and answers with
/// its length and the other heads.
fn reader() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let all: Vec<_> =
            request.messages.messages().iter().flat_map(|message| message.results()).collect();
        let Some(last) = all.last() else {
            let sizes = |name: &'static str, size: usize| (name, json!({"size": size}));
            return Turn::calls([
                sizes("long_text", 3000),
                sizes("long_list", 600),
                sizes("long_picture", 500),
            ]);
        };
        let answers: Vec<Value> =
            all.iter().map(|result| serde_json::from_str(&result.output).unwrap()).collect();
        let first = &answers[0];
        let (name, head) = (first["artifact"].as_str().unwrap(), first["head"].as_str().unwrap());
        let next = match last.name.as_str() {
            "read_artifact" => answers.last().unwrap().get("next_offset").cloned(),
            _ => Some(head.len().into()),
        };
        if let Some(next) = next {
            let version = first["version"].clone();
            return Turn::call(
                "read_artifact",
                json!({"artifact": name, "version": version, "offset": next}),
            );
        }
        let read = answers.iter().filter_map(|answer| answer["text"].as_str());
        let text: String = std::iter::once(head).chain(read).collect();
        assert_eq!(text, lines(3000));
        Turn::text(format!("{} {} {}", text.len(), answers[1]["head"], answers[2]["artifact"]))
    });
    let large = LargeOutputs::over(1000).head(20);
    Agent::new(model)
        .name("reader")
        .tools(tools![long_text, long_list, long_picture])
        .settings(Limits::default().large_outputs(large))
}

const ANSWER: &str = r#"3600 "[0,1,2,3,4,5,6,7,8,9" null"#;

#[tokio::test(start_paused = true)]
async fn a_model_sees_the_head_and_reads_the_rest_whenever_the_process_ends() {
    // Without a store the artifacts are in memory.
    assert_eq!(reader().run("Read.").await.unwrap().output(), ANSWER);
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let end = reader().runtime(&runtime).run("Read.").await.unwrap();
    assert_eq!(end.output(), ANSWER);
    let saved: Vec<_> = runtime
        .run(end.run_id())
        .artifacts()
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let (text, list) = ("text/plain, 3600 bytes", "application/json, 2291 bytes");
    assert_eq!(
        saved,
        [
            format!("tool_outputs/tool#1.long_text (version 1, {text})"),
            format!("tool_outputs/tool#1.long_list (version 1, {list})")
        ]
    );
    CrashTest::agent(&reader(), || "Read.").run().await;
}

/// Returns a model that calls one tool and answers with the tool's result.
fn once(tool: &'static str, arguments: Value) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| match request.messages.last().unwrap().role() {
        Role::User => Turn::call(tool, arguments.clone()),
        _ => {
            let result = request.messages.last().unwrap().results().next().unwrap().clone();
            Turn::text(serde_json::to_string(&result).unwrap())
        }
    })
}

fn result_of(answer: &str) -> (ToolStatus, Value, Value) {
    let result: Value = serde_json::from_str(answer).unwrap();
    let output = result["output"].as_str().unwrap();
    let status = serde_json::from_value(result["status"].clone()).unwrap();
    (status, serde_json::from_str(output).unwrap_or(output.into()), result["content"].clone())
}

#[tokio::test]
async fn what_stays_and_what_is_moved() {
    let large = LargeOutputs::over(1000).head(20);
    let ask = async |tool: &'static str, size: usize| {
        let agent =
            Agent::new(once(tool, json!({"size": size}))).tools(tools![long_text, long_picture]);
        result_of(
            agent
                .settings(Limits::default().large_outputs(large))
                .run("Go.")
                .await
                .unwrap()
                .output(),
        )
    };
    // The limit includes the JSON quotes, since the model reads them.
    let (_, output, _) = ask("long_text", 500).await;
    assert_eq!(output, lines(500));
    // The size exceeds the normal limit of a tool's output, and the attached file is kept.
    let (status, output, content) = ask("long_picture", 400_000).await;
    assert_eq!(
        (status, &output["bytes"], &output["head"]),
        (ToolStatus::Success, &480_000.into(), &"0123é0123é0123é01".into())
    );
    assert_eq!(
        (content["text"].clone(), content["parts"].as_array().map(Vec::len)),
        (Value::Null, Some(1))
    );
    // The size of an output is limited here too.
    let (status, output, _) = ask("long_text", 20 << 20).await;
    assert_eq!(status, ToolStatus::OutputTooLarge, "{output}");
    // Without `large_outputs` the normal limit applies.
    let agent = Agent::new(once("long_text", json!({"size": 100_000}))).tools(tools![long_text]);
    let (status, ..) = result_of(agent.run("Go.").await.unwrap().output());
    assert_eq!(status, ToolStatus::OutputTooLarge);
    let named = Agent::new(ScriptedModel::new([]))
        .tools(tools![read_artifact])
        .settings(Limits::default().large_outputs(large));
    let error = named.build().unwrap_err().to_string();
    assert!(error.contains("the tool name `read_artifact` is taken; rename that tool"), "{error}");
}

/// Somebody's own.
#[tool]
fn read_artifact() -> u32 {
    1
}

#[tokio::test]
async fn what_a_model_may_ask_of_read_artifact() {
    let ask = async |arguments: Value| {
        let agent = Agent::new(once("read_artifact", arguments))
            .settings(Limits::default().large_outputs(LargeOutputs::over(0)));
        let (status, output, _) = result_of(agent.run("Go.").await.unwrap().output());
        assert_ne!(status, ToolStatus::Success);
        output.as_str().unwrap().to_owned()
    };
    let long = "x".repeat(100_000);
    for name in ["", "../../etc/passwd", "tool_outputs/none", "\0", &long] {
        let answer = ask(json!({"artifact": name})).await;
        assert!(answer.contains("there is no artifact") && answer.len() < 500, "{answer}");
    }
    for wrong in [
        json!({}),
        json!({"artifact": 1}),
        json!({"artifact": "a", "offset": -1}),
        json!({"artifact": "a", "x": 1}),
    ] {
        ask(wrong).await;
    }
    // An offset within a character, a length of zero, and an offset at the end. The text always
    // consists of whole characters, and reading always terminates.
    let saved = json!({"artifact": "tool_outputs/tool#1.long_text"});
    let cases = [
        (
            json!({"offset": 5, "length": 0}),
            Ok(json!({"offset": 4, "text": "é01", "next_offset": 8})),
        ),
        (json!({"offset": 3600}), Ok(json!({"offset": 3600, "text": ""}))),
        (json!({"offset": 3601}), Err("`offset`: the artifact has 3600 bytes; give at most that")),
        (
            json!({"offset": u64::MAX, "length": u64::MAX}),
            Err("`offset`: the artifact has 3600 bytes; give at most that"),
        ),
        (json!({"version": 2}), Err("of version 2 here")),
    ];
    for (more, expected) in cases {
        let mut arguments = saved.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let model = ScriptedModel::from_fn(move |request| {
            match request.messages.last().unwrap().results().next() {
                None => Turn::call("long_text", json!({"size": 3000})),
                Some(result) if result.name == "long_text" => {
                    Turn::call("read_artifact", arguments.clone())
                }
                Some(result) => Turn::text(result.output.clone()),
            }
        });
        let agent = Agent::new(model)
            .tools(tools![long_text])
            .settings(Limits::default().large_outputs(LargeOutputs::over(1000)));
        let answer = agent.run("Go.").await.unwrap().into_output();
        match expected {
            Ok(expected) => {
                let mut answer: Value = serde_json::from_str(&answer).unwrap();
                for key in ["artifact", "bytes"] {
                    answer.as_object_mut().unwrap().remove(key);
                }
                assert_eq!(answer, expected);
            }
            Err(problem) => assert!(answer.contains(problem), "{answer}"),
        }
    }
}

#[tokio::test]
async fn the_next_run_of_a_session_reads_what_an_earlier_one_saved() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::builder(folder.path().join("runs.db"))
        .artifact_file_bytes(0)
        .open()
        .await
        .unwrap();
    let runtime = test_runtime().store(store).build();
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().unwrap();
        let asked = request
            .messages
            .messages()
            .iter()
            .rfind(|message| message.role() == Role::User)
            .unwrap()
            .text();
        match (last.role(), &*asked) {
            (Role::User, "fetch") => Turn::call("long_text", json!({"size": 3000})),
            (Role::User, version) => Turn::call(
                "read_artifact",
                json!({"artifact": "tool_outputs/tool#1.long_text", "version": version.parse::<u32>().ok(), "offset": 3594}),
            ),
            _ => Turn::text(last.results().next().unwrap().output.clone()),
        }
    });
    let limits = Limits::default().large_outputs(LargeOutputs::over(1000));
    let agent = Agent::new(model).tools(tools![long_text]).settings(limits).runtime(&runtime);
    let ask = async |text: &str| {
        let answer = agent
            .run(RunRequest::new(text).session(Session::from("s")))
            .await
            .unwrap()
            .into_output();
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    assert_eq!(ask("fetch").await["version"], 1);
    assert_eq!(ask("fetch").await["version"], 2);
    for version in ["newest", "1", "2"] {
        assert_eq!(ask(version).await["text"], "0123é", "{version}");
    }
}

/// A store that cannot save artifacts, as with a full disk.
#[derive(Debug)]
struct Full(MemoryStore);

#[async_trait]
impl StoreLayer for Full {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn artifacts(&self) -> Option<&dyn ArtifactStore> {
        Some(self)
    }
}

#[async_trait]
impl ArtifactStore for Full {
    async fn put_artifact(
        &self,
        _: &RunId,
        _: Epoch,
        _: &str,
        _: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Full, "there is no room left"))
    }

    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.0.artifact(run, sha256).await
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_saved_says_that_the_tool_ran() {
    let runtime = test_runtime().store(Full(MemoryStore::new())).build();
    let agent = Agent::new(once("long_text", json!({"size": 3000})))
        .tools(tools![long_text])
        .runtime(&runtime);
    let end = agent
        .settings(Limits::default().large_outputs(LargeOutputs::over(1000).head(5)))
        .run("Go.")
        .await
        .unwrap();
    let (status, output, _) = result_of(end.output());
    assert_eq!(status, ToolStatus::Error);
    let output = output.as_str().unwrap();
    assert!(
        output.starts_with("the tool ran, but its answer of 3600 bytes could not be saved: "),
        "{output}"
    );
    assert!(
        output.contains("there is no room left") && output.ends_with("It begins: 0123"),
        "{output}"
    );
    assert_eq!(runtime.run(end.run_id()).artifacts().await.unwrap(), []);
}

#[tokio::test]
async fn secrets_are_not_in_what_is_saved() -> Result<(), Error> {
    let runtime =
        test_runtime().store(MemoryStore::new()).with(redact().secret("0123é0123")).build();
    let agent = Agent::new(once("long_text", json!({"size": 3000})))
        .tools(tools![long_text])
        .runtime(&runtime);
    let end = agent
        .settings(Limits::default().large_outputs(LargeOutputs::over(1000)))
        .run("Go.")
        .await?;
    let saved = runtime.run(end.run_id()).artifacts().await?;
    let saved = runtime.run(end.run_id()).artifact(&saved[0].name, None).await?.unwrap();
    assert!(
        saved.text().unwrap().starts_with("[redacted]é[redacted]é"),
        "{}",
        &saved.text().unwrap()[..40]
    );
    Ok(())
}
