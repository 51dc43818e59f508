//! The tool `run_program`: its programs and outputs, its limits, and that it leaves no process
//! behind.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use agentflow::Runtime;
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::serde_json::{Value, json};
use agentflow::tools::Programs;
use agentflow_testing::test_runtime;
use tempfile::TempDir;

/// Creates a program that runs a shell script of the host.
fn script(text: &str) -> (TempDir, Programs) {
    let folder = tempfile::tempdir().unwrap();
    let programs = Programs::in_folder(folder.path()).unwrap().program_with(
        "it",
        "/bin/sh",
        ["-c", text, "it"],
    );
    (folder, programs)
}

async fn run(programs: &Programs, arguments: Value) -> ToolResult {
    let runtime: Runtime = test_runtime().tools(programs.tool()).build();
    let mut all = json!({"program": "it"});
    all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    runtime.invoke(&ToolCall::new("1", "run_program", all.to_string()), &[]).await.unwrap()
}

async fn ended(text: &str, arguments: Value) -> Value {
    let (_folder, programs) = script(text);
    let result = run(&programs, arguments).await;
    assert!(result.status.is_success(), "{}", result.text());
    result.text().parse().unwrap()
}

#[tokio::test]
async fn arguments_input_output_and_status_pass_as_they_are() {
    let out = ended(
        "printf '%s|' \"$@\"; cat; echo oh >&2; exit 3",
        json!({"arguments": ["a b", "$HOME;`ls`", "*", "é"], "input": "in"}),
    );
    assert_eq!(
        out.await,
        json!({"status": 3, "output": "a b|$HOME;`ls`|*|é|in", "errors": "oh\n"})
    );
    assert_eq!(ended("kill -9 $$", json!({})).await["status"], Value::Null);
    // The default input is empty. A program may ignore its input.
    assert_eq!(ended("cat; true", json!({})).await["output"], json!(""));
    assert_eq!(ended("true", json!({"input": "x".repeat(1 << 20)})).await["status"], json!(0));
    let large = json!({"input": "x".repeat(1 << 20)});
    assert_eq!(ended("wc -c", large).await["output"].as_str().unwrap().trim(), "1048576");
}

#[tokio::test]
async fn its_folder_and_its_environment_are_those_of_the_host() {
    let (folder, programs) = script("pwd; /usr/bin/env");
    let result = run(&programs.env("GIVEN", "1"), json!({})).await;
    let output: Value = result.text().parse().unwrap();
    let lines: Vec<&str> = output["output"].as_str().unwrap().lines().collect();
    assert_eq!(lines[0], folder.path().canonicalize().unwrap().to_str().unwrap());
    assert!(lines.contains(&"GIVEN=1"), "{lines:?}");
    // The shell itself sets these variables.
    let own =
        |line: &&&str| ["PWD=", "SHLVL=", "_=", "OLDPWD="].iter().any(|own| line.starts_with(own));
    assert_eq!(lines[1..].iter().filter(|line| !own(line)).count(), 1, "{lines:?}");
}

#[tokio::test]
async fn a_program_that_is_not_named_is_refused() {
    let (folder, programs) = script("true");
    for (program, says) in [
        ("sh", "there is no program `sh`; there are: it"),
        ("/bin/sh", "there is no program `/bin/sh`"),
        ("i", "there is no program `i`; did you mean `it`?"),
    ] {
        let result = run(&programs, json!({"program": program})).await;
        assert_eq!(result.status, ToolStatus::InvalidArguments);
        assert!(result.text().contains(says), "{}", result.text());
    }
    let result = run(&programs, json!({"arguments": ["a\0b"]})).await;
    assert!(result.text().contains("`it` cannot be started"), "{}", result.text());
    let result = run(&programs, json!({"arguments": vec!["a"; 1001]})).await;
    assert!(result.text().contains("a call has at most 1000 arguments"), "{}", result.text());
    let result = run(&programs, json!({"shell": true})).await;
    assert_eq!(result.status, ToolStatus::InvalidArguments);
    let missing = Programs::in_folder(folder.path()).unwrap().program("it", "/no/such/program");
    assert!(run(&missing, json!({})).await.text().contains("`it` cannot be started: No such file"));
    assert!(Programs::in_folder(folder.path().join("none")).is_err());
}

/// A path is never searched for, and does not match a program in the folder, because a model may
/// write there.
#[tokio::test]
async fn a_path_is_what_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for name in ["echo", "planted"] {
        let path = folder.path().join(name);
        fs::write(&path, "#!/bin/sh\necho planted\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for path in ["echo", "planted", "./planted", ""] {
        for variable in ["PATH", "OTHER"] {
            let programs = Programs::in_folder(folder.path())
                .unwrap()
                .program("it", path)
                .env(variable, ".:/bin:/usr/bin");
            let result = run(&programs, json!({})).await;
            assert!(
                result.text().contains("`it` cannot be started: No such file"),
                "{path}: {}",
                result.text()
            );
        }
    }
}

/// Returns `true` if the process is running.
fn is_there(pid: &str) -> bool {
    Path::new(&format!("/proc/{pid}/stat")).exists()
        && !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") Z ")
}

async fn goes(pid: &str) {
    let began = Instant::now();
    while is_there(pid) {
        assert!(began.elapsed() < Duration::from_secs(10), "{pid} is there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for the content of a file that a program writes to its folder.
async fn written(folder: &TempDir, name: &str) -> String {
    let began = Instant::now();
    loop {
        match fs::read_to_string(folder.path().join(name)) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(began.elapsed() < Duration::from_secs(10), "{name} is not written"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn one_that_takes_too_long_is_killed_with_what_it_started() {
    let (folder, programs) =
        script("trap '' TERM; /bin/sleep 100 & echo $! > child; echo $$ > own; echo said; wait");
    let result = run(&programs.timeout(Duration::from_secs(3)), json!({})).await;
    assert_eq!(result.status, ToolStatus::Timeout);
    assert_eq!(result.text(), "`it` did not end within 3s and was killed; it wrote: said\n");
    goes(&written(&folder, "child").await).await;
    goes(&written(&folder, "own").await).await;
}

#[tokio::test]
async fn what_it_leaves_behind_is_killed_and_keeps_nobody_waiting() {
    let (folder, programs) = script("/bin/sleep 100 & echo $! > child; echo done");
    let result = run(&programs, json!({})).await;
    assert_eq!(result.text(), r#"{"status":0,"output":"done\n","errors":""}"#);
    goes(&written(&folder, "child").await).await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_leaves_no_process() {
    let (folder, programs) = script("/bin/sleep 100 & echo $! > child; echo $$ > own; wait");
    let call = run(&programs, json!({}));
    let both = async { (written(&folder, "child").await, written(&folder, "own").await) };
    let (child, own) = tokio::select! {
        _ = call => panic!("it ended"),
        both = both => both,
    };
    goes(&child).await;
    goes(&own).await;
}

#[tokio::test]
async fn output_is_kept_up_to_a_limit() {
    let (_folder, programs) =
        script("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo bad >&2");
    let result = run(&programs.max_output(40), json!({})).await;
    let output: Value = result.text().parse().unwrap();
    let expected = "line 0\nline 1\nline 2\n[208850 bytes are left out]\nne 19998\nline 19999\n";
    assert_eq!(output["output"], json!(expected));
    assert_eq!(output["errors"], json!("bad\n"));
    // Endless output is bounded.
    let (_folder, programs) = script("while true; do echo yes; done");
    let result = run(&programs.max_output(10).timeout(Duration::from_millis(300)), json!({})).await;
    assert_eq!(result.status, ToolStatus::Timeout);
    assert!(result.text().len() < 200, "{}", result.text());
    assert_eq!(ended("printf 'a\\377b'", json!({})).await["output"], json!("a\u{fffd}b"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_is_limited() {
    // The script waits until the limit is set, and then allocates more.
    let text = "while ! grep -q 'address space *50000000 ' /proc/$$/limits; do :; done; v=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#v}";
    let (_folder, programs) = script(text);
    let limited = programs.env("PATH", "/usr/bin:/bin").max_memory(50_000_000);
    let result = run(&limited, json!({})).await;
    let output: Value = result.text().parse().unwrap();
    assert_ne!(output["status"], json!(0), "{output}");
    assert!(!output["output"].as_str().unwrap().contains("200000000"), "{output}");
}

/// The limit also applies to child processes that the program starts immediately.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_is_limited_from_the_beginning() {
    if !["/usr/bin/prlimit", "/bin/prlimit"].iter().any(|path| Path::new(path).is_file()) {
        agentflow_tests::skipped("there is no `prlimit`");
        return;
    }
    let limits = "(while read -r line; do case $line in *'address space'*) echo \"$line\";; esac; done < /proc/self/limits) & wait";
    for _ in 0..20 {
        let (_folder, programs) = script(limits);
        let result = run(&programs.max_memory(500_000_000), json!({})).await;
        let output: Value = result.text().parse().unwrap();
        assert_eq!(output["status"], json!(0), "{output}");
        let words: Vec<&str> = output["output"].as_str().unwrap().split_whitespace().collect();
        assert_eq!(words[3..5], ["500000000", "500000000"], "{output}");
    }
    // The limit changes neither arguments, exit code nor environment of the program.
    let (_folder, programs) = script("printf '%s|' \"$0\" \"$@\"; /usr/bin/env | wc -l; exit 3");
    let programs = programs.env("PATH", "/usr/bin:/bin").max_memory(500_000_000);
    let result = run(&programs, json!({"arguments": ["--as=1", "-h", "--"]})).await;
    let output: Value = result.text().parse().unwrap();
    assert_eq!(output["status"], json!(3), "{output}");
    assert!(output["output"].as_str().unwrap().starts_with("it|--as=1|-h|--|"), "{output}");
    let folder = tempfile::tempdir().unwrap();
    let missing = Programs::in_folder(folder.path())
        .unwrap()
        .program("it", "/no/such/program")
        .max_memory(1 << 30);
    assert!(run(&missing, json!({})).await.text().contains("`it` cannot be started: No such file"));
}
