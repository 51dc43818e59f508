//! Runs the research example as a program, offline: its messages for every kind of folder, and that
//! each citation is correct.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use agentflow_testing::wait_until;

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("research-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let file = self.0.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn research(question: &str, place: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_research"))
        .arg(question)
        .arg(place)
        .env_remove("AGENTFLOW_MODEL")
        .output()
        .unwrap()
}

/// Returns the answer to a question that has one.
fn answer(question: &str, place: &Path) -> String {
    let output = research(question, place);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("no model is configured"), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A quotation with its file and its lines.
#[derive(Debug)]
struct Citation {
    quote: String,
    path: String,
    first: usize,
    last: usize,
}

fn citations(answer: &str) -> Vec<Citation> {
    let lines: Vec<&str> = answer.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[0].starts_with("- \""));
    pairs
        .map(|pair| {
            let quote = pair[0]
                .strip_prefix("- \"")
                .and_then(|rest| rest.strip_suffix('"'))
                .unwrap()
                .to_owned();
            let place = pair[1].trim().split(" (on: ").next().unwrap();
            let (path, lines) = place.rsplit_once(':').unwrap();
            let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
            Citation {
                quote,
                path: path.to_owned(),
                first: first.parse().unwrap(),
                last: last.parse().unwrap(),
            }
        })
        .collect()
}

/// Checks that the cited lines exist and together contain the quotation, apart from markers at
/// their starts.
fn check(citation: &Citation, root: &Path) {
    let text = String::from_utf8_lossy(&fs::read(root.join(&citation.path)).unwrap()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        1 <= citation.first && citation.first <= citation.last && citation.last <= lines.len(),
        "{citation:?}"
    );
    let mut rest = citation.quote.as_str();
    for (at, line) in lines[citation.first - 1..citation.last].iter().enumerate() {
        // The quotation may start within the first line and end within the last one. Lines in
        // between are quoted completely, apart from the marker.
        let line = line.trim();
        let common = (0..=line.len())
            .filter(|start| line.is_char_boundary(*start))
            .map(|start| &line[start..])
            .find_map(|end| match rest.strip_prefix(end) {
                Some(after) if !end.is_empty() => Some(after),
                _ if end.starts_with(rest) => Some(""),
                _ => None,
            });
        rest = common
            .unwrap_or_else(|| {
                panic!("line {} has nothing of it: {citation:?}", citation.first + at)
            })
            .trim_start();
    }
    assert_eq!(rest, "", "{citation:?}");
}

#[test]
fn citations_from_the_repository_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for question in [
        "What happens when a tool panics?",
        "How do I cancel a run?",
        "Which licence does it have?",
        "How are retries of a model call made?",
    ] {
        let answer = answer(question, root);
        let citations = citations(&answer);
        assert!((1..=5).contains(&citations.len()), "{question}\n{answer}");
        citations.iter().for_each(|citation| check(citation, root));
    }
}

#[test]
fn the_readmes_question_gets_the_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let answer = answer("What happens when a tool panics?", root);
    assert!(answer.contains("A panic in a tool is a tool error"), "{answer}");
}

#[test]
fn a_definition_is_found_by_its_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let answer = answer("What is the default of max_steps?", root);
    assert!(answer.contains("Default: 20. A run that needs more fails"), "{answer}");
}

#[test]
fn sentences_over_several_lines_are_quoted_whole() {
    let folder = Folder::new("wrapped").with(
        "guide/deep/er/rules.md",
        "# Rules\n\nNothing else matters here. The gate opens\nonly when two keys are\nturned at once. Then it closes.\n",
    );
    let answer = answer("When does the gate open?", &folder.0);
    let citations = citations(&answer);
    assert_eq!(
        citations[0].quote,
        "The gate opens only when two keys are turned at once. Then it closes."
    );
    assert_eq!(
        (&*citations[0].path, citations[0].first, citations[0].last),
        ("guide/deep/er/rules.md", 3, 5)
    );
    assert!(answer.contains("(on: Rules)"), "{answer}");
    check(&citations[0], &folder.0);
}

#[test]
fn one_file_instead_of_a_folder() {
    let folder = Folder::new("file")
        .with("a.txt", "The door is green.\n")
        .with("b.txt", "The door is red.\n");
    let answer = answer("What colour is the door?", &folder.0.join("b.txt"));
    assert!(answer.contains("The door is red.") && !answer.contains("green"), "{answer}");
    assert!(
        answer.contains("b.txt:1") && answer.contains("Nowhere in the documents: colour"),
        "{answer}"
    );
}

#[test]
fn what_is_no_document_is_left_out() {
    let folder = Folder::new("odd")
        .with("ok.txt", b"The caf\xe9 door is blue.\r\nIt is wide.\r\n")
        .with("picture.bin", b"door\0door is black")
        .with(".hidden/notes.txt", "The door is invisible.")
        .with("target/out.txt", "The door is generated.")
        .with("huge.txt", "The door is huge. ".repeat(100_000))
        .with("empty.txt", "");
    #[cfg(unix)]
    {
        let outside = Folder::new("outside").with("secret.txt", "The door is secret.");
        std::os::unix::fs::symlink(outside.0.join("secret.txt"), folder.0.join("link.txt"))
            .unwrap();
        std::os::unix::fs::symlink(&folder.0, folder.0.join("loop")).unwrap();
        let answer = answer("Where is the door?", &folder.0);
        assert!(!answer.contains("secret"), "{answer}");
    }
    let answer = answer("Where is the door?", &folder.0);
    let citations = citations(&answer);
    assert_eq!(
        citations.iter().map(|citation| &*citation.path).collect::<Vec<_>>(),
        ["ok.txt"],
        "{answer}"
    );
    check(&citations[0], &folder.0);
}

#[test]
fn nothing_found_is_said() {
    let folder = Folder::new("nothing").with("a.txt", "The door is green.\n");
    let text = answer("Who painted the window?", &folder.0);
    assert!(text.contains("say nothing about this; looked for: paint, window"), "{text}");
    assert!(answer("What is it?", &folder.0).contains("no word that could be looked for"));
}

#[test]
fn a_folder_without_text_and_a_wrong_path_are_errors() {
    let folder = Folder::new("empty").with("a.bin", b"\0\0");
    for (place, problem) in
        [(folder.0.clone(), "1 files were skipped"), (folder.0.join("nowhere"), "nowhere: ")]
    {
        let output = research("What is a door?", &place);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(problem) && output.stdout.is_empty(), "{errors}");
    }
}

#[test]
fn the_command_line_is_checked() {
    for (arguments, problem) in [
        (&[][..], "there is no question"),
        (&["--base-url"], "--base-url needs an address"),
        (&["--bas-url", "x"], "there is no option --bas-url"),
        (&["what", "is", "this"], "put the question in quotation marks"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_research")).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(problem) && errors.contains("usage:"), "{errors}");
    }
}

#[test]
fn a_model_that_cannot_be_used_is_an_error_and_not_the_stand_in() {
    let folder = Folder::new("model").with("a.txt", "The door is green.\n");
    for (model, url, problem) in [
        ("nobody/x", None, "no adapter is called `nobody`"),
        ("nobody/x", Some("http://127.0.0.1:1/v1"), "--base-url goes with openai-chat/NAME"),
        ("openai-chat/x", Some("http://127.0.0.1:1/v1"), "transport"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_research"));
        command.args(["What is green?", folder.0.to_str().unwrap()]).env("AGENTFLOW_MODEL", model);
        command.env("OPENAI_API_KEY", "unused");
        if let Some(url) = url {
            command.args(["--base-url", url]);
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(problem) && output.stdout.is_empty(), "{errors}");
    }
}

/// The model server never answers, so the program is waiting for it when Ctrl-C comes.
#[cfg(unix)]
#[test]
fn ctrl_c_closes_the_connection_and_says_so() {
    use std::io::Read;
    use std::net::TcpListener;
    use std::process::Stdio;

    let folder = Folder::new("interrupt").with("a.txt", "The door is green.\n");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_research"))
        .args([
            "--base-url",
            &format!("http://{}/v1", server.local_addr().unwrap()),
            "What is green?",
        ])
        .arg(&folder.0)
        .env("AGENTFLOW_MODEL", "openai-chat/x")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut connection, _) = server.accept().unwrap();
    let mut received = [0; 1];
    connection.read_exact(&mut received).unwrap();
    assert!(
        Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap().success()
    );
    wait_until("the program to end", || program.try_wait().unwrap());
    let output = program.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("cancelled after 0 tool calls"), "{errors}");
    // Reads until the program closes the connection.
    std::io::copy(&mut connection, &mut std::io::sink()).unwrap_or_default();
}
