//! `agentwf documents`: documents of a store, saved by one process and executed by others.

use std::fs;
use std::time::Duration;

use agentflow_tests::{Ended, PostgresServer};
use serde_json::{Value, json};

use crate::cli_workflows::{Place, agentwf, done, ended, failure};
use crate::worker::{Worker, wait_for_status};

/// Time limit for the end of a command.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns a document that adds `b` to its input `a`.
fn sum(b: i64) -> String {
    format!(
        "id: stored\nnodes:\n  - {{id: t, tool: add, args_template: {{a: \"{{a}}\", b: {b}}}}}\n"
    )
}

/// Returns a graph that asks for a number and adds `adds` to the answer.
fn asks(adds: i64) -> String {
    format!(
        "name: asking\noutput: sum\nnodes:\n  - {{name: number, does: {{ask: {{text: which?, answer: {{type: integer}}}}}}}}\n  \
         - name: sum\n    does: {{call: {{kind: tool, name: add, with: {{object: {{a: {{from: number}}, b: {{value: \
         {adds}}}}}}}}}}}\n"
    )
}

fn write(place: &Place, name: &str, text: &str) -> String {
    let path = place.path(name);
    fs::write(&path, text).unwrap();
    path
}

fn documents(store: &str, args: &[&str]) -> Ended {
    done(&[&["documents", "--store", store], args].concat())
}

/// Queues a run, which a running worker may execute at once.
fn queue(store: &str, workflow: &str, id: &str, input: &str) {
    let begun = ["workflow", "run", workflow, "--queue", "--run-id", id];
    let queued = done(&[&begun[..], &["--input", input, "--store", store]].concat());
    assert_eq!(queued.stdout, format!("{id}\n"));
}

/// Returns the output of a run.
fn output(store: &str, id: &str) -> Value {
    let events = done(&["runs", "events", id, "--json", "--store", store]).stdout;
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    last["payload"]["workflow"]["output"].clone()
}

#[test]
fn versions_are_saved_listed_compared_and_removed() {
    let place = Place::new();
    let store = place.store();
    let file = write(&place, "any name.yaml", &sum(1));
    let error = failure(&["documents", "list", "--store", &store]);
    assert!(error.contains("there is no store file"), "{error}");
    let saved =
        documents(&store, &["put", &file, "--expect-absent", "--comment", "first", "--json"]);
    let saved = saved.line();
    assert_eq!(
        (&saved["name"], &saved["version"], &saved["form"], &saved["author"], &saved["comment"]),
        (&json!("stored"), &json!(1), &json!("tools"), &json!("ada"), &json!("first"))
    );
    let error = failure(&["documents", "put", &file, "--expect-absent", "--store", &store]);
    assert!(
        error.ends_with(
            "no current version was expected, and its current version is 1; read the document again"
        ),
        "{error}"
    );
    let wrong = write(&place, "wrong.yaml", &sum(1).replace("add", "ad"));
    let refused = ended(&["documents", "put", &wrong, "--store", &store]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:#?}");
    assert!(
        refused.stderr.contains("this program has no tool `ad`; did you mean `add`?"),
        "{refused:#?}"
    );
    let checked = ended(&["documents", "validate", &wrong, "--json", "--store", &store]);
    assert_eq!(checked.code, Some(1), "{checked:#?}");
    assert_eq!(checked.line()["problems"][0]["line"], json!(3));
    documents(&store, &["validate", &file]);
    write(&place, "any name.yaml", &sum(2));
    let line = documents(&store, &["put", &file, "--expect-version", "1", "--by", "eve"]).stdout;
    assert!(
        line.starts_with("stored  version 2, form tools") && line.contains(" by eve"),
        "{line}"
    );
    assert_eq!(documents(&store, &["get", "stored"]).stdout, sum(2));
    assert_eq!(documents(&store, &["get", "stored", "1"]).stdout, sum(1));
    let got = documents(&store, &["get", "stored", "--json"]).line();
    assert_eq!((&got["document"]["version"], &got["text"]), (&json!(2), &json!(sum(2))));
    let diff = ended(&["documents", "diff", "stored", "1", "2", "--store", &store]);
    assert_eq!(diff.code, Some(1), "{diff:#?}");
    assert!(
        diff.stdout.contains("\n-  - {id: t") && diff.stdout.contains("\n+  - {id: t"),
        "{diff:#?}"
    );
    assert_eq!(
        documents(&store, &["diff", "stored", "2", "2", "--json"]).line(),
        json!({"same": true, "diff": ""})
    );
    let run = |more: &[&str]| {
        let args = ["workflow", "run", "stored", "--input", "{\"a\": 1}", "--store", &store];
        done(&[&args[..], more].concat()).stdout
    };
    assert_eq!((run(&[]), run(&["--document-version", "1"])), ("3\n".to_owned(), "2\n".to_owned()));
    let versions = documents(&store, &["versions", "stored", "--json"]).line();
    let numbers: Vec<&Value> =
        versions.as_array().unwrap().iter().map(|of| &of["version"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(1)]);
    documents(&store, &["remove", "stored", "--expect-version", "2"]);
    let listed = documents(&store, &["list"]);
    assert_eq!((listed.stdout.as_str(), listed.stderr.trim()), ("", "no documents"));
    let error = failure(&["documents", "get", "stored", "--store", &store]);
    assert_eq!(error, "the store has no document `stored`");
    assert_eq!(documents(&store, &["get", "stored", "1"]).stdout, sum(1));
}

/// Several processes save the next version at the same time.
fn check_writers(place: &Place, store: &str) {
    let file = write(place, "stored.yaml", &sum(1));
    documents(store, &["put", &file, "--expect-absent"]);
    for round in 1..=2_u64 {
        let expected = round.to_string();
        let processes: Vec<_> = (0..4)
            .map(|writer| {
                let text = sum(10 * i64::try_from(round).unwrap() + writer);
                let file = write(place, &format!("{round}-{writer}.yaml"), &text);
                agentwf(&[
                    "documents",
                    "put",
                    &file,
                    "--expect-version",
                    &expected,
                    "--store",
                    store,
                ])
                .start()
            })
            .collect();
        let ended: Vec<Ended> =
            processes.into_iter().map(|process| Ended::of(process, LIMIT, "a writer")).collect();
        let won = ended.iter().filter(|ended| ended.code == Some(0)).count();
        assert_eq!(won, 1, "{ended:#?}");
        for lost in ended.iter().filter(|ended| ended.code != Some(0)) {
            let says = format!("its current version is {}", round + 1);
            assert!(lost.stderr.contains(&says), "{lost:#?}");
        }
    }
}

/// A worker executes documents that another process saves, and a run keeps its version.
fn check_worker(place: &Place, store: &str) {
    let (sums, asking) = (write(place, "s.yaml", &sum(100)), write(place, "a.yaml", &asks(1)));
    let worker = Worker::start(store);
    documents(store, &["put", &sums]);
    documents(store, &["put", &asking]);
    queue(store, "stored", "first", "{\"a\": 1}");
    queue(store, "asking", "waits", "{}");
    wait_for_status(store, "first", "success");
    wait_for_status(store, "waits", "paused");
    assert_eq!(output(store, "first"), json!(101));
    write(place, "s.yaml", &sum(200));
    documents(store, &["put", &sums]);
    write(place, "a.yaml", &asks(50));
    documents(store, &["put", &asking]);
    documents(store, &["remove", "asking"]);
    queue(store, "stored", "second", "{\"a\": 1}");
    wait_for_status(store, "second", "success");
    assert_eq!(output(store, "second"), json!(201));
    // The worker is killed, and another one continues with the version of the run.
    drop(worker);
    let other = Worker::start(store);
    done(&["runs", "answer", "waits", "number", "10", "--store", store]);
    wait_for_status(store, "waits", "success");
    assert_eq!(output(store, "waits"), json!(11));
    let shown = done(&["runs", "show", "waits", "--json", "--store", store]).line();
    assert_eq!(shown["run"]["document"]["version"], json!(1));
    assert_eq!(other.stop().0, Some(0));
}

/// The file was written by the last build with hashes of 64 bits. Its run waits in a called
/// workflow.
#[test]
fn a_run_of_an_earlier_build_is_recognized_by_its_hash() {
    let place = Place::new();
    let store = place.store();
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/runs-fnv.db"), &store).unwrap();
    let worker = Worker::start(&store);
    done(&["runs", "answer", "old1", "asked/number", "10", "--store", &store]);
    wait_for_status(&store, "old1", "success");
    assert_eq!(output(&store, "old1"), json!(15));
    let shown = done(&["runs", "show", "old1", "--json", "--store", &store]).line();
    assert_eq!(shown["run"]["definition"], json!("259b21b6b6186875"));
    assert_eq!(worker.stop().0, Some(0));
}

#[test]
fn processes_share_the_documents_of_a_file() {
    let place = Place::new();
    check_writers(&place, &place.store());
    check_worker(&place, &place.store());
}

#[test]
fn processes_share_the_documents_of_a_postgres_database() {
    let Some(server) = PostgresServer::shared() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = runtime.block_on(server.new_database("stored_documents"));
    let place = Place::new();
    check_writers(&place, &url);
    check_worker(&place, &url);
}
