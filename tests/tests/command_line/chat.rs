//! `agentwf chat`: lines as input, answers as output, questions in between, and a session that
//! keeps the conversation.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use agentflow_testing::wait_until;
use agentflow_tests::{Agentwf, Ended, lines_of};

fn begun(folder: &Path, agent: &str) -> Child {
    let chat = Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
        .args(["chat", "--agent", agent, "--session", "ada-1", "--caller", "ada", "--store"])
        .args([folder.join("chat.db")]);
    chat.start_with(Stdio::piped())
}

/// Runs a chat with these input lines.
fn chat(folder: &Path, agent: &str, lines: &str) -> Ended {
    let mut child = begun(folder, agent);
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    Ended::of(child, Duration::from_secs(60), lines)
}

#[test]
fn a_chat_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let first = chat(folder.path(), "echo", "hello\n\nagain\n");
    assert_eq!((first.code, &*first.stdout), (Some(0), "hello\nagain\n"), "{first:?}");
    assert_eq!(first.stderr, "a new session\n");
    let second = chat(folder.path(), "echo", "third\n");
    assert_eq!((second.code, &*second.stdout), (Some(0), "hello\nagain\nthird\n"), "{second:?}");
    assert_eq!(second.stderr, "> hello\n> again\n");
}

/// Bytes that are not UTF-8, for example from another locale, do not end the chat.
#[test]
fn a_line_of_any_bytes_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = begun(folder.path(), "echo");
    child.stdin.take().unwrap().write_all(b"caf\xe9\r\nnext").unwrap();
    let ended = Ended::of(child, Duration::from_secs(60), "caf\\xe9");
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "caf\u{fffd}\nnext\n"), "{ended:?}");
}

#[test]
fn a_question_is_answered_between_the_lines() {
    let folder = tempfile::tempdir().unwrap();
    let yes = chat(folder.path(), "echo", "shred letters\nyes\n");
    assert_eq!((yes.code, &*yes.stdout), (Some(0), "letters is gone\n"), "{yes:?}");
    assert!(yes.stderr.contains("  shred({\"what\":\"letters\"})\n"), "{yes:?}");
    assert!(
        yes.stderr.contains("call `shred(what: \"letters\")`? {\"what\":\"letters\"}\n"),
        "{yes:?}"
    );
    let loud = chat(folder.path(), "echo", "shred letters\nYes\n");
    assert!(loud.stdout.ends_with("letters is gone\n"), "{loud:?}");
    let no = chat(folder.path(), "echo", "shred photos\nthey are dear to me\n");
    assert!(no.stdout.contains("they are dear to me"), "{no:?}");
    assert!(!no.stdout.contains("photos is gone"), "{no:?}");
    let other = chat(
        folder.path(),
        "echo",
        "shred photos\n{\"decision\": \"granted\", \"arguments\": {\"what\": \"bills\"}}\n",
    );
    assert!(other.stdout.ends_with("bills is gone\n"), "{other:?}");
}

#[test]
fn a_chat_that_was_left_in_a_question_continues_there() {
    let folder = tempfile::tempdir().unwrap();
    let left = chat(folder.path(), "echo", "shred letters\n");
    assert!(
        left.code == Some(1) && left.stderr.ends_with("the run waits for the answer\n"),
        "{left:?}"
    );
    let back = chat(folder.path(), "echo", "yes\nhello\n");
    assert_eq!((back.code, &*back.stdout), (Some(0), "letters is gone\nhello\n"), "{back:?}");
    assert!(back.stderr.contains("> shred letters\n"), "{back:?}");
}

#[test]
fn what_cannot_be_a_chat_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = chat(folder.path(), "ecko", "hello\n");
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.stderr.contains("error: this program has no agent `ecko`; did you mean `echo`?"),
        "{unknown:?}"
    );
    assert!(!unknown.stderr.contains("a new session"), "{unknown:?}");
    let takes = chat(folder.path(), "rate", "hello\n");
    assert!(takes.stderr.contains("it cannot be started by its name alone"), "{takes:?}");
}

#[test]
fn a_chat_whose_process_is_killed_continues_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("there");
    assert_eq!(chat(folder.path(), "echo", "first\n").stdout, "first\n");
    let mut killed = begun(folder.path(), "echo");
    let mut stdin = killed.stdin.take().unwrap();
    stdin.write_all(format!("await {}\nnever asked\n", file.display()).as_bytes()).unwrap();
    let mut said = lines_of(killed.stderr.take().unwrap());
    assert!(said.any(|line| line.starts_with("waiting for ")), "it does not wait");
    killed.kill().unwrap();
    killed.wait().unwrap();
    std::fs::write(&file, "").unwrap();
    let back = chat(folder.path(), "echo", "last\n");
    assert_eq!((back.code, &*back.stdout), (Some(0), "first\nthere\nlast\n"), "{back:?}");
    let again = chat(folder.path(), "echo", "");
    assert_eq!(again.stdout, "first\nthere\nlast\n");
    assert_eq!(again.stderr.matches("await ").count(), 1, "{again:?}");
}

/// The ninth of twenty questions needs a tool that a person has to approve, and the process is
/// killed while it asks.
#[test]
fn a_chat_of_twenty_turns_is_killed_in_a_question_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let mut questions: Vec<String> = (1..20).map(|turn| format!("turn {turn}")).collect();
    questions[8] = "shred letters".to_owned();
    questions.push("recall".to_owned());
    let mut killed = begun(folder.path(), "echo");
    let mut stdin = killed.stdin.take().unwrap();
    stdin.write_all((questions[..9].join("\n") + "\n").as_bytes()).unwrap();
    let mut said = lines_of(killed.stderr.take().unwrap());
    assert!(said.any(|line| line.starts_with("call `shred(")), "it does not ask");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let back =
        chat(folder.path(), "echo", &("yes\n".to_owned() + &questions[9..].join("\n") + "\n"));
    let mut answers = questions.clone();
    answers[8] = "letters is gone".to_owned();
    // The model received every question, including the questions of the killed process.
    answers[19] = questions.join(", ");
    assert_eq!(back.code, Some(0), "{back:?}");
    assert!(back.stdout.ends_with(&(answers[8..].join("\n") + "\n")), "{back:?}");
    let of_store = |args: &[&str]| {
        let store = folder.path().join("chat.db");
        Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
            .args(args)
            .args(["--store"])
            .args([store])
            .run()
    };
    let session = of_store(&["sessions", "export", "ada-1"]).line();
    let runs = session["runs"].as_array().expect("a list of runs");
    let texts = |place: fn(&[serde_json::Value]) -> Option<&serde_json::Value>| -> Vec<_> {
        let message = |run: &serde_json::Value| {
            place(run["messages"].as_array()?)?["parts"][0]["text"].as_str().map(ToOwned::to_owned)
        };
        runs.iter().filter_map(message).collect()
    };
    assert_eq!(
        (texts(|said| said.first()), texts(|said| said.last())),
        (questions, answers),
        "{session:#}"
    );
    assert!(runs.iter().all(|run| run["status"] == "success"), "{session:#}");
    let ninth =
        of_store(&["runs", "events", runs[8]["run_id"].as_str().expect("the id of a run")]).stdout;
    let [asked, called] =
        ["approval.requested", "tool.started"].map(|kind| ninth.matches(kind).count());
    assert_eq!((asked, called), (1, 1), "{ninth}");
}

/// Two chats over one session. A line that arrives while the other chat's run is unfinished is not
/// answered, and the chat continues.
#[test]
fn a_session_that_is_busy_ends_no_chat() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = begun(folder.path(), "echo");
    let mut typed = other.stdin.take().unwrap();
    let mut said = lines_of(other.stderr.take().unwrap());
    assert_eq!(said.next().as_deref(), Some("a new session"));
    let file = folder.path().join("there");
    let mut first = begun(folder.path(), "echo");
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(format!("await {}\n", file.display()).as_bytes()).unwrap();
    let mut waits = lines_of(first.stderr.take().unwrap());
    assert!(waits.any(|line| line.starts_with("waiting for ")), "it does not wait");
    typed.write_all(b"hello\n").unwrap();
    let busy = said.next().unwrap_or_default();
    assert!(busy.starts_with("this was not answered: "), "{busy}");
    std::fs::write(&file, "").unwrap();
    drop(stdin);
    assert!(wait_until("the first chat to end", || first.try_wait().unwrap()).success());
    typed.write_all(b"again\n").unwrap();
    drop(typed);
    let mut answers = String::new();
    other.stdout.take().unwrap().read_to_string(&mut answers).unwrap();
    assert!(wait_until("the other chat to end", || other.try_wait().unwrap()).success());
    assert_eq!(answers, "again\n");
}

/// The run waits for a person, and no process executes it.
#[test]
fn a_message_is_sent_to_a_run_by_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let asked = chat(folder.path(), "echo", "shred letters\n");
    assert!(asked.stderr.ends_with("the run waits for the answer\n"), "{asked:?}");
    let runs = |args: &[&str]| {
        let store = folder.path().join("chat.db");
        Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
            .args(["runs"])
            .args(args)
            .args(["--store"])
            .args([store])
            .run()
    };
    let listed = runs(&["list"]).stdout;
    let run = listed.split_whitespace().next().unwrap();
    let sent = runs(&["send", run, "quickly"]);
    assert_eq!((sent.code, &*sent.stderr), (Some(0), "sent\n"), "{sent:?}");
    let closed = runs(&["close", run]);
    assert!(closed.stderr.contains("the run cannot be closed: it is not a live run"), "{closed:?}");
    let empty = runs(&["send", run, " "]);
    assert!(empty.stderr.contains("the message is empty"), "{empty:?}");
    let answered = chat(folder.path(), "echo", "yes\n");
    assert_eq!(answered.code, Some(0), "{answered:?}");
    let events = runs(&["events", run]).stdout;
    let places = ["message.received", "tool.completed", "message.delivered", "run.completed"]
        .map(|kind| events.find(kind));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{events}");
    let late = runs(&["send", run, "late"]);
    assert!(late.stderr.contains("it is over (success); start another run"), "{late:?}");
}
