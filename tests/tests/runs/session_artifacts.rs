//! Tests artifacts in sessions: a run finds the artifacts of its history and continues their
//! versions. Also tests a crash at each write, branches, failed runs, deletion, and the maximum
//! number of names.

use agentflow::agent::RunRequest;
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::session::{Session, SessionArtifact};
use agentflow::store::{MemoryStore, SqliteStore, Store};
use agentflow::{Error, RunId};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};

use crate::sessions_crash::{QUESTIONS, ask_remaining, ends_at_every_write};

/// Adds a line to the notes.
#[tool(idempotent)]
async fn add_to_artifact(cx: &Context, line: String) -> Result<String> {
    let before = cx.artifact("notes.txt").await?;
    let mut notes =
        before.as_ref().map(|notes| notes.text().unwrap().to_owned()).unwrap_or_default();
    notes.push_str(&line);
    let saved = cx.save_artifact("notes.txt", notes, "text/plain").await?;
    assert_eq!(saved.version, 1 + before.map_or(0, |before| before.reference.version));
    assert_eq!(cx.artifact_version("notes.txt", saved.version).await?.unwrap().reference, saved);
    seen_in_inner(cx).await
}

/// Nested workflows see the artifacts too.
#[workflow(name = "artifact-seen-in-inner")]
async fn seen_in_inner(cx: &Context) -> Result<String> {
    let seen = notes_seen(cx).await?;
    Ok(seen)
}

/// Returns the texts of all versions, oldest first.
async fn notes_seen(cx: &Context) -> Result<String> {
    let mut all = Vec::new();
    for version in 1.. {
        match cx.artifact_version("notes.txt", version).await? {
            Some(notes) => all.push(notes.text().unwrap().to_owned()),
            None => break,
        }
    }
    assert_eq!(cx.artifact("notes.txt").await?.unwrap().text().unwrap(), all.last().unwrap());
    Ok(all.join("|"))
}

/// Saves under so many names.
#[tool(idempotent)]
async fn many_artifact_names(cx: &Context, names: usize) -> Result<String> {
    for number in 0..names {
        cx.save_artifact(&format!("many/{number}"), "x", "text/plain").await?;
    }
    Ok(names.to_string())
}

/// Returns an agent that appends each question to the notes and answers with all their versions. A
/// question that ends in `!` makes the model fail. A number saves under that many names.
fn keeper() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        let asked = request
            .messages
            .messages()
            .iter()
            .rfind(|message| message.role() == Role::User)
            .unwrap()
            .text();
        match last.role() {
            Role::User => match asked.parse::<usize>() {
                Ok(names) => Turn::call("many_artifact_names", json!({"names": names})),
                Err(_) => Turn::call("add_to_artifact", json!({"line": asked})),
            },
            _ if asked.ends_with('!') => Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
            _ => Turn::text(
                last.results().next().expect("a result").text().trim_matches('"').to_owned(),
            ),
        }
    });
    Agent::new(model).name("artifact-keeper").tools(tools![add_to_artifact, many_artifact_names])
}

async fn chat(store: impl Store) -> Result<(), Error> {
    ask_remaining(&keeper(), &QUESTIONS, &Session::from("s"), store).await
}

async fn check(store: impl Store, what: String) {
    let runtime = test_runtime().store(store).build();
    let history = runtime.sessions().history("s", 10).await.unwrap();
    let said: Vec<_> =
        history.iter().map(|run| run.messages.last().unwrap().text().into_owned()).collect();
    assert_eq!(said, ["one", "one|onetwo", "one|onetwo|onetwothree"], "{what}");
    let saved = runtime.sessions().artifacts("s").await.unwrap();
    let saved: Vec<_> = saved
        .iter()
        .map(|SessionArtifact { run, artifact, .. }| (run.as_str(), artifact.version))
        .collect();
    assert_eq!(saved, [("one", 1), ("two", 2), ("three", 3)], "{what}");
}

#[tokio::test(start_paused = true)]
async fn each_turn_continues_the_versions_whenever_a_process_ends() {
    ends_at_every_write(chat, check).await;
}

async fn ask(runtime: &Runtime, text: &str, session: Session) -> Result<String, Error> {
    let request = RunRequest::new(text).run_id(RunId::new(text)).session(session);
    Ok(keeper().runtime(runtime).run(request).await?.into_output())
}

async fn branches_and_failures(store: impl Store) {
    let runtime = test_runtime().store(store).agent(&keeper()).build();
    let text = async |name: &str, version| {
        let found = runtime.sessions().artifact("s", name, version).await.unwrap();
        found.map(|found| found.text().unwrap().to_owned())
    };
    ask(&runtime, "one", "s".into()).await.unwrap();
    ask(&runtime, "two", "s".into()).await.unwrap();
    // Artifacts of a failed run belong to the run but not to the session.
    ask(&runtime, "lost!", "s".into()).await.unwrap_err();
    assert_eq!(runtime.run(&RunId::new("lost!")).artifacts().await.unwrap()[0].version, 3);
    assert_eq!(text("notes.txt", None).await.unwrap(), "onetwo");
    assert_eq!(ask(&runtime, "three", "s".into()).await.unwrap(), "one|onetwo|onetwothree");
    // A branch has its own versions.
    let branch = Session::from("s").after(RunId::new("one"));
    assert_eq!(ask(&runtime, "other", branch).await.unwrap(), "one|oneother");
    assert_eq!(text("notes.txt", None).await.unwrap(), "oneother");
    assert_eq!(text("notes.txt", Some(1)).await.unwrap(), "one");
    assert_eq!(text("notes.txt", Some(3)).await, None);
    let back = Session::from("s").after(RunId::new("three"));
    assert_eq!(
        ask(&runtime, "four", back).await.unwrap(),
        "one|onetwo|onetwothree|onetwothreefour"
    );
    // The window of the model does not affect artifacts.
    let forgets = Session::from("s").window(agentflow::session::SessionWindow::default().runs(0));
    assert!(ask(&runtime, "five", forgets).await.unwrap().ends_with("|onetwothreefourfive"));
    // By its run, only the artifacts that the run saved are listed. Another session has none of
    // them.
    assert_eq!(runtime.run(&RunId::new("five")).artifacts().await.unwrap().len(), 1);
    assert_eq!(ask(&runtime, "elsewhere", "t".into()).await.unwrap(), "elsewhere");
    assert_eq!(runtime.sessions().artifacts("t").await.unwrap().len(), 1);
    runtime.sessions().delete("s").await.unwrap();
    assert!(runtime.sessions().artifacts("s").await.is_err());
    assert_eq!(ask(&runtime, "one", "s".into()).await.unwrap(), "one");
}

#[tokio::test(start_paused = true)]
async fn a_branch_has_its_own_artifacts_and_a_failed_turn_leaves_none() {
    branches_and_failures(MemoryStore::new()).await;
}

#[tokio::test]
async fn the_same_in_a_file_with_each_artifact_in_one_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::builder(folder.path().join("runs.db"))
        .artifact_file_bytes(0)
        .open()
        .await
        .unwrap();
    branches_and_failures(store.clone()).await;
    let check = store.check_artifacts().await.unwrap();
    assert_eq!((check.missing.len(), check.damaged.len(), check.removed), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_has_so_many_names() {
    let runtime = test_runtime().store(MemoryStore::new()).agent(&keeper()).build();
    assert_eq!(ask(&runtime, "998", "s".into()).await.unwrap(), "998");
    ask(&runtime, "one", "s".into()).await.unwrap();
    assert_eq!(ask(&runtime, "999", "s".into()).await.unwrap(), "999");
    let refused = ask(&runtime, "1000", "s".into()).await.unwrap();
    assert!(refused.contains("artifacts of 1000 names"), "{refused}");
    // An existing name can get more versions.
    assert_eq!(ask(&runtime, "two", "s".into()).await.unwrap(), "one|onetwo");
    assert!(ask(&runtime, "1200", "t".into()).await.unwrap().contains("artifacts of 1000 names"));
}
