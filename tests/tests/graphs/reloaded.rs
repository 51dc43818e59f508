//! Tests documents that change while a program runs: active runs keep their version, new runs use
//! the new version, and a document with mistakes changes nothing.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::document::FolderError;
use agentflow::model::{Secret, SecretProvider};
use agentflow::prelude::*;
use agentflow::runtime::{BootError, BootPhase, Changes, Reloaded, RuntimeBuilder};
use agentflow::store::{MemoryStore, RunFilter};
use agentflow::tool::ToolsetRef;
use agentflow::{RunHandle, RunId};
use agentflow_testing::{ScriptedModel, Turn, check_events, within};
use serde_json::{Value, json};

use crate::documents::{Away, places, run};

/// Adds two numbers.
#[tool(effects = "none")]
fn reload_add(a: i64, b: i64) -> i64 {
    a + b
}

/// Returns a document that asks for a number and adds `adds` to the answer.
fn asks(name: &str, adds: i64) -> String {
    format!(
        "name: {name}\noutput: sum\nnodes:\n  - {{name: number, does: {{ask: {{text: which?, answer: {{type: integer}}}}}}}}\n  \
         - name: sum\n    does: {{call: {{kind: tool, name: reload_add, with: {{object: {{a: {{from: number}}, b: {{value: \
         {adds}}}}}}}}}}}\n"
    )
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: impl AsRef<str>) {
        fs::write(self.path().join(name), text.as_ref()).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path().join(name)).unwrap();
    }

    async fn boot(&self, with: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Runtime {
        with(Runtime::builder().model(ScriptedModel::new([])).document_folder(self.path()))
            .boot()
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Starts a run and waits for its question.
async fn asking(runtime: &Runtime, name: &str, id: &str) -> RunHandle<agentflow::value::Encoded> {
    let run = runtime.start_named(name, json!({})).run_id(RunId::new(id)).await.unwrap();
    within("the run to ask", async {
        while runtime.run(run.run_id()).inspect().await.unwrap().run.pause_reason.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    run
}

fn names(names: &[Arc<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

fn done(reloaded: &Reloaded) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    (names(&reloaded.added), names(&reloaded.changed), names(&reloaded.removed))
}

async fn answered(runtime: &Runtime, run: &RunId, number: i64) {
    runtime
        .run(run)
        .answer("number", &number, "ada")
        .await
        .unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test]
async fn a_waiting_run_keeps_its_version_and_a_new_one_has_the_new_version() {
    let folder = Folder::new();
    folder.write("sum.yaml", asks("sum", 1));
    let store = MemoryStore::new();
    let runtime = folder.boot(|builder| builder.store(store.clone())).await;
    let old = asking(&runtime, "sum", "old").await;
    let left = asking(&runtime, "sum", "left").await;
    let gone = asking(&runtime, "sum", "gone").await;

    folder.write("sum.yaml", asks("sum", 100));
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!(done(&reloaded), (vec![], vec!["sum"], vec![]));
    let new = asking(&runtime, "sum", "new").await;
    for run in [&old, &new] {
        answered(&runtime, run.run_id(), 5).await;
    }
    assert_eq!(old.result().await.unwrap().as_str(), "6");
    assert_eq!(new.result().await.unwrap().as_str(), "105");

    // The process ends. The next process has only the new version, and the last one has no
    // documents.
    left.abandon();
    gone.abandon();
    let other = folder.boot(|builder| builder.store(store.clone())).await;
    let left = other.run(&RunId::new("left")).resume().await.unwrap();
    answered(&other, left.run_id(), 5).await;
    assert_eq!(left.result().await.unwrap().as_str(), "6");
    check_events(&other.run(left.run_id()).journal().await.unwrap()).unwrap();
    let without = Runtime::builder().store(store).build();
    let recovered = without.recover().await.unwrap();
    assert!(recovered.left.is_empty(), "{:?}", recovered.left);
    let [gone] = recovered.resumed.as_slice() else { panic!("{recovered:?}") };
    answered(&without, gone.run_id(), 7).await;
    assert_eq!(gone.result().await.unwrap().as_str(), "8");
    // That runtime cannot start the workflow, although it can resume the run.
    assert!(without.start_named("sum", json!({})).await.is_err());
}

#[tokio::test]
async fn an_answer_is_checked_by_the_version_of_the_run() {
    let folder = Folder::new();
    folder.write("sum.yaml", asks("sum", 1));
    let store = MemoryStore::new();
    let runtime = folder.boot(|builder| builder.store(store.clone())).await;
    let run = asking(&runtime, "sum", "old").await;
    run.abandon();
    let text = asks("sum", 1)
        .replace("{type: integer}", "{type: string}")
        .replace("tool, name: reload_add", "workflow, name: same");
    folder.write("sum.yaml", text);
    folder.write(
        "same.yaml",
        "name: same\noutput: a\nnodes: [{name: a, kind: input}, {name: b, kind: input}]\n",
    );
    let reloaded = runtime.documents().reload().await.unwrap();
    assert!(reloaded.errors.is_empty(), "{:?}", reloaded.errors);
    let id = RunId::new("old");
    // No process executes the run.
    answered(&runtime, &id, 5).await;
    assert_eq!(runtime.run(&id).resume().await.unwrap().result().await.unwrap().as_str(), "6");
}

#[tokio::test]
async fn a_document_that_another_one_calls_is_kept_with_it() {
    let folder = Folder::new();
    let calls = "name: outer\noutput: twice\nnodes:\n  - name: number\n    does: {ask: {text: which?, answer: {type: integer}}}\n  \
                 - name: twice\n    does: {call: {kind: workflow, name: inner, with: {object: {n: {from: number}}}}}\n";
    let inner = |adds: i64| {
        format!(
            "id: inner\nnodes:\n  - {{id: sum, tool: reload_add, args_template: {{a: '{{n}}', b: {adds}}}}}\n"
        )
    };
    folder.write("outer.yaml", calls);
    folder.write("inner.yaml", inner(1));
    let store = MemoryStore::new();
    let runtime = folder.boot(|builder| builder.store(store.clone())).await;
    asking(&runtime, "outer", "old").await.abandon();
    folder.write("inner.yaml", inner(1000));
    assert_eq!(done(&runtime.documents().reload().await.unwrap()), (vec![], vec!["inner"], vec![]));
    let new = asking(&runtime, "outer", "new").await;
    let old = runtime.run(&RunId::new("old")).resume().await.unwrap();
    for run in [&old, &new] {
        answered(&runtime, run.run_id(), 5).await;
    }
    assert_eq!(
        (old.result().await.unwrap().as_str(), new.result().await.unwrap().as_str()),
        ("6", "1005")
    );
}

#[tokio::test]
async fn an_agent_keeps_the_instruction_that_its_run_began_with() {
    let agents = |instruction: &str| {
        format!(
            "name: team\nagents:\n  - {{name: asker, model: test/m, instruction: Ask., tools: [ask_user]}}\n  \
             - {{name: writer, model: test/m, instruction: {instruction}}}\norchestration: {{type: sequential, agents: [asker, writer]}}\n"
        )
    };
    let model = || {
        ScriptedModel::from_fn(|request| {
            let system = request
                .messages
                .messages()
                .first()
                .map(|message| message.text().to_string())
                .unwrap_or_default();
            match system.contains("Ask.") {
                true if request.messages.len() == 2 => {
                    Turn::call("ask_user", json!({"question": "which?"}))
                }
                true => Turn::text("asked"),
                false => Turn::text(system),
            }
        })
    };
    let folder = Folder::new();
    folder.write("team.yaml", agents("In the old way."));
    let store = MemoryStore::new();
    let runtime = folder.boot(|builder| builder.store(store.clone()).model(model())).await;
    let start = || runtime.start_named("team", json!({"message": "Hello."}));
    let run = start().run_id(RunId::new("old")).await.unwrap();
    within("the run to ask", async {
        while runtime.run(run.run_id()).inspect().await.unwrap().run.pause_reason.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    run.abandon();
    folder.write("team.yaml", agents("In the new way."));
    let other = folder.boot(|builder| builder.store(store.clone()).model(model())).await;
    let run = other.run(&RunId::new("old")).resume().await.unwrap();
    let open = other.runs().questions(RunFilter::new()).await.unwrap();
    let [question] = open.as_slice() else { panic!("{open:?}") };
    other.run(&question.run).answer(&question.path, "this", "ada").await.unwrap();
    let output = run.result().await.unwrap();
    assert!(output.as_str().contains("old way"), "{output}");
}

#[tokio::test]
async fn whoever_accepts_all_changes_has_the_version_of_now() {
    let folder = Folder::new();
    folder.write("sum.yaml", asks("sum", 1));
    let store = MemoryStore::new();
    let runtime = folder.boot(|builder| builder.store(store.clone())).await;
    asking(&runtime, "sum", "old").await.abandon();
    folder.write("sum.yaml", asks("sum", 100));
    let _ = runtime.documents().reload().await.unwrap();
    let runtime = runtime.with_changes(Changes::AcceptAll);
    let run = runtime.run(&RunId::new("old")).resume().await.unwrap();
    answered(&runtime, run.run_id(), 5).await;
    assert_eq!(run.result().await.unwrap().as_str(), "105");
}

#[tokio::test]
async fn a_document_with_mistakes_leaves_the_former_version_in_place() {
    let folder = Folder::new();
    let sum = |tool: &str| {
        format!(
            "id: sum\nnodes:\n  - {{id: total, tool: {tool}, args_template: {{a: '{{n}}', b: 1}}}}\n"
        )
    };
    folder.write("sum.yaml", sum("reload_add"));
    let runtime = folder.boot(|builder| builder).await;
    for (text, problem) in [
        (
            sum("reload_ad"),
            "3:23: the node `total`: this program has no tool `reload_ad`; did you mean `reload_add`?",
        ),
        (
            sum("reload_add").replace("args_", "arg_"),
            "3:35: a node has no `arg_template`; did you mean `args_template`?",
        ),
    ] {
        folder.write("sum.yaml", text);
        folder.write("other.yaml", sum("reload_add").replace("id: sum", "id: other"));
        folder.write("wrong.yaml", "id: wrong\nnodes: []\n");
        let reloaded = runtime.documents().reload().await.unwrap();
        assert_eq!(done(&reloaded), (vec!["other"], vec![], vec![]));
        let problems: Vec<String> = reloaded.errors.iter().flat_map(places).collect();
        assert_eq!(problems, [problem, "1:1: a document of tools has at least one node"]);
        assert_eq!(run(&runtime, "sum", json!({"n": 2})).await, json!(3));
        assert_eq!(run(&runtime, "other", json!({"n": 2})).await, json!(3));
        folder.remove("other.yaml");
        let reloaded = runtime.documents().reload().await.unwrap();
        assert_eq!(done(&reloaded), (vec![], vec![], vec!["other"]));
        assert!(runtime.start_named("other", json!({"n": 2})).await.is_err());
    }
}

#[tokio::test]
async fn of_two_documents_of_one_name_the_new_one_is_wrong() {
    let folder = Folder::new();
    let sum = |name: &str, b: i64| {
        format!(
            "id: {name}\nnodes:\n  - {{id: t, tool: reload_add, args_template: {{a: 1, b: {b}}}}}\n"
        )
    };
    folder.write("b.yaml", sum("b", 2));
    folder.write("c.yaml", sum("c", 3));
    let runtime = folder.boot(|builder| builder).await;
    // The new file sorts first and uses the name of a known document.
    folder.write("a.yaml", sum("b", 100));
    // `c.yaml` changes its name at the same time.
    folder.write("c.yaml", sum("d", 4));
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!(done(&reloaded), (vec!["d"], vec![], vec!["c"]));
    let problems: Vec<String> = reloaded.errors.iter().flat_map(places).collect();
    let known = folder.path().join("b.yaml");
    assert_eq!(
        problems,
        [format!("1:5: `b` is also the workflow of {}; rename one", known.display())]
    );
    assert_eq!(
        (run(&runtime, "b", json!({})).await, run(&runtime, "d", json!({})).await),
        (json!(3), json!(5))
    );
    // Two documents may swap their names.
    folder.remove("a.yaml");
    folder.write("b.yaml", sum("d", 5));
    folder.write("c.yaml", sum("b", 6));
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!((done(&reloaded), reloaded.errors.len()), ((vec![], vec!["b", "d"], vec![]), 0));
    assert_eq!(
        (run(&runtime, "b", json!({})).await, run(&runtime, "d", json!({})).await),
        (json!(7), json!(6))
    );
}

#[tokio::test]
async fn what_a_removed_document_leaves_behind_is_reported() {
    let folder = Folder::new();
    folder.write(
        "inner.yaml",
        "id: inner\nnodes:\n  - {id: t, tool: reload_add, args_template: {a: 1, b: 2}}\n",
    );
    folder.write(
        "outer.yaml",
        "name: outer\noutput: it\nnodes: [{name: it, does: {call: {kind: workflow, name: inner, with: {object: {}}}}}]\n",
    );
    let runtime = folder.boot(|builder| builder).await;
    assert_eq!(run(&runtime, "outer", json!({})).await, json!(3));
    folder.remove("inner.yaml");
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!(done(&reloaded), (vec![], vec![], vec!["inner"]));
    let problems: Vec<String> = reloaded.errors.iter().flat_map(places).collect();
    assert!(problems.len() == 1 && problems[0].contains("`inner`"), "{problems:?}");
    assert!(runtime.start_named("outer", json!({})).await.is_err());
    // Comments and layout do not make a new version.
    folder.write(
        "inner.yaml",
        "id: inner\nnodes:\n  - {id: t, tool: reload_add, args_template: {a: 1, b: 2}}\n",
    );
    assert_eq!(done(&runtime.documents().reload().await.unwrap()), (vec!["inner"], vec![], vec![]));
    folder.write(
        "inner.yaml",
        "# Adds.\nid: inner\nnodes:\n  - {tool: reload_add, id: t, args_template: {b: 2, a: 1}}\n",
    );
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!((done(&reloaded), reloaded.errors.len()), ((vec![], vec![], vec![]), 0));
    assert_eq!(run(&runtime, "outer", json!({})).await, json!(3));
}

#[tokio::test]
async fn what_calls_a_document_with_mistakes_names_that_document() {
    let folder = Folder::new();
    let calls = |name: &str, kind: &str, other: &str| {
        format!(
            "name: {name}\noutput: it\nnodes: [{{name: it, does: {{call: {{kind: {kind}, name: {other}, with: {{value: {{}}}}}}}}}}]\n"
        )
    };
    folder.write("outer.yaml", calls("outer", "workflow", "inner"));
    folder.write("outermost.yaml", calls("outermost", "workflow", "outer"));
    folder.write("asked.yaml", calls("asked", "agent", "writer"));
    folder.write(
        "team.yaml",
        "name: team\nagents:\n  - {name: writer, model: openai/m, instruktion: x}\n",
    );
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (inner, problem) in [
        (
            "id: inner\nnodes:\n  - {id: t, tool: reload_add, argz_template: {a: 1, b: 2}}\n",
            "3:31: a node has no `argz_template`; did you mean `args_template`?",
        ),
        (
            "id: inner\nnodes:\n  - {id: t, tool: reload_ad}\n",
            "3:19: the node `t`: this program has no tool `reload_ad`; did you mean `reload_add`?",
        ),
    ] {
        folder.write("inner.yaml", inner);
        let error = Runtime::builder().document_folder(folder.path()).boot().await.unwrap_err();
        let BootError::Documents(FolderError::Documents(errors)) = error else { panic!("{error}") };
        let problems: Vec<String> = errors.iter().flat_map(places).collect();
        let says = |at: &str, node: &str, what: &str, document: &str| {
            format!(
                "{at}: the node `{node}`: the {what} cannot be built: its document {} has problems",
                path(document)
            )
        };
        let of_inner = says("3:56", "it", "workflow `inner`", "inner.yaml");
        let of_outer = says("3:56", "it", "workflow `outer`", "outer.yaml");
        let of_writer = says("3:53", "it", "agent `writer`", "team.yaml");
        let lacks = "2:1: a document with `agents` needs `orchestration`, which says in what order they run: \
                     `orchestration: {type: sequential, agents: [..]}`";
        assert_eq!(problems, [&*of_writer, problem, &*of_inner, &*of_outer, lacks]);
        // Starting the workflow reports the problem too.
        let runtime = Runtime::builder().document_folder(folder.path()).build();
        assert_eq!(runtime.documents().reload().await.unwrap().errors.len(), 5);
        let error = runtime.start_named("inner", json!({})).await.unwrap_err().to_string();
        let says = format!(
            "the workflow `inner` cannot be built: its document {} has problems",
            path("inner.yaml")
        );
        assert_eq!(error, says);
    }
    // If a valid previous version is loaded, callers use it.
    folder.write(
        "inner.yaml",
        "id: inner\nnodes:\n  - {id: t, tool: reload_add, args_template: {a: 1, b: 2}}\n",
    );
    folder.remove("asked.yaml");
    folder.remove("team.yaml");
    let runtime = folder.boot(|builder| builder).await;
    folder.write("inner.yaml", "id: inner\nnodes: []\n");
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!(reloaded.errors.len(), 1);
    assert_eq!(run(&runtime, "outermost", json!({})).await, json!(3));
}

#[tokio::test]
async fn a_folder_that_is_gone_changes_nothing() {
    let folder = Folder::new();
    let inner = folder.path().join("flows");
    fs::create_dir(&inner).unwrap();
    fs::write(
        inner.join("sum.yaml"),
        "id: sum\nnodes:\n  - {id: t, tool: reload_add, args_template: {a: 1, b: 2}}\n",
    )
    .unwrap();
    let builder = Runtime::builder().model(ScriptedModel::new([]));
    let runtime = builder.document_folder(&inner).boot().await.unwrap();
    fs::remove_dir_all(&inner).unwrap();
    let error = runtime.documents().reload().await.unwrap_err();
    assert!(matches!(&error, FolderError::Io { folder, .. } if *folder == inner), "{error}");
    assert_eq!(run(&runtime, "sum", json!({})).await, json!(3));
}

#[tokio::test]
async fn all_that_is_made_of_a_runtime_has_the_new_version() {
    let folder = Folder::new();
    let sum = |b: i64| {
        format!(
            "id: sum\nnodes:\n  - {{id: t, tool: reload_add, args_template: {{a: 1, b: {b}}}}}\n"
        )
    };
    folder.write("sum.yaml", sum(1));
    let runtime = folder.boot(|builder| builder).await;
    let (stored, cloned) = (runtime.with_store(MemoryStore::new()), runtime.clone());
    assert_eq!(run(&stored, "sum", json!({})).await, json!(2));
    folder.write("sum.yaml", sum(2));
    let _ = cloned.documents().reload().await.unwrap();
    assert_eq!(
        (run(&runtime, "sum", json!({})).await, run(&stored, "sum", json!({})).await),
        (json!(3), json!(3))
    );
}

#[tokio::test]
async fn booting_names_the_phase_and_all_that_is_wrong_in_it() {
    let folder = Folder::new();
    folder.write("a.yaml", "id: a\nnodes: []\n");
    folder.write("b.yaml", "id: b\nnodes:\n  - {id: t, tool: reload_ad, retry: 1}\n");
    let described =
        || Runtime::builder().model(ScriptedModel::new([])).document_folder(folder.path());
    let error = described().toolset(ToolsetRef::new(Away)).boot().await.unwrap_err();
    assert_eq!(error.phase(), BootPhase::Toolsets, "{error}");
    assert!(error.to_string().contains("nobody is at home"), "{error}");
    let error = described().boot().await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the runtime cannot be used, as the phase `documents` found: error: "),
        "{error}"
    );
    let BootError::Documents(FolderError::Documents(errors)) = error else { panic!("{error}") };
    let problems: Vec<String> = errors.iter().flat_map(places).collect();
    let of_b =
        "3:19: the node `t`: this program has no tool `reload_ad`; did you mean `reload_add`?";
    let beside = "3:30: a node has no `retry`; did you mean `retry_limit`?";
    assert_eq!(problems, ["1:1: a document of tools has at least one node", of_b, beside]);
    folder.write(
        "a.yaml",
        "id: a\nnodes:\n  - {id: t, tool: reload_add, args_template: {a: 1, b: 1}}\n",
    );
    folder.remove("b.yaml");
    let twice = |builder: RuntimeBuilder| {
        let agent = || Agent::new(ScriptedModel::new([])).name("one");
        builder.agent(&agent()).agent(&agent())
    };
    let error = twice(described()).boot().await.unwrap_err();
    assert_eq!(error.phase(), BootPhase::Names, "{error}");
    assert_eq!(run(&described().boot().await.unwrap(), "a", json!({})).await, json!(2));
    // The last phase checks models: unknown ones, and models without an API key.
    let keyless = Agent::new("openai/gpt-5-mini").name("keyless");
    let unknown = Agent::new("opnai/gpt-5-mini").name("unknown");
    let error =
        described().secrets(EmptySecrets).agent(&keyless).agent(&unknown).boot().await.unwrap_err();
    assert_eq!(error.phase(), BootPhase::Models, "{error}");
    for says in [
        "the agent `keyless`",
        "set `OPENAI_API_KEY`",
        "the agent `unknown`",
        "did you mean `openai`?",
    ] {
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

/// A secret provider without keys.
struct EmptySecrets;

#[agentflow::async_trait]
impl SecretProvider for EmptySecrets {
    async fn secret(&self, _: &str) -> Option<Secret> {
        None
    }
}

#[tokio::test]
async fn health_is_what_every_phase_finds_now() {
    let folder = Folder::new();
    let sum = |tool: &str| {
        format!("id: sum\nnodes:\n  - {{id: t, tool: {tool}, args_template: {{a: 1, b: 2}}}}\n")
    };
    folder.write("sum.yaml", sum("reload_add"));
    let runtime = folder.boot(|builder| builder.store(MemoryStore::new())).await;
    let health = runtime.health().await;
    assert!(health.is_well() && health.problems().is_empty(), "{health}");
    assert_eq!(
        health.to_string(),
        "configuration: well\nstore: well\ntoolsets: well\ndocuments: well\nnames: well\nmodels: well"
    );
    // The previous version stays active, and the problem is reported until the document is fixed.
    folder.write("sum.yaml", sum("reload_ad"));
    assert!(runtime.health().await.is_well(), "nobody has read it yet");
    let _ = runtime.documents().reload().await.unwrap();
    let health = runtime.health().await;
    let problem = health.problem_of(BootPhase::Documents).unwrap();
    assert!(problem.found().contains("this program has no tool `reload_ad`"), "{problem}");
    assert_eq!((health.problems().len(), run(&runtime, "sum", json!({})).await), (1, json!(3)));
    folder.write("sum.yaml", sum("reload_add"));
    let _ = runtime.documents().reload().await.unwrap();
    assert!(runtime.health().await.is_well());
    // Health checks look at all phases, also after a problem.
    let agent = || Agent::new(ScriptedModel::new([])).name("one");
    let gone = folder.path().join("gone");
    let many = Runtime::builder()
        .model(ScriptedModel::new([]))
        .toolset(ToolsetRef::new(Away))
        .agent(&agent())
        .agent(&agent())
        .document_folder(gone);
    let health = many.build().health().await;
    let phases: Vec<BootPhase> = health.problems().iter().map(BootError::phase).collect();
    assert_eq!(phases, [BootPhase::Toolsets, BootPhase::Documents, BootPhase::Names], "{health}");
    assert!(
        health.to_string().contains("\ntoolsets: ")
            && health.to_string().contains("nobody is at home"),
        "{health}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_reads_what_has_changed() {
    let folder = Folder::new();
    let sum = |b: i64| {
        format!(
            "id: sum\nnodes:\n  - {{id: t, tool: reload_add, args_template: {{a: 1, b: {b}}}}}\n"
        )
    };
    folder.write("sum.yaml", sum(1));
    let runtime = folder.boot(|builder| builder).await;
    let (seen, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let watch = runtime.documents().watch(Duration::ZERO, move |reloaded| {
        let _ = seen.send(reloaded.map(|reloaded| (reloaded.changed.len(), reloaded.errors.len())));
    });
    // The file size must differ, since two quick writes may have the same timestamp.
    folder.write("sum.yaml", sum(1000));
    assert_eq!(within("a message", changes.recv()).await.unwrap().unwrap(), (1, 0));
    assert_eq!(run(&runtime, "sum", json!({})).await, json!(1001));
    folder.write("sum.yaml", "id: sum\nnodes: []\n");
    assert_eq!(within("a message", changes.recv()).await.unwrap().unwrap(), (0, 1));
    assert_eq!(run(&runtime, "sum", json!({})).await, json!(1001));
    // A mistake is reported once. The watch does not report changes that an explicit reload has
    // already read.
    folder.write("sum.yaml", sum(20));
    assert_eq!(names(&runtime.documents().reload().await.unwrap().changed), ["sum"]);
    folder.write("sum.yaml", sum(300_000));
    assert_eq!(within("a message", changes.recv()).await.unwrap().unwrap(), (1, 0));
    fs::remove_dir_all(folder.path()).unwrap();
    assert!(matches!(
        within("a message", changes.recv()).await.unwrap(),
        Err(FolderError::Io { .. })
    ));
    drop(watch);
    assert!(within("a message", changes.recv()).await.is_none());
}

/// Reloads at the same time. They must follow one another, and each run must use one version of
/// both documents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_begin_while_documents_are_read_have_one_version() {
    let folder = Folder::new();
    // Both documents contain the same number, so mixed versions are detected.
    let inner = |b: i64| {
        format!(
            "id: inner\nnodes:\n  - {{id: t, tool: reload_add, args_template: {{a: 0, b: {b}}}}}\n"
        )
    };
    let outer = |b: i64| {
        format!(
            "name: outer\noutput: both\nnodes:\n  - {{name: it, does: {{call: {{kind: workflow, name: inner, with: {{object: \
             {{}}}}}}}}}}\n  - {{name: both, does: {{value: {{list: [{{from: it}}, {{value: {b}}}]}}}}}}\n"
        )
    };
    folder.write("inner.yaml", inner(0));
    folder.write("outer.yaml", outer(0));
    let runtime = folder.boot(|builder| builder).await;
    let mixtures: Arc<Mutex<Vec<Value>>> = Arc::default();
    let starter = tokio::spawn({
        let (runtime, mixtures) = (runtime.clone(), Arc::clone(&mixtures));
        async move {
            for _ in 0..100 {
                let both = run(&runtime, "outer", json!({})).await;
                if both[0] != both[1] {
                    mixtures.lock().unwrap().push(both);
                }
            }
        }
    });
    let mut version = 0;
    while !starter.is_finished() {
        version += 1;
        folder.write("inner.yaml", inner(version));
        folder.write("outer.yaml", outer(version));
        let (one, other) = tokio::join!(runtime.documents().reload(), runtime.documents().reload());
        let changed: usize =
            [one.unwrap(), other.unwrap()].iter().map(|reloaded| reloaded.changed.len()).sum();
        assert_eq!(changed, 2);
    }
    starter.await.unwrap();
    assert!(
        mixtures.lock().unwrap().is_empty(),
        "{:?} of {version} versions",
        mixtures.lock().unwrap()
    );
}

/// A new document whose name is taken is refused. Existing documents stay as they are.
#[tokio::test]
async fn a_name_that_is_taken_keeps_a_new_document_out() {
    let folder = Folder::new();
    let agents = |name: &str| {
        format!(
            "name: {name}\nagents: [{{name: reload_writer, model: openai/gpt-5-mini, instruction: Write.}}]\n\
             orchestration: {{type: sequential, agents: [reload_writer]}}\n"
        )
    };
    folder.write("a.yaml", agents("reload_a"));
    let model = ScriptedModel::from_fn(|_| Turn::text("said"));
    let runtime = folder.boot(|builder| builder.model(model)).await;
    // Both documents may define an agent with the same name.
    folder.write("b.yaml", agents("reload_b"));
    folder.write("d.yaml", asks("reload_a", 1));
    folder.write("c.yaml", asks("reload_add_workflow", 1));
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!(done(&reloaded), (vec!["reload_add_workflow", "reload_b"], vec![], vec![]));
    assert_eq!(reloaded.errors.len(), 1);
    let problem = reloaded.errors[0].to_string();
    assert!(problem.contains("reload_a"), "{problem}");
    assert_eq!(run(&runtime, "reload_a", json!({"message": "hi"})).await, json!("said"));
}
