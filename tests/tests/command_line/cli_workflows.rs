//! Workflows and their runs on the command line: showing, running and controlling them, at rest and
//! while another process executes them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout};
use std::time::Duration;

use agentflow_testing::wait_until;
use agentflow_tests::{Agentwf, Ended, interrupt, lines_of};
use serde_json::{Value, json};

pub(crate) fn agentwf(args: &[&str]) -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host")).args(args)
}

pub(crate) fn ended(args: &[&str]) -> Ended {
    agentwf(args).env("USER", "ada").run()
}

/// Runs a command that must succeed.
pub(crate) fn done(args: &[&str]) -> Ended {
    let ended = ended(args);
    assert_eq!(ended.code, Some(0), "{args:?}: {ended:#?}");
    ended
}

/// Runs a command that must fail, and returns its error message.
pub(crate) fn failure(args: &[&str]) -> String {
    let ended = ended(args);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{args:?}: {ended:#?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
    let last = ended.stderr.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or_else(|| panic!("{args:?}: {ended:#?}")).to_owned()
}

/// A folder with a store, and a file that runs may wait for.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn store(&self) -> String {
        self.path("runs.db")
    }

    /// Returns the input of a workflow that waits for the file.
    fn input(&self) -> String {
        json!({"file": self.path("flag")}).to_string()
    }

    pub(crate) fn raise(&self) {
        fs::write(PathBuf::from(self.path("flag")), "").unwrap();
    }

    /// Builds the arguments of `runs` with this store. `command` starts with the subcommand.
    fn args<'a>(store: &'a str, command: &[&'a str]) -> Vec<&'a str> {
        [&["runs"][..], command, &["--store", store]].concat()
    }

    pub(crate) fn runs(&self, command: &[&str]) -> Ended {
        done(&Self::args(&self.store(), command))
    }

    pub(crate) fn wrong(&self, command: &[&str]) -> String {
        failure(&Self::args(&self.store(), command))
    }

    /// Builds the `workflow run` command.
    fn run(&self, workflow: &str, id: &str, input: &str) -> Agentwf {
        let store = self.store();
        agentwf(&["workflow", "run", workflow, "--run-id", id, "--input", input, "--store", &store])
    }

    pub(crate) fn status(&self, id: &str) -> Value {
        self.runs(&["show", id, "--json"]).line()["run"]["status"].take()
    }

    fn events(&self, id: &str) -> Vec<Value> {
        self.runs(&["events", id, "--json"]).lines()
    }
}

/// A run in another process, which is killed when this value is dropped.
pub(crate) struct Other {
    child: Child,
    said: Box<dyn Iterator<Item = String>>,
    out: BufReader<ChildStdout>,
    seen: Vec<String>,
}

impl Other {
    pub(crate) fn start(command: Agentwf) -> Self {
        let mut child = command.start();
        let said = Box::new(lines_of(child.stderr.take().unwrap()));
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, said, out, seen: Vec::new() }
    }

    /// Reads standard error until a line contains these words.
    pub(crate) fn wait_for(&mut self, words: &str) {
        for line in self.said.by_ref() {
            let found = line.contains(words);
            self.seen.push(line);
            if found {
                return;
            }
        }
        panic!("it ended without `{words}`: {:#?}", self.seen);
    }

    /// Kills the process like `kill -9`.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end. Returns the exit code, the output, and all lines of standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        self.seen.extend(self.said.by_ref());
        let stdout = std::io::read_to_string(&mut self.out).unwrap();
        let status = wait_until("the process to end", || self.child.try_wait().unwrap());
        (status.code(), stdout, self.seen.join("\n"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["name"].as_str().unwrap()).collect()
}

#[test]
fn workflows_are_listed_by_name() {
    let list = done(&["workflow", "list"]);
    let heads: Vec<&str> = list.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        heads,
        [
            "annulled(name: String)",
            "deal(file: String)",
            "needs_file(file: String)",
            "price(article: String)",
            "publish(text: String)",
            "quick(word: String, times: u8)",
            "slow(file: String)",
            "slow_delivery(file: String)"
        ]
    );
    assert!(list.stdout.contains("\n    Says a word several times.\n"), "{list:#?}");
    let list = done(&["workflow", "list", "--json"]).line();
    assert_eq!((list.as_array().unwrap().len(), &list[5]["name"]), (8, &json!("quick")));
}

#[test]
fn a_workflow_is_shown_in_every_format() {
    let outline = done(&["workflow", "show", "publish"]).stdout;
    for line in [
        "  input    text: String\n",
        "  gate     approval <- loud: Approval\n",
        "= match approval <- approval",
    ] {
        assert!(outline.contains(line), "{line}: {outline}");
    }
    let tool = done(&["workflow", "show", "slow"]).stdout;
    assert!(tool.contains("  step     there = await_file (tool) <- file: String\n"), "{tool}");
    let mermaid = done(&["workflow", "show", "publish", "--format", "mermaid"]).stdout;
    assert!(
        mermaid.starts_with("flowchart TD\n") && mermaid.contains("-->|\"Denied\"|"),
        "{mermaid}"
    );
    let dot = done(&["workflow", "show", "publish", "--format", "dot"]).stdout;
    assert!(dot.starts_with("digraph \"publish\" {\n") && dot.ends_with("}\n"), "{dot}");
    let svg = done(&["workflow", "show", "publish", "--format", "svg"]).stdout;
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("data-node=\"approval\"") && svg.contains(">Denied</text>"), "{svg}");
    let dry = done(&["workflow", "show", "publish", "--format", "dry-run"]).stdout;
    assert!(dry.starts_with("workflow publish(text: string) -> string\n  stage 1\n"), "{dry}");
    assert!(
        dry.contains("    asks a person: ")
            && dry.contains("    runs when `said` takes `Granted`\n"),
        "{dry}"
    );
    let graph = done(&["workflow", "show", "publish", "--format", "json"]).line();
    assert_eq!(graph["nodes"][0]["name"], "text");
    assert_eq!(
        failure(&["workflow", "show", "publisch"]),
        "this program has no workflow `publisch`; did you mean `publish`?"
    );
    assert_eq!(ended(&["workflow", "show", "publish", "--format", "png"]).code, Some(2));
}

#[test]
fn a_run_in_memory_prints_its_output_and_says_how_it_gets_on() {
    let run = done(&["workflow", "run", "quick", "--input", r#"{"word": "a", "times": 2}"#]);
    assert_eq!(run.stdout, "\"A-A\"\n");
    for line in ["loud started\n", "parts[1] done ", "parts done "] {
        assert!(run.stderr.contains(line), "{line}: {run:#?}");
    }
    assert!(!run.stderr.contains('\u{1b}'), "{run:#?}");
    let run = done(&[
        "workflow",
        "run",
        "quick",
        "--input",
        r#"{"word": "a", "times": 0}"#,
        "--events",
        "jsonl",
    ]);
    let events = run.lines();
    assert_eq!((events[0]["name"].as_str(), run.stderr.as_str()), (Some("run.started"), ""));
    assert_eq!(names(&events).last(), Some(&"run.completed"));
}

#[test]
fn a_wrong_input_is_reported() {
    let of_quick = "the input does not fit the workflow `quick`: ";
    for (input, said) in [
        (r#"{"word": "a", "time": 2}"#, "there is no input `time`; did you mean `times`?"),
        (
            r#"{"word": "a", "times": 2, "colour": "red"}"#,
            "there is no input `colour`; the inputs are `word`, `times`",
        ),
        (r#"{"word": "a"}"#, "the input `times` is missing"),
        (r#"["a", 2]"#, "write a JSON object with `word`, `times`"),
    ] {
        assert_eq!(
            failure(&["workflow", "run", "quick", "--input", input]),
            format!("{of_quick}{said}"),
            "{input}"
        );
    }
    let wrong_type =
        failure(&["workflow", "run", "quick", "--input", r#"{"word": "a", "times": "2"}"#]);
    assert!(
        wrong_type.contains("the input `times` does not fit") && wrong_type.contains("expected u8"),
        "{wrong_type}"
    );
    let no_json = failure(&["workflow", "run", "quick", "--input", "word=a"]);
    assert!(
        no_json.starts_with("the input is not JSON: ") && no_json.contains("write --input '{"),
        "{no_json}"
    );
    assert_eq!(
        failure(&["workflow", "run", "quick"]),
        format!("{of_quick}the input `word` is missing")
    );
    let unknown = failure(&["workflow", "run", "quik"]);
    assert_eq!(unknown, "this program has no workflow `quik`; did you mean `quick`?");
    let no_store = "error: --run-id needs a store that keeps the run; name one with --store, or in the field `store` of the \
                    configuration\n";
    for args in [&["workflow", "run", "quick"][..], &["run", "quick"]] {
        let ended =
            ended(&[args, &["--run-id", "a", "--input", r#"{"word": "a", "times": 2}"#]].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), no_store), "{args:?}");
    }
}

#[test]
fn a_question_that_nobody_can_answer_ends_the_run() {
    let said = failure(&["workflow", "run", "publish", "--input", r#"{"text": "a"}"#]);
    assert_eq!(
        said,
        "the run was cancelled: the question `approval` cannot be answered in a run that is not stored; add --store"
    );
}

/// A question is printed as a single line, even if its text contains control characters.
#[test]
fn a_question_cannot_be_redrawn() {
    let text = "x?\r\n\u{1b}[1A\u{1b}[2Kapproval asks: nothing\u{202e}";
    let input = json!({"text": text}).to_string();
    let run = ended(&["workflow", "run", "publish", "--input", &input]);
    let shown = r"approval asks: publish X?\r\n\u{1b}[1A\u{1b}[2KAPPROVAL ASKS: NOTHING\u{202e}? ";
    assert!(run.stderr.lines().any(|line| line.starts_with(shown)), "{run:#?}");
    assert!(!run.stderr.contains(['\u{1b}', '\r', '\u{202e}']), "{run:#?}");

    let place = Place::new();
    let failed = place.run("needs_file", "a", &json!({"file": text}).to_string()).run();
    assert!(
        failed.stderr.contains(r"\u{1b}[1A") && !failed.stderr.contains('\u{1b}'),
        "{failed:#?}"
    );
    for command in [
        &["show", "a"][..],
        &["list"],
        &["events", "a"],
        &["events", "a", "--json"],
        &["show", "a", "--json"],
    ] {
        let said = place.runs(command).stdout;
        assert!(!said.contains(['\u{1b}', '\r', '\u{202e}']), "{command:?}: {said}");
    }
}

/// An unreadable run is listed as such and does not affect the others.
#[test]
fn a_list_names_the_runs_that_cannot_be_read() {
    let place = Place::new();
    let input = r#"{"word": "a", "times": 1}"#;
    for run in ["a", "b"] {
        assert_eq!(place.run("quick", run, input).run().code, Some(0));
    }
    let damage = "UPDATE runs SET status = 'delighted' WHERE run_id = 'a'";
    rusqlite::Connection::open(place.store()).unwrap().execute_batch(damage).unwrap();
    let listed = place.runs(&["list"]);
    assert!(listed.stdout.starts_with("b ") && listed.stdout.lines().count() == 1, "{listed:#?}");
    assert!(
        listed.stderr.contains("a cannot be read: ") && listed.stderr.contains("`delighted`"),
        "{listed:#?}"
    );
}

#[test]
fn a_stored_run_is_listed_shown_and_told() {
    let place = Place::new();
    let input = r#"{"word": "a", "times": 1}"#;
    assert_eq!(place.run("quick", "a", input).run().stdout, "\"A\"\n");
    assert_eq!(place.run("quick", "b", input).run().code, Some(0));
    assert_eq!(
        place.run("quick", "a", input).run().stderr,
        "error: there is a run `a` in this store; start under another id, or resume it\n"
    );
    assert_eq!(place.runs(&["list"]).stdout, "b  success   quick\na  success   quick\n");
    assert_eq!(place.runs(&["list", "--limit", "1", "--json"]).line()[0]["run_id"], "b");
    assert_eq!(place.runs(&["list", "--status", "failed"]).stderr, "no runs\n");
    assert_eq!(place.runs(&["list", "--name", "publish"]).stdout, "");
    let show = place.runs(&["show", "a"]).stdout;
    assert!(
        show.starts_with("a  success  quick, ") && show.contains("  success           parts[0]"),
        "{show}"
    );
    let events = place.runs(&["events", "a", "--follow"]).stdout;
    assert!(events.lines().last().unwrap().starts_with("a run.completed"), "{events}");
    for (command, what) in [
        (&["resume", "a"][..], "resumed"),
        (&["cancel", "a"], "cancelled"),
        (&["pause", "a"], "paused"),
        (&["unpause", "a"], "unpaused"),
        (&["retry", "a", "loud"], "retried"),
        (&["approve", "a", "loud"], "answered"),
    ] {
        assert_eq!(
            place.wrong(command),
            format!("the run cannot be {what}: it is over (success)"),
            "{command:?}"
        );
        let unknown = [&[command[0], "c"], &command[2..]].concat();
        assert_eq!(place.wrong(&unknown), "there is no run `c` in this store");
    }
    let nowhere = failure(&["runs", "list", "--store", &place.path("nowhere.db")]);
    assert!(
        nowhere.starts_with("there is no store file `")
            && nowhere.ends_with("name one with --store"),
        "{nowhere}"
    );
}

#[test]
fn runs_are_deleted_one_by_one_and_when_they_are_old() {
    let place = Place::new();
    let input = r#"{"word": "a", "times": 1}"#;
    for id in ["a", "b", "c"] {
        assert_eq!(place.run("quick", id, input).run().code, Some(0));
    }
    assert_eq!(place.run("needs_file", "d", &place.input()).run().code, Some(1));
    assert_eq!(place.runs(&["delete", "a"]).stderr, "deleted\n");
    assert_eq!(place.wrong(&["delete", "a"]), "there is no run `a` in this store");
    let mut waits = Other::start(place.run("publish", "e", r#"{"text": "news"}"#));
    waits.wait_for("paused: approval");
    waits.kill();
    assert!(place.wrong(&["delete", "e"]).contains("cancel it first"));
    let of_name = ["purge", "--older-than", "1ms", "--name", "needs_file", "--dry-run"];
    let dry = place.runs(&of_name);
    assert_eq!((&*dry.stdout, &*dry.stderr), ("d  failed    needs_file\n", "1 would be deleted\n"));
    let none = place.runs(&["purge", "--older-than", "1h"]);
    assert_eq!((&*none.stdout, &*none.stderr), ("", "0 deleted\n"));
    let purged = place.runs(&["purge", "--older-than", "1ms"]);
    assert_eq!(purged.stdout, "d  failed    needs_file\nc  success   quick\nb  success   quick\n");
    assert_eq!(purged.stderr, "3 deleted\n");
    // A run that waits for a person is kept, regardless of its age.
    assert_eq!(place.runs(&["list", "--json"]).line().as_array().unwrap().len(), 1);
    let wrong = ended(&Place::args(&place.store(), &["purge", "--older-than", "soon"]));
    assert!(
        wrong.code == Some(2) && wrong.stderr.contains("write a number with its unit"),
        "{wrong:#?}"
    );
}

#[test]
fn a_failed_node_is_retried() {
    let place = Place::new();
    let run = place.run("needs_file", "a", &place.input()).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:#?}");
    assert!(run.stderr.contains("see: runs show a --store"), "{run:#?}");
    let show = place.runs(&["show", "a"]).stdout;
    assert!(show.contains("  failed            found") && show.contains("there is no "), "{show}");
    assert_eq!(
        place.wrong(&["resume", "a"]),
        "the run cannot be resumed: it is failed; retry the node that failed first"
    );
    assert_eq!(
        place.wrong(&["retry", "a", "foun"]),
        "the run has no node `foun` that has begun, asks or was skipped; did you mean `found`?"
    );
    assert_eq!(
        place.wrong(&["retry", "a", "before"]),
        "the node `before` cannot be retried: it is done; only a failed or interrupted one can"
    );
    // The run is resumed and fails again.
    assert!(
        place.wrong(&["retry", "a", "found"]).contains("the step `found` failed: there is no ")
    );
    place.raise();
    let retried = place.runs(&["retry", "a", "found"]);
    assert_eq!(retried.stdout, "\"FOUND\"\n");
    assert!(
        retried.stderr.contains("found started, attempt 3") && !retried.stderr.contains("before"),
        "{retried:#?}"
    );
    let reset =
        place.events("a").into_iter().find(|event| event["name"] == "workflow.node.reset").unwrap();
    assert_eq!(reset["payload"]["by"], "ada");
}

/// Simulates `nohup`. Ctrl-C ends the command that follows a run, but not the run.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_following_where_the_parent_ignores_it() {
    let place = Place::new();
    let mut run = Other::start(place.run("publish", "a", r#"{"text": "a"}"#));
    run.wait_for("paused: approval");
    let shell = Agentwf::new("sh").args([
        "-c",
        "trap '' INT; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_agentwf-host"),
    ]);
    let mut follows = shell.args(Place::args(&place.store(), &["events", "a", "--follow"])).start();
    let mut lines = BufReader::new(follows.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("run.paused")), "it ended");
    drop(lines);
    interrupt(follows.id());
    let ended = Ended::of(follows, Duration::from_secs(10), "following a run that was stopped");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(130), "stopped by Ctrl-C\n"));
    assert_eq!(place.status("a"), "paused");
    run.kill();
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_stored_run_that_is_paused_answered_and_resumed() {
    let place = Place::new();
    let mut run = Other::start(place.run("publish", "a", r#"{"text": "a"}"#));
    run.wait_for("paused: approval");
    interrupt(run.child.id());
    let (code, stdout, said) = run.end();
    assert_eq!((code, stdout.as_str()), (Some(130), ""), "{said}");
    assert!(
        said.contains(
            "approval asks: publish A? \"A\"\n  answer with: runs approve a approval --store "
        ),
        "{said}"
    );
    assert!(
        said.ends_with(&format!("stopped; continue with: runs resume a --store {}", place.store())),
        "{said}"
    );

    let show = place.runs(&["show", "a"]).stdout;
    for line in [
        "  paused: approval\n",
        "loud  is not run again",
        "approval  waits for the answer",
        "asks: publish A?",
        "about: \"A\"",
    ] {
        assert!(show.contains(line), "{line}: {show}");
    }
    assert_eq!(place.runs(&["pause", "a"]).stderr, "paused\n");
    assert_eq!(place.wrong(&["pause", "a"]), "the run cannot be paused: it is paused already");
    assert_eq!(
        place.wrong(&["approve", "a", "loud"]),
        "the node `loud` waits for no answer: it is done"
    );
    let other_type = place.wrong(&["approve", "a", "approval", "--answer", "3"]);
    assert!(
        other_type.starts_with("the answer does not fit what `approval` asks for: "),
        "{other_type}"
    );
    let no_json = place.wrong(&["approve", "a", "approval", "--answer", "x"]);
    assert!(no_json.starts_with("the answer is not JSON: "), "{no_json}");
    let shown = place.runs(&["questions"]).stdout;
    let asked = place.runs(&["questions", "--name", "publish", "--json"]).line();
    assert_eq!((&asked[0]["path"], &asked[0]["about"]), (&json!("approval"), &json!("A")));
    let question = asked[0]["id"].as_str().unwrap();
    assert!(shown.starts_with(&format!("a {question}  publish A? (since ")), "{shown}");
    let unknown = place.wrong(&["approve", "a", "nosuch"]);
    assert!(
        unknown.ends_with("that has begun, asks or was skipped; open questions: `approval`"),
        "{unknown}"
    );
    let there =
        agentwf(&["runs", "questions", "--store", &place.store()]).env("TZ", "UTC-5").run().stdout;
    let since = there.split("(since ").nth(1).unwrap();
    assert!(since.starts_with("20") && since.ends_with(" +05:00)\n"), "{there}");
    let older = place.wrong(&["approve", "a", "approval@00000000"]);
    assert!(
        older.contains("`approval@00000000` is not open any more") && older.contains(question),
        "{older}"
    );
    let changed = place.wrong(&["approve", "a", "approval", "--arguments", "{}"]);
    assert!(
        changed.contains("only the question about the call of a tool takes `arguments`"),
        "{changed}"
    );
    place.runs(&["approve", "a", question, "--deny", "--comment", "not on a friday"]);
    assert_eq!(place.runs(&["questions"]).stderr, "nobody is asked\n");
    assert_eq!(
        place.wrong(&["approve", "a", "approval"]),
        "the node `approval` waits for no answer: it is done"
    );
    assert_eq!(place.runs(&["unpause", "a"]).stderr, "no longer paused\n");
    assert_eq!(
        place.wrong(&["unpause", "a"]),
        "the run cannot be unpaused: it is running, not paused"
    );
    let resumed = place.runs(&["resume", "a"]);
    assert_eq!(resumed.stdout, "\"NOT ON A FRIDAY\"\n", "{resumed:#?}");
    assert!(!resumed.stderr.contains("loud"), "{resumed:#?}");
}

#[test]
fn another_process_answers_a_typed_question() {
    let place = Place::new();
    let mut run = Other::start(place.run("price", "a", r#"{"article": "lamp"}"#));
    run.wait_for("answer with: runs approve a cents --store ");
    let wrong = place.wrong(&["approve", "a", "cents"]);
    assert!(wrong.starts_with("the answer does not fit what `cents` asks for: "), "{wrong}");
    assert!(
        place.wrong(&["approve", "a", "cent", "--answer", "7"]).ends_with("did you mean `cents`?")
    );
    place.runs(&["approve", "a", "cents", "--answer", "7", "--by", "bo"]);
    let (code, stdout, said) = run.end();
    assert_eq!((code, stdout.as_str()), (Some(0), "14\n"), "{said}");
    assert!(said.contains("cents answered by bo: 7"), "{said}");
}

#[test]
fn another_process_pauses_and_cancels() {
    let place = Place::new();
    let mut run = Other::start(place.run("slow", "a", &place.input()));
    run.wait_for("waiting for ");
    let mut follower =
        Other::start(agentwf(&Place::args(&place.store(), &["events", "a", "--follow"])));
    let busy = place.wrong(&["resume", "a"]);
    assert!(busy.contains(&format!("process {}", run.child.id())), "{busy}");
    assert_eq!(
        place.wrong(&["unpause", "a"]),
        "the run cannot be unpaused: it is running, not paused"
    );
    assert_eq!(
        place.wrong(&["retry", "a", "there"]),
        "the node `there` cannot be retried: it is running; only a failed or interrupted one can"
    );
    place.runs(&["pause", "a"]);
    run.wait_for("paused: operator");
    assert_eq!(place.status("a"), "paused");
    // The running steps end, and the next step does not start.
    place.raise();
    run.wait_for("there done");
    place.runs(&["unpause", "a"]);
    run.wait_for("continues");
    let (code, stdout, said) = run.end();
    assert_eq!((code, stdout.as_str()), (Some(0), "\"THERE\"\n"), "{said}");
    assert!(said.find("continues").unwrap() < said.find("last started").unwrap(), "{said}");
    let mut lines = String::new();
    while follower.out.read_line(&mut lines).unwrap() > 0 {}
    assert!(lines.contains("\na run.paused") && lines.contains("\na run.completed"), "{lines}");

    let other = Place::new();
    let mut run = Other::start(other.run("slow", "b", &other.input()));
    run.wait_for("waiting for ");
    other.runs(&["cancel", "b", "--reason", "not needed"]);
    let (code, _, said) = run.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.ends_with("error: the run was cancelled: not needed"), "{said}");
    assert_eq!(
        other.wrong(&["cancel", "b"]),
        "the run cannot be cancelled: it is over (cancelled)"
    );
}

#[test]
fn after_a_kill_it_is_said_what_would_run_again_and_why() {
    let place = Place::new();
    let mut run = Other::start(place.run("slow_delivery", "a", &place.input()));
    run.wait_for("waiting for ");
    run.wait_for("waiting for ");
    run.kill();
    let show = place.runs(&["show", "a"]).stdout;
    for line in [
        "  running           there  runs again: it was interrupted\n",
        "  running           delivered  waits for a decision: it was interrupted and may have had its effect\n",
    ] {
        assert!(show.contains(line), "{line}: {show}");
    }
    assert_eq!(place.status("a"), "running");
    place.raise();
    let mut run = Other::start(agentwf(&Place::args(&place.store(), &["resume", "a"])));
    run.wait_for("paused: interrupted");
    assert_eq!(
        place.wrong(&["unpause", "a"]),
        "the run cannot be unpaused: it is waiting for a decision on an interrupted step; retry the step, or cancel the run"
    );
    place.runs(&["retry", "a", "delivered"]);
    let (code, stdout, said) = run.end();
    assert_eq!((code, stdout.as_str()), (Some(0), "\"there there\"\n"), "{said}");
    let begun = |path: &str| {
        let of = |event: &&Value| event["name"] == "workflow.node.started" && event["path"] == path;
        place.events("a").iter().filter(of).count()
    };
    assert_eq!((begun("there"), begun("delivered")), (2, 2));
}

#[test]
fn a_run_at_rest_is_cancelled() {
    let place = Place::new();
    let mut run = Other::start(place.run("slow", "a", &place.input()));
    run.wait_for("waiting for ");
    run.kill();
    assert_eq!(place.runs(&["cancel", "a"]).stderr, "cancelled\n");
    assert_eq!(place.status("a"), "cancelled");
    let events = place.events("a");
    assert_eq!(
        names(&events)[events.len() - 2..],
        ["workflow.node.failed", "run.cancelled"],
        "{events:#?}"
    );
    assert_eq!(place.wrong(&["resume", "a"]), "the run cannot be resumed: it is over (cancelled)");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_in_memory() {
    let place = Place::new();
    let mut run = Other::start(agentwf(&["workflow", "run", "slow", "--input", &place.input()]));
    run.wait_for("waiting for ");
    interrupt(run.child.id());
    let (code, stdout, said) = run.end();
    assert_eq!((code, stdout.as_str()), (Some(130), ""), "{said}");
    assert!(said.contains("stopped by Ctrl-C"), "{said}");
}

#[test]
fn a_reader_that_goes_leaves_a_stored_run() {
    let place = Place::new();
    let store = place.store();
    let input = place.input();
    let args = [
        "workflow", "run", "slow", "--run-id", "a", "--input", &input, "--store", &store,
        "--events", "jsonl",
    ];
    let mut child = agentwf(&args).start();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("\"path\":\"there\"") {
        assert!(out.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    drop(out);
    // Further output has no reader.
    place.runs(&["pause", "a"]);
    let ended = Ended::of(child, Duration::from_secs(10), "a run whose reader has gone");
    assert_eq!(ended.code, Some(141), "{ended:#?}");
    assert_eq!(place.status("a"), "paused");
    place.raise();
    place.runs(&["unpause", "a"]);
    assert_eq!(place.runs(&["resume", "a"]).stdout, "\"THERE\"\n");
}

#[test]
fn runs_are_found_by_their_tags_and_caller() {
    let place = Place::new();
    let input = place.input();
    for (id, caller, tenant) in [("a", "ada", "acme"), ("b", "bob", "acme"), ("c", "ada", "zeta")] {
        let tag = format!("tenant={tenant}");
        let run = place
            .run("needs_file", id, &input)
            .args(["--caller", caller, "--tag", &tag, "--tag", "job=7"])
            .run();
        assert_eq!(run.code, Some(1), "{run:#?}");
    }
    let listed = |command: &[&str]| {
        let runs = place.runs(&[&["list", "--json"], command].concat()).line();
        let ids =
            runs.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned());
        ids.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<String>()
    };
    assert_eq!(listed(&["--tag", "tenant=acme"]), "ab");
    assert_eq!(listed(&["--tag", "tenant=acme", "--tag", "job=7", "--caller", "ada"]), "a");
    assert_eq!(listed(&["--caller", "carol"]), "");
    let show = place.runs(&["show", "c"]).stdout;
    assert!(show.contains("  caller: ada\n  tag: job=7\n  tag: tenant=zeta\n"), "{show}");
    let wrong = ended(&Place::args(&place.store(), &["list", "--tag", "tenant"]));
    assert!(
        wrong.code == Some(2) && wrong.stderr.contains("write KEY=VALUE, such as tenant=acme"),
        "{wrong:#?}"
    );
    // The time limit applies to the whole run.
    let waits = place.run("slow", "d", &input).args(["--run-timeout", "200ms"]).run();
    assert!(
        waits.stderr.contains("the run took longer than its time limit of 200ms"),
        "{waits:#?}"
    );
}

#[test]
fn the_artifacts_of_a_run_are_listed_and_written_to_files() {
    let place = Place::new();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        use agentflow::store::SqliteStore;
        let store = SqliteStore::open(place.store()).await.unwrap();
        let runtime = agentflow::Runtime::builder().store(store).build();
        let saves = agentflow::Workflow::<(), u32>::build("saves", [], |b, ()| {
            b.node("step", (), |cx, ()| async move {
                cx.save_artifact("table.csv", "a,b\n", "text/csv").await?;
                cx.save_artifact("table.csv", "a,b\n1,2\n", "text/csv").await?;
                Ok::<_, agentflow::Error>(1)
            })
        });
        let run =
            runtime.start(saves.unwrap(), ()).run_id(agentflow::RunId::new("a")).await.unwrap();
        run.result().await.unwrap();
    });
    let list = place.runs(&["artifacts", "a"]).stdout;
    assert_eq!(
        list,
        "table.csv  version 1  4 bytes  text/csv\ntable.csv  version 2  8 bytes  text/csv\n"
    );
    assert_eq!(place.runs(&["artifacts", "a", "--json"]).line()[1]["version"], 2);
    let out = place.path("newest.csv");
    place.runs(&["artifacts", "a", "--name", "table.csv", "--out", &out]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "a,b\n1,2\n");
    let again = place.wrong(&["artifacts", "a", "--name", "table.csv", "--out", &out]);
    assert!(again.contains("cannot be written: "), "{again}");
    let first = place
        .runs(&["artifacts", "a", "--name", "table.csv", "--number", "1", "--out", "-"])
        .stdout;
    assert_eq!(first, "a,b\n");
    let none = place.wrong(&["artifacts", "a", "--name", "other", "--out", "-"]);
    assert_eq!(none, "the run `a` has no artifact `other`; list them with `runs artifacts a`");
}
