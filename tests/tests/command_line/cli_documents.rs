//! Documents on the command line: validating, listing, showing and running them.

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
    assert!(
        listed
            .contains(&format!("sum_up(a: any value)\n    from the document {file}, definition ")),
        "{listed}"
    );
    let shown = done(&["workflow", "show", "sum_up", "--document", &file]).stdout;
    assert!(shown.contains("step     first = add (tool) <- a: integer\n"), "{shown}");
    let store = place.store();
    let args = [
        "workflow",
        "run",
        "sum_up",
        "--document",
        &file,
        "--input",
        "{\"a\": 1}",
        "--store",
        &store,
    ];
    assert_eq!(done(&args).stdout, "6\n");
}

/// `list`, `show` and `dry-run` describe types in the same way.
#[test]
fn types_are_said_in_the_same_words() {
    let place = Place::new();
    let text = "name: greeted\noutput: said\nnodes:\n  - {name: who, kind: input, schema: {type: string}}\n  - {name: said, does: {value: {from: who}}}\n  - {name: all, does: {map: {items: list, call: {kind: tool, name: add, with: {object: {a: {item: ''}, b: {value: 1}}}}}}}\n  - {name: list, kind: input, schema: {type: array, items: {type: integer}}}\n";
    let file = write(&place, "greeted.yaml", text);
    let said = |what: &str| done(&["workflow", what, "greeted", "--document", &file]).stdout;
    let (shown, dry) = (said("show"), said("dry-run"));
    let listed = done(&["workflow", "list", "--document", &file]).stdout;
    assert!(listed.contains("greeted(who: string, list: list of integer)\n"), "{listed}");
    assert!(
        dry.starts_with("workflow greeted(list: list of integer, who: string) -> string\n"),
        "{dry}"
    );
    for says in [
        "who: string",
        "said <- who: string",
        "list: list of integer",
        "all = add (tool) <- list: list of integer",
    ] {
        assert!(shown.contains(&format!(" {says}\n")), "{says}\n{shown}");
    }
    assert!(dry.contains("all (map) -> list of integer"), "{dry}");
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
    let d = write(
        &place,
        "flows/d.yaml",
        &SUM.replace("sum_up", "other").replace("tool: add", "tool: ad"),
    );
    let calls = "name: e\noutput: it\nnodes: [{name: it, does: {call: {kind: workflow, name: b, with: {value: {}}}}}]\n";
    write(&place, "flows/e.yaml", calls);
    write(&place, "flows/notes.txt", "no document");
    let flows = place.path("flows");
    let ended = agentwf(&["workflow", "validate", &flows]).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.starts_with("sum_up ") && ended.stdout.lines().count() == 1, "{ended:#?}");
    for says in [
        "error: a node has no `retry`; did you mean `retry_limit`?".to_owned(),
        format!("--> {b}:1:"),
        format!("`sum_up` is also the workflow of {}; rename one", place.path("flows/a.yaml")),
        format!("--> {c}:1:5"),
        "error: the node `first`: this program has no tool `ad`; did you mean `add`?".to_owned(),
        format!("--> {d}:4:11"),
        format!(
            "error: the node `it`: the workflow `b` cannot be built: its document {b} has problems"
        ),
    ] {
        assert!(ended.stderr.contains(&says), "{says}\n{}", ended.stderr);
    }
    // Includes the document with a wrong field.
    assert_eq!(ended.stderr.matches("has no tool `ad`").count(), 3, "{ended:#?}");
    let ended = agentwf(&["workflow", "validate", "--json", "--without-names", &d, &b]).run();
    let reports: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        reports[0],
        json!({"document": d, "form": "tools", "workflow": "other", "problems": []})
    );
    assert_eq!((&reports[1]["document"], &reports[1]["form"]), (&json!(b), &Value::Null));
    assert_eq!(reports[1]["problems"][0]["line"], 1);
    assert_eq!(ended.code, Some(1));

    // Invalid documents do not hide others.
    let input = ["--input", "{\"a\": 1}"];
    let ended = agentwf(&["workflow", "run", "sum_up", "--document", &flows]).args(input).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "6\n"), "{ended:#?}");
    assert!(
        ended.stderr.contains(&format!("the document {b} has mistakes and is left out")),
        "{ended:#?}"
    );
    let ended = agentwf(&["workflow", "run", "b", "--document", &flows]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    assert!(ended.stderr.contains("a node has no `retry`"), "{ended:#?}");
    // A document with an unknown tool does not hide others either.
    let ended = agentwf(&["list", "--document", &c, "--document", &b, "--document", &d]).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stdout.contains("sum_up(") && ended.stderr.contains("a node has no `retry`"),
        "{ended:#?}"
    );
    let missing = failure(&["workflow", "validate", "no/such.yaml"]);
    assert_eq!(missing, "there is no file or folder `no/such.yaml`");
}

#[test]
fn a_workflow_is_exported_in_a_form() {
    let place = Place::new();
    let file = write(&place, "sum.yaml", SUM);
    let yaml =
        done(&["workflow", "export", "sum_up", "--form", "graph", "--document", &file]).stdout;
    let plan = write(&place, "plan.yaml", &yaml);
    assert_eq!(
        done(&["workflow", "validate", &plan]).stdout,
        format!("sum_up {plan}: form graph, 2 nodes\n")
    );
    let json =
        done(&["workflow", "export", "sum_up", "--form", "tools", "--json", "--document", &plan])
            .stdout;
    let written: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        written["nodes"][1],
        json!({"id": "total", "tool": "add", "args_template": {"a": "{first}", "b": "{first}"}})
    );
    let refused = failure(&["workflow", "export", "sum_up", "--form", "tree", "--document", &file]);
    assert!(
        refused.starts_with("the workflow `sum_up` cannot be exported to the form `tree`: "),
        "{refused}"
    );
    let unknown = failure(&["workflow", "export", "sum", "--form", "graph", "--document", &file]);
    assert!(unknown.contains("`sum`"), "{unknown}");
}

#[test]
fn editors_are_given_a_schema() {
    let all: Value = serde_json::from_str(&done(&["workflow", "schema"]).stdout).unwrap();
    assert_eq!(all["anyOf"].as_array().unwrap().len(), 6);
    let tools: Value =
        serde_json::from_str(&done(&["workflow", "schema", "--form", "tools"]).stdout).unwrap();
    let check = jsonschema::validator_for(&tools).unwrap();
    assert!(check.is_valid(&json!({"id": "x", "nodes": [{"id": "a", "tool": "add"}]})));
    assert!(!check.is_valid(&json!({"id": "x", "nodes": [{"id": "a", "tol": "add"}]})));
    let wrong = agentwf(&["workflow", "schema", "--form", "tool"]).run();
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
    assert!(wrong.stderr.contains("did you mean `tools`?"), "{wrong:#?}");
}

#[test]
fn two_versions_are_compared() {
    let place = Place::new();
    let old = write(&place, "old.yaml", SUM);
    let same = write(&place, "same.yaml", &format!("# The same.\n{SUM}"));
    let new =
        write(&place, "new.yaml", &SUM.replace("b: 2}", "b: 3}").replace("id: total", "id: all"));
    let wrong = write(&place, "wrong.yaml", &SUM.replace("tool: add", "tool: ad"));
    let ended = agentwf(&["workflow", "diff", &old, &same]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
    assert!(ended.stderr.starts_with("they are the same: definition "), "{ended:#?}");
    let ended = agentwf(&["workflow", "diff", &old, &new]).run();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""), "{ended:#?}");
    let no_run = "; a run of the one cannot continue as the other";
    let expected = format!(
        "the node `all` is new\nthe node `first`: what it does{no_run}\nthe node `total` is gone{no_run}\n"
    );
    assert_eq!(ended.stdout, expected);
    let ended = agentwf(&["workflow", "diff", "--json", &old, &new]).run();
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&json["same"], &json["old"]["workflow"]), (&json!(false), &json!("sum_up")));
    assert_eq!(json["differences"][1]["message"], "the node `first`: what it does");
    assert_eq!(json["old"]["document"].as_str().map(str::len), Some(64));
    assert_ne!(json["old"]["definition"], json["new"]["definition"]);
    // The old version is named by its workflow, and its document is an option.
    let ended = agentwf(&["workflow", "diff", "sum_up", &new, "--document", &old]).run();
    assert_eq!((ended.code, ended.stdout), (Some(1), expected), "{}", ended.stderr);
    let ended = agentwf(&["workflow", "diff", &old, &wrong]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    assert!(
        ended.stderr.contains("this program has no tool `ad`; did you mean `add`?"),
        "{ended:#?}"
    );
    assert!(failure(&["workflow", "diff", &old, "no_such"]).contains("no_such"));
    assert_eq!(agentwf(&["workflow", "diff", &old]).run().code, Some(2));
}

#[test]
fn a_dry_run_of_a_document_and_its_version_are_shown() {
    let place = Place::new();
    let file = write(&place, "sum.yaml", SUM);
    let shown = done(&["workflow", "dry-run", "sum_up", "--document", &file]).stdout;
    assert_eq!(
        shown,
        done(&["workflow", "show", "sum_up", "--document", &file, "--format", "dry-run"]).stdout
    );
    let json: Value = serde_json::from_str(
        &done(&["workflow", "dry-run", "sum_up", "--document", &file, "--json"]).stdout,
    )
    .unwrap();
    assert_eq!(
        (&json["what"], json["steps"].as_array().map(Vec::len)),
        (&json!("workflow"), Some(2))
    );
    let listed: Value =
        serde_json::from_str(&done(&["workflow", "list", "--json", "--document", &file]).stdout)
            .unwrap();
    let of = listed.as_array().unwrap().iter().find(|graph| graph["name"] == "sum_up").unwrap();
    let definition = of["definition"].as_str().unwrap();
    let lines = done(&["workflow", "list", "--document", &file]).stdout;
    assert!(
        lines.contains(&format!("from the document {file}, definition {definition}\n")),
        "{lines}"
    );
    assert_eq!(agentwf(&["workflow", "dry-run", "no_such"]).run().code, Some(1));
    // A file works like a name.
    assert_eq!(shown, done(&["dry-run", &file]).stdout);
    assert_eq!(shown, done(&["show", &file, "--format", "dry-run"]).stdout);
    assert_eq!(
        done(&["export", &file, "--form", "tools"]).stdout,
        done(&["export", "sum_up", "--form", "tools", "--document", &file]).stdout
    );
    assert_eq!(done(&["workflow", "run", &file, "--input", "{\"a\": 1}"]).stdout, "6\n");
    assert_eq!(failure(&["show", "no/such.yaml"]), "there is no file `no/such.yaml`");
}

/// Commands that inspect a workflow also work without the `workflow` prefix.
#[test]
fn each_look_at_a_workflow_is_a_command_of_its_own() {
    let place = Place::new();
    let file = write(&place, "sum.yaml", SUM);
    let with = ["--document", &file];
    for command in [
        &["list", "--json"][..],
        &["show", "sum_up", "--format", "mermaid"],
        &["dry-run", "sum_up", "--json"],
        &["export", "sum_up", "--form", "graph"],
    ] {
        let own = done(&[command, &with].concat()).stdout;
        assert_eq!(own, done(&[&["workflow"], command, &with].concat()).stdout, "{command:?}");
        assert!(own.contains("sum_up") || own.contains("first"), "{own}");
    }
    assert_eq!(done(&["validate", &file]).stdout, format!("sum_up {file}: form tools, 2 nodes\n"));
    assert_eq!(done(&["schema"]).stdout, done(&["workflow", "schema"]).stdout);
    let other = write(&place, "other.yaml", &SUM.replace("b: 2}", "b: 3}"));
    let ended = agentwf(&["diff", &file, &other]).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.starts_with("the node `first`: what it does"), "{ended:#?}");
}

#[test]
fn a_workflow_is_run_in_the_place_of_an_agent() {
    let place = Place::new();
    let sum = write(&place, "sum.yaml", SUM);
    let text = "id: weather\nnodes:\n  - id: said\n    tool: get_weather\n    args_template: {city: \"{task}\", unit: \"{unit?}\"}\n";
    let weather = write(&place, "weather.yaml", text);
    let (input, oslo) = ("{\"a\": 1}", "\"12 degrees celsius in Oslo\"\n");
    // A file or a name selects a workflow. A task is the value of its only input, or of the
    // input named `task`.
    assert_eq!(done(&["run", &sum, "--input", input]).stdout, "6\n");
    assert_eq!(done(&["run", "sum_up", "--document", &sum, "--input", input]).stdout, "6\n");
    assert_eq!(
        done(&["run", "--workflow", "quick", "--input", "{\"word\": \"a\", \"times\": 2}"]).stdout,
        "\"A-A\"\n"
    );
    let one = write(
        &place,
        "one.yaml",
        &text.replace(", unit: \"{unit?}\"", "").replace("{task}", "{place}"),
    );
    assert_eq!(done(&["run", "--task", "Oslo", "--workflow", &one]).stdout, oslo);
    let store = place.store();
    let args =
        ["run", &one, "--task", "Oslo", "--store", &store, "--run-id", "w", "--tag", "of=test"];
    assert_eq!(done(&args).stdout, oslo);
    assert!(failure(&args).contains("there is a run `w` in this store"));
    assert_eq!(place.status("w"), json!("success"));
    let several = write(
        &place,
        "several.yaml",
        &text.replace("{task}", "{place}").replace("{unit?}", "{unit}"),
    );
    let says = "the workflow `weather` has the inputs `place`, `unit`, and none of them is `task`; write --input '{\"name\": value}' \
                in the place of --task";
    assert_eq!(failure(&["run", &several, "--task", "Oslo"]), says);
    let several = write(&place, "named.yaml", &text.replace("{unit?}", "{unit}"));
    assert!(failure(&["run", &several, "--task", "Oslo"]).contains("`unit`"));
    let ended =
        agentwf(&["run", &several, "--input", "{\"task\": \"Oslo\", \"unit\": \"kelvin\"}"]).run();
    assert_eq!(ended.stdout, "\"12 degrees kelvin in Oslo\"\n", "{ended:#?}");
    assert_eq!(failure(&["run", "no/such.yaml", "--task", "x"]), "there is no file `no/such.yaml`");
    assert!(failure(&["run", "no_such", "--task", "x"]).contains("no_such"));
    let wrong = write(&place, "wrong.yaml", &text.replace("tool: get", "tol: get"));
    let ended = agentwf(&["run", &wrong, "--task", "Oslo"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    assert!(ended.stderr.contains(&format!("--> {wrong}:4:5")), "{ended:#?}");
    // Every command reports the diagnostics of `validate`.
    let wrong =
        write(&place, "unknown.yaml", &text.replace("tool: get_weather", "tool: get_wether"));
    let says = format!("did you mean `get_weather`?\n --> {wrong}:4:11\n");
    for args in [
        &["run", &wrong, "--task", "Oslo"][..],
        &["run", &wrong, "--input", "{\"task\": \"Oslo\"}"],
        &["show", "weather", "--document", &wrong],
        &["dry-run", "weather", "--document", &wrong],
        &["show", &wrong],
    ] {
        let ended = agentwf(args).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
        assert!(
            ended.stderr.contains(&says) && ended.stderr.matches("error").count() == 1,
            "{ended:#?}"
        );
    }
    // Options for agents are refused for workflows, and vice versa.
    let model = ["--model", "parrot/grey"];
    for wrong in [
        &["run"][..],
        &["run", "--task", "x"],
        &["run", model[0], model[1]],
        &["run", "quick", model[0], model[1], "--task", "x"],
        &["run", "quick", "--tools", "add"],
        &["run", "quick", "--instruct", "Be brief."],
        &["run", "quick", "--max-steps", "2"],
        &["run", "quick", "--workflow", "quick"],
        &["run", "quick", "--task", "x", "--input", "{}"],
        &["run", model[0], model[1], "--task", "x", "--document", &weather],
        &["run", model[0], model[1], "--task", "x", "--store", &store],
        &["run", model[0], model[1], "--task", "x", "--input", "{}"],
    ] {
        let ended = agentwf(wrong).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{wrong:?}: {ended:#?}");
    }
}

#[test]
fn the_settings_of_a_file_and_the_environment_apply_to_commands() {
    let place = Place::new();
    fs::create_dir(place.path("flows")).unwrap();
    write(&place, "flows/sum.yaml", SUM);
    write(
        &place,
        "flows/wrong.yaml",
        &SUM.replace("sum_up", "wrong").replace("tool: add", "tool: ad"),
    );
    let file = write(&place, "agentflow.yaml", "documents: [flows]\nstore: runs.db\n");
    // The invalid document is reported, and the others are available.
    let ended = agentwf(&["list", "--config", &file]).run();
    assert!(
        ended.stdout.contains("sum_up(") && ended.stderr.contains("did you mean `add`?"),
        "{ended:#?}"
    );
    let run = ["run", "sum_up", "--input", "{\"a\": 1}", "--config", &file];
    let ended = agentwf(&run).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "6\n"), "{ended:#?}");
    // The run is in the configured store. An option or a variable overrides it.
    let listed = agentwf(&["runs", "list", "--config", &file]).run().stdout;
    assert_eq!(listed.matches("sum_up").count(), 1, "{listed}");
    // Run ids are unique within the configured store.
    let with_id = |command: &[&str]| {
        let options = ["sum_up", "--input", "{\"a\": 1}", "--config", &file, "--run-id", "one"];
        agentwf(&[command, &options].concat()).run()
    };
    let ended = with_id(&["run"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "6\n"), "{ended:#?}");
    let again = with_id(&["workflow", "run"]);
    assert!(
        again.code == Some(1) && again.stderr.contains("there is a run `one` in this store"),
        "{again:#?}"
    );
    let listed = agentwf(&["runs", "list", "--config", &file]).run().stdout;
    assert_eq!(
        (listed.matches("sum_up").count(), listed.matches("one ").count()),
        (2, 1),
        "{listed}"
    );
    let listed =
        agentwf(&["runs", "list", "--config", &file, "--store", &place.path("none.db")]).run();
    assert!(
        listed.code == Some(1) && listed.stderr.contains("there is no store file"),
        "{listed:#?}"
    );
    let other = place.path("other.db");
    let ended = agentwf(&["runs", "list"])
        .env("AGENTFLOW_CONFIG", &file)
        .env("AGENTFLOW_STORE", &other)
        .run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
    // Logs are shown only with an option or a variable.
    let quiet = agentwf(&["list", "--config", &file]).run();
    assert!(!quiet.stderr.contains("WARN"), "{quiet:#?}");
    for ended in [
        agentwf(&["list", "-v", "--config", &file]).run(),
        agentwf(&["list", "--config", &file]).env("RUST_LOG", "agentflow=warn").run(),
    ] {
        assert!(
            ended.stderr.contains("WARN") && ended.stderr.contains("its former version stays"),
            "{ended:#?}"
        );
    }
    let json = agentwf(&["list", "-v", "--log-format", "json", "--config", &file]).run();
    assert!(json.stderr.contains("\"level\":\"WARN\""), "{json:#?}");
    let wrong = agentwf(&["list"]).env("RUST_LOG", "agentflow=loud").run();
    assert!(
        wrong.code == Some(1) && wrong.stderr.contains("RUST_LOG is not a list of levels"),
        "{wrong:#?}"
    );
    let missing = agentwf(&["list", "--config", &place.path("no.yaml")]).run();
    assert!(missing.code == Some(1) && missing.stderr.contains("no.yaml"), "{missing:#?}");
    assert!(missing.stderr.starts_with("error: the file cannot be read: "), "{missing:#?}");
    let misspelt =
        agentwf(&["list", "--config", &write(&place, "misspelt.yaml", "stor: runs.db\n")]).run();
    assert!(
        misspelt.stderr.starts_with("error: unknown field `stor`; did you mean `store`?\n"),
        "{misspelt:#?}"
    );
}

/// The printed command names the configured store like one given as an option.
#[test]
fn a_question_is_shown_with_the_command_that_answers_it() {
    let place = Place::new();
    let text =
        "name: asks\ntopology: {value: 1, policy: {approve: 'go on?', approve_timeout_ms: 50}}\n";
    let document = write(&place, "asks.yaml", text);
    let file = write(&place, "agentflow.yaml", "store: runs.db\n");
    let store = place.path("other.db");
    for (option, end) in
        [(["--config", &file], String::new()), (["--store", &store], format!(" --store {store}"))]
    {
        let ended =
            agentwf(&["run", &document, "--input", "{\"input\": 1}", option[0], option[1]]).run();
        assert!(ended.stderr.contains("value asks: go on?"), "{ended:#?}");
        let answer =
            ended.stderr.lines().find(|line| line.starts_with("  answer with: runs approve "));
        assert!(answer.is_some_and(|line| line.ends_with(&format!(" value{end}"))), "{ended:#?}");
    }
}

/// Requirements of the host, from a file and from the environment.
#[test]
fn health_says_what_is_missing() {
    let place = Place::new();
    let flows = place.path("flows");
    fs::create_dir(&flows).unwrap();
    let well = "configuration: well\nstore: well\ntoolsets: well\ndocuments: well\nnames: well\nmodels: well\n";
    let file = write(&place, "agentflow.yaml", "documents: [flows]\n");
    let with_file = |args: &[&str]| agentwf(args).env("AGENTFLOW_CONFIG", &file).run();
    let ended = with_file(&["health"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), well), "{ended:#?}");
    write(&place, "flows/sum.yaml", SUM);
    assert_eq!(with_file(&["health"]).code, Some(0));
    write(
        &place,
        "flows/sum.yaml",
        &SUM.replace(
            "tool: add\n    args_template: {a: \"{first}\"",
            "tool: ad\n    args_template: {a: \"{first}\"",
        ),
    );
    let ended = with_file(&["health"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stdout.contains("documents: error: ") && ended.stdout.contains("did you mean `add`?"),
        "{ended:#?}"
    );
    let ended = with_file(&["health", "--json"]);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (ended.code, &said["store"]),
        (Some(1), &json!({"well": true, "problem": null})),
        "{ended:#?}"
    );
    assert_eq!(said["documents"]["well"], json!(false));
    // A variable overrides the field of the file.
    let ended = agentwf(&["health"]).env("AGENTFLOW_DOCUMENTS", &place.path("none")).run();
    assert!(ended.code == Some(1) && ended.stdout.contains("documents: the folder"), "{ended:#?}");
    let ended =
        agentwf(&["health"]).env("AGENTFLOW_MAX_NESTING", "deep").env("AGENTFLOW_MODEL", "").run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    assert!(
        ended.stderr.contains("`AGENTFLOW_MAX_NESTING`: `deep` is not a whole number"),
        "{ended:#?}"
    );
    write(&place, "agentflow.yaml", "document: [flows]\n");
    let ended = with_file(&["health"]);
    assert!(
        ended.stderr.contains("agentflow.yaml:1:1")
            && ended.stderr.contains("did you mean `documents`?"),
        "{ended:#?}"
    );
}

/// The question of a document is printed. A denial is a decision, not a failure that is retried.
#[test]
fn a_gate_is_shown_and_its_denial_is_a_decision() {
    let place = Place::new();
    let gate =
        "{gate: 'Transfer {input.amount}?', policy: {approve_timeout_ms: 20, on_timeout: deny}}";
    let text = format!(
        "name: transfer\ntopology:\n  sequence:\n    - {gate}\n    - value: 'sent {{input}}'\n"
    );
    let file = write(&place, "transfer.yaml", &text);
    let shown = done(&["workflow", "show", "transfer", "--document", &file]).stdout;
    assert!(shown.contains("  gate     gate <- input: "), "{shown}");
    assert!(shown.contains("asks: Transfer {input.amount}?\n"), "{shown}");
    let mermaid =
        done(&["workflow", "show", "transfer", "--document", &file, "--format", "mermaid"]).stdout;
    assert!(mermaid.contains("{{\"gate<br/>asks: Transfer {input.amount}?\"}}"), "{mermaid}");
    let store = place.store();
    let input = "{\"input\": {\"amount\": 5}}";
    let run =
        ["workflow", "run", "transfer", "--document", &file, "--input", input, "--store", &store];
    let ended = agentwf(&run).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("approval denied"), "{ended:#?}");
    assert!(
        ended.stderr.contains("a person has denied it") && !ended.stderr.contains("runs retry"),
        "{ended:#?}"
    );
    write(&place, "transfer.yaml", &text.replace("policy:", "otherwise: {value: kept}, policy:"));
    assert_eq!(done(&run).stdout, "\"sent kept\"\n");
}

/// Each agent belongs to its document, in `validate` and in all other commands.
#[test]
fn two_documents_have_an_agent_of_one_name() {
    let place = Place::new();
    fs::create_dir(place.path("flows")).unwrap();
    for name in ["intake", "billing"] {
        let agents = "agents: [{name: reader, model: openai/gpt-5-mini, instruction: Read.}]";
        let text = format!(
            "name: {name}\n{agents}\norchestration: {{type: sequential, agents: [reader]}}\n"
        );
        write(&place, &format!("flows/{name}.yaml"), &text);
    }
    let flows = place.path("flows");
    assert_eq!(done(&["workflow", "validate", &flows]).stdout.lines().count(), 2);
    let listed = done(&["workflow", "list", "--document", &flows]).stdout;
    assert!(
        listed.contains("intake(message: string)") && listed.contains("billing(message: string)"),
        "{listed}"
    );
    let shown = done(&["workflow", "show", "billing", "--document", &flows]).stdout;
    assert!(shown.contains("reader (agent)"), "{shown}");
}
