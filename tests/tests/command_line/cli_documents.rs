//! Documents on the command line: checked, listed, shown and run.

use std::fs;

use serde_json::{Value, json};

use crate::cli_workflows::{Place, agentwf, done, failure};

const SUM: &str = "id: sum_up\nnodes:\n  - id: first\n    tool: add\n    args_template: {a: \"{a}\", b: 2}\n  - id: total\n    tool: add\n    args_template: {a: \"{first}\", b: \"{first}\"}\n";

fn write(place: &Place, name: &str, text: &str) -> String {
    let path = place.path(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_document_is_checked_shown_and_run() {
    let place = Place::new();
    let file = write(&place, "sum.yaml", SUM);
    let checked = done(&["workflow", "validate", &file]).stdout;
    assert_eq!(checked, format!("sum_up {file}: form tools, 2 nodes\n"));
    let listed = done(&["workflow", "list", "--document", &file]).stdout;
    assert!(listed.contains(&format!("sum_up(a: json)\n    from the document {file}\n")), "{listed}");
    let shown = done(&["workflow", "show", "sum_up", "--document", &file]).stdout;
    assert!(shown.contains("step     first = add (tool) <- a: json\n"), "{shown}");
    let store = place.store();
    let args = ["workflow", "run", "sum_up", "--document", &file, "--input", "{\"a\": 1}", "--store", &store];
    assert_eq!(done(&args).stdout, "6\n");
}

#[test]
fn a_folder_of_documents_is_checked_in_one_pass() {
    let place = Place::new();
    fs::create_dir(place.path("flows")).unwrap();
    write(&place, "flows/a.yaml", SUM);
    let b = write(
        &place,
        "flows/b.json",
        &json!({"id": "b", "nodes": [{"id": "x", "tool": "ad", "retry": 1}]}).to_string(),
    );
    let c = write(&place, "flows/c.yml", SUM);
    let d = write(&place, "flows/d.yaml", &SUM.replace("sum_up", "other").replace("tool: add", "tool: ad"));
    write(&place, "flows/notes.txt", "no document");
    let flows = place.path("flows");
    let ended = agentwf(&["workflow", "validate", &flows]).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.starts_with("sum_up ") && ended.stdout.lines().count() == 1, "{ended:#?}");
    for says in [
        "error: a node has no `retry`; its fields are `id`, `tool`, ".to_owned(),
        format!("--> {b}:1:"),
        format!("`sum_up` is also the workflow of {}; rename one", place.path("flows/a.yaml")),
        format!("--> {c}:1:5"),
        "error: the node `first`: this program knows no tool `ad`; did you mean `add`?".to_owned(),
        format!("--> {d}:4:11"),
    ] {
        assert!(ended.stderr.contains(&says), "{says}\n{}", ended.stderr);
    }
    let ended = agentwf(&["workflow", "validate", "--json", "--without-names", &d, &b]).run();
    let reports: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(reports[0], json!({"document": d, "form": "tools", "workflow": "other", "problems": []}));
    assert_eq!((&reports[1]["document"], &reports[1]["form"]), (&json!(b), &Value::Null));
    assert_eq!(reports[1]["problems"][0]["line"], 1);
    assert_eq!(ended.code, Some(1));

    let ended = agentwf(&["workflow", "run", "sum_up", "--document", &flows]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    assert!(ended.stderr.contains("a node has no `retry`"), "{ended:#?}");
    let missing = failure(&["workflow", "validate", "no/such.yaml"]);
    assert_eq!(missing, "there is no file or folder `no/such.yaml`");
}

#[test]
fn a_workflow_is_exported_in_a_form() {
    let place = Place::new();
    let file = write(&place, "sum.yaml", SUM);
    let yaml = done(&["workflow", "export", "sum_up", "--form", "graph", "--document", &file]).stdout;
    let plan = write(&place, "plan.yaml", &yaml);
    assert_eq!(done(&["workflow", "validate", &plan]).stdout, format!("sum_up {plan}: form graph, 2 nodes\n"));
    let json = done(&["workflow", "export", "sum_up", "--form", "tools", "--json", "--document", &plan]).stdout;
    let written: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        written["nodes"][1],
        json!({"id": "total", "tool": "add", "args_template": {"a": "{first}", "b": "{first}"}})
    );
    let refused = failure(&["workflow", "export", "sum_up", "--form", "tree", "--document", &file]);
    assert!(refused.starts_with("the workflow `sum_up` cannot be written in the form `tree`: "), "{refused}");
    let unknown = failure(&["workflow", "export", "sum", "--form", "graph", "--document", &file]);
    assert!(unknown.contains("`sum`"), "{unknown}");
}

#[test]
fn editors_are_given_a_schema() {
    let all: Value = serde_json::from_str(&done(&["workflow", "schema"]).stdout).unwrap();
    assert_eq!(all["anyOf"].as_array().unwrap().len(), 6);
    let tools: Value = serde_json::from_str(&done(&["workflow", "schema", "--form", "tools"]).stdout).unwrap();
    let check = jsonschema::validator_for(&tools).unwrap();
    assert!(check.is_valid(&json!({"id": "x", "nodes": [{"id": "a", "tool": "add"}]})));
    assert!(!check.is_valid(&json!({"id": "x", "nodes": [{"id": "a", "tol": "add"}]})));
    let wrong = agentwf(&["workflow", "schema", "--form", "tool"]).run();
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
    assert!(wrong.stderr.contains("did you mean `tools`?"), "{wrong:#?}");
}
