//! `agentwf sessions`: listing and showing sessions, branches, export as JSON, and deletion.

use std::path::Path;

use agentflow::agent::RunRequest;
use agentflow::session::{Session, SessionExport};
use agentflow::store::SqliteStore;
use agentflow::time::{Clock, SystemClock, Timestamp};
use agentflow::tool::{FnTool, ToolRef};
use agentflow::{Agent, Context, RunId, Runtime, serde_json};
use agentflow_testing::{ScriptedModel, Turn, within};
use agentflow_tests::{Agentwf, Ended};

/// A clock that is this many days behind.
#[derive(Debug)]
struct DaysAgo(u64);

impl Clock for DaysAgo {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() - self.0 * 86_400_000)
    }
}

struct Place(tempfile::TempDir);

impl Place {
    /// Creates three sessions: one of ada with a branch and a failed run, one of bob with a run
    /// that no process executes, and an old one.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(place.fill());
        place
    }

    fn store(&self) -> std::path::PathBuf {
        self.0.path().join("runs.db")
    }

    async fn fill(&self) {
        let store = SqliteStore::open(self.store()).await.unwrap();
        let model = ScriptedModel::from_fn(|request| {
            match request.messages.last().map(|last| last.text()).as_deref() {
                Some("fail") => Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
                Some("stall") => Turn::stall(),
                _ => Turn::text("Yes.\u{1b}[2J"),
            }
        });
        let runtime = Runtime::builder().store(store.clone()).clock(DaysAgo(2)).build();
        let agent = Agent::new(model).name("helper").runtime(&runtime);
        let say = async |id: &str, session: Session, text: &str| {
            let request = RunRequest::new(text).session(session).run_id(RunId::new(id));
            let _ = agent.run(request.caller(&id[..3]).tag("channel", "web")).await;
        };
        say("ada-1", "of-ada".into(), "first?").await;
        say("ada-2", "of-ada".into(), "second?\u{1b}[2J").await;
        say("ada-3", "of-ada".into(), "fail").await;
        say("ada-4", Session::from("of-ada").after(RunId::new("ada-1")), "second in another way?")
            .await;
        say("bob-1", "of-bob".into(), "hello").await;
        let stall =
            RunRequest::new("stall").session("of-bob").caller("bob").run_id(RunId::new("bob-2"));
        let run = agent.start(stall).unwrap();
        within("the run to begin", async {
            while runtime.sessions().get("of-bob").await.unwrap().unfinished.is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        drop(run);
    }

    fn sessions(&self, command: &[&str]) -> Ended {
        sessions(&self.store(), command)
    }

    /// Returns the output of a successful command.
    #[track_caller]
    fn said(&self, command: &[&str]) -> String {
        let ended = self.sessions(command);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
        ended.stdout
    }
}

fn sessions(store: &Path, command: &[&str]) -> Ended {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
        .args(["sessions"])
        .args(command)
        .args(["--store"])
        .args([store])
        .run()
}

#[test]
fn what_a_file_has_is_listed() {
    let place = Place::new();
    assert_eq!(
        place.said(&["list"]),
        "of-bob  helper of bob  2 runs, one of them unfinished\nof-ada  helper of ada  4 runs\n"
    );
    assert_eq!(place.said(&["list", "--caller", "ada"]), "of-ada  helper of ada  4 runs\n");
    assert_eq!(
        place.said(&["list", "--user", "ada", "--tag", "channel=web"]),
        place.said(&["list", "--caller", "ada"])
    );
    assert_eq!(place.said(&["list", "--limit", "1"]).lines().count(), 1);
    let none = place.sessions(&["list", "--tag", "channel=mail"]);
    assert_eq!((none.code, &*none.stdout, &*none.stderr), (Some(0), "", "no sessions\n"));
    let json = place.sessions(&["list", "--json"]).line();
    assert_eq!((&json[0]["id"], &json[1]["runs"]), (&"of-bob".into(), &4.into()));
    assert_eq!(json[1]["tags"]["channel"], "web");
}

#[test]
fn a_session_is_shown_with_its_branches() {
    let place = Place::new();
    let shown = place.said(&["show", "of-ada"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "of-ada  helper of ada  4 runs");
    assert_eq!(lines[1], "  tag: channel=web");
    assert!(lines[2].starts_with("  began "), "{shown}");
    assert_eq!(
        lines[3..],
        [
            "    1 success   ada-1  first?",
            r"    2 success   ada-2  second?\u{1b}[2J  (the end of a branch)",
            "    3 failed    ada-3  fail",
            "    4 success   ada-4 after 1  second in another way?  (the next run continues here)",
        ]
    );
    let json = place.sessions(&["show", "of-ada", "--json"]).line();
    assert_eq!(json["branches"], serde_json::json!(["ada-2", "ada-4"]));
    assert_eq!(json["session"]["head"], "ada-4");
    assert_eq!(
        (&json["runs"][3]["after"], &json["runs"][3]["asked"]),
        (&"ada-1".into(), &"second in another way?".into())
    );
}

#[test]
fn a_session_is_copied() {
    let place = Place::new();
    let exported = place.said(&["export", "of-ada"]);
    let export: SessionExport = serde_json::from_str(&exported).unwrap();
    assert_eq!((export.version, export.runs.len()), (SessionExport::VERSION, 4));
    assert_eq!(export.runs[1].messages[0].text(), "second?\u{1b}[2J");
    assert!(!exported.contains('\u{1b}'), "no control character reaches a terminal");
}

#[test]
fn what_is_deleted_is_gone_and_the_rest_stays() {
    let place = Place::new();
    let dry = place.sessions(&["delete", "of-ada", "--dry-run"]);
    assert_eq!((dry.code, &*dry.stderr), (Some(0), "would be deleted, with 4 runs\n"), "{dry:?}");
    assert_eq!(dry.stdout.lines().count(), 4);
    assert!(dry.stdout.starts_with("ada-1  success   helper\n"), "{dry:?}");
    let busy = place.sessions(&["delete", "of-bob", "--dry-run"]);
    assert!(
        busy.stderr.contains("would not be deleted: the run `bob-2` has not ended"),
        "{busy:?}"
    );
    let busy = place.sessions(&["delete", "of-bob"]);
    assert_eq!(busy.code, Some(1));
    assert!(
        busy.stderr.contains("error: the run `bob-2` of the session `of-bob` has not ended"),
        "{busy:?}"
    );
    let done = place.sessions(&["delete", "of-ada"]);
    assert_eq!((done.code, &*done.stderr), (Some(0), "deleted, with 4 runs\n"));
    for gone in [["show", "of-ada"], ["export", "of-ada"], ["delete", "of-ada"]] {
        let gone = place.sessions(&gone);
        assert_eq!(gone.code, Some(1));
        assert!(
            gone.stderr.contains("error: there is no session `of-ada` in this store"),
            "{gone:?}"
        );
    }
    assert!(place.said(&["list"]).starts_with("of-bob "));
}

#[test]
fn what_nobody_continued_expires() {
    let place = Place::new();
    let none = place.sessions(&["expire", "--idle", "3d"]);
    assert_eq!((none.code, &*none.stdout, &*none.stderr), (Some(0), "", "0 deleted\n"));
    let dry = place.sessions(&["expire", "--idle", "1d", "--dry-run"]);
    // The other session has an unfinished run.
    assert_eq!(
        (&*dry.stdout, &*dry.stderr),
        ("of-ada  helper of ada  4 runs\n", "1 would be deleted\n")
    );
    assert_eq!(place.said(&["list"]).lines().count(), 2);
    let done = place.sessions(&["expire", "--idle", "1d"]);
    assert_eq!((&*done.stdout, &*done.stderr), ("of-ada  helper of ada  4 runs\n", "1 deleted\n"));
    assert!(place.said(&["list"]).starts_with("of-bob "));
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = sessions(&folder.path().join("nowhere.db"), &["list"]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.stderr.contains("name one with --store"), "{nowhere:?}");
    assert!(!folder.path().join("nowhere.db").exists(), "looking makes no file");
    for wrong in
        [&["expire"][..], &["expire", "--idle", "soon"], &["show"], &["list", "--tag", "web"], &[]]
    {
        assert_eq!(sessions(&folder.path().join("nowhere.db"), wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn the_artifacts_of_a_session_are_listed_and_written_to_files() {
    let place = Place(tempfile::tempdir().unwrap());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let store = SqliteStore::open(place.store()).await.unwrap();
        let runtime = Runtime::builder().store(store).build();
        let save = FnTool::new("save", "Save.", |cx: Context, (): ()| async move {
            let before = cx.artifact("list.txt").await.map_err(|error| error.to_string())?;
            let version = before.map_or(0, |before| before.reference.version) + 1;
            let saved =
                cx.save_artifact("list.txt", format!("of version {version}\n"), "text/plain").await;
            saved.map(|saved| saved.version).map_err(|error| error.to_string())
        });
        let model =
            ScriptedModel::from_fn(|request| match request.messages.last().unwrap().role() {
                agentflow::message::Role::User => {
                    Turn::call("save", agentflow::serde_json::json!({}))
                }
                _ => Turn::text("Saved."),
            });
        let agent = Agent::new(model).tools([ToolRef::from(save)]).runtime(&runtime);
        for run in ["r1", "r2"] {
            agent.run(RunRequest::new("go").session("s").run_id(RunId::new(run))).await.unwrap();
        }
    });
    let line = |version: u32| {
        format!("list.txt  version {version}  13 bytes  text/plain  of the run r{version}\n")
    };
    assert_eq!(place.said(&["artifacts", "s"]), line(1) + &line(2));
    let json = place.sessions(&["artifacts", "s", "--json"]).line();
    assert_eq!((&json[1]["run"], &json[1]["version"]), (&"r2".into(), &2.into()));
    assert_eq!(
        place.said(&["artifacts", "s", "--name", "list.txt", "--number", "1", "--out", "-"]),
        "of version 1\n"
    );
    let out = place.0.path().join("list.txt");
    let written =
        place.sessions(&["artifacts", "s", "--name", "list.txt", "--out", out.to_str().unwrap()]);
    assert_eq!(
        (written.code, std::fs::read_to_string(&out).unwrap()),
        (Some(0), "of version 2\n".to_owned())
    );
    for (wrong, said) in [
        (
            ["artifacts", "s", "--name", "other", "--out", "-"],
            "the session `s` has no artifact `other`; list them with `sessions artifacts s`",
        ),
        (["artifacts", "t", "--name", "other", "--out", "-"], "there is no session `t`"),
    ] {
        let ended = place.sessions(&wrong);
        assert!(ended.code != Some(0) && ended.stderr.contains(said), "{ended:?}");
    }
}
