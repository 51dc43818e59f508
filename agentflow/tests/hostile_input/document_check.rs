//! Checks for untrusted workflow documents. The bounded test and the fuzz target `document` call
//! the same function. A check never requires that a string is accepted.

use std::cell::OnceCell;
use std::collections::HashSet;

use agentflow::Context;
use agentflow::document::{Document, DocumentError, DocumentForm, to_yaml};
use agentflow::runtime::Runtime;
use agentflow::tool::FnTool;
use serde_json::{Map, Value};

/// Reads the bytes as a document. If it is valid, it is checked against the names that a program
/// knows, and written in every form that can express it, as the same workflow. Otherwise each
/// problem must have a position and a message.
///
/// # Panics
/// If reading, checking or writing panics, or if a result violates a check.
pub(crate) fn document(bytes: &[u8]) {
    thread_local! {
        static PROGRAM: OnceCell<Program> = const { OnceCell::new() };
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    PROGRAM.with(|program| program.get_or_init(Program::new).check(text));
}

/// A program that knows some of the names in documents.
struct Program {
    runtime: Runtime,
    tokio: tokio::runtime::Runtime,
}

impl Program {
    fn new() -> Self {
        let tool = |name: &'static str| {
            FnTool::new(name, "Does it.", |_: Context, of: Map<String, Value>| async move {
                Ok::<_, String>(of)
            })
        };
        let [search, count] = ["doc_search", "doc_count"].map(tool);
        let runtime = Runtime::builder().tools(search).tools(count).build();
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { runtime, tokio }
    }

    fn check(&self, text: &str) {
        match Document::read("it.yaml", text) {
            Ok(document) => {
                written(&document);
                if let Err(error) = self.tokio.block_on(self.runtime.documents().check(&document)) {
                    reported(text, &error);
                }
            }
            Err(error) => {
                reported(text, &error);
                // Now with the names resolved. The program knows some of them.
                let whole = self.tokio.block_on(self.runtime.documents().read("it.yaml", text));
                let whole = whole.expect_err("what is not read has problems");
                reported(text, &whole);
                for problem in error.problems() {
                    assert!(whole.problems().contains(problem), "only without names: {problem:?}");
                }
            }
        }
    }
}

/// Checks that every form that can express the document describes the same workflow.
fn written(document: &Document) {
    for form in DocumentForm::ALL {
        let written = match document.export(form) {
            Ok(written) => written,
            Err(error) => {
                assert!(form != document.form(), "in its own form: {error}");
                continue;
            }
        };
        for text in [to_yaml(&written), written.to_string()] {
            let again = Document::read("again", &*text)
                .unwrap_or_else(|error| panic!("{form}: {text}\n{error}"));
            assert_eq!(again.form(), form, "{text}");
            assert_eq!(again.graph().hash(), document.graph().hash(), "{form}: {text}");
            assert_eq!(again.inner(), document.inner(), "{form}: {text}");
            assert!(again.agents().eq(document.agents()), "{form}: {text}");
            assert_eq!(again.export(form).as_ref().ok(), Some(&written), "{form}: {text}");
            assert!(form != document.form() || again.hash() == document.hash(), "{form}: {text}");
        }
    }
}

/// Checks that each problem is reported once and has a valid position.
fn reported(text: &str, error: &DocumentError) {
    assert!(!error.problems().is_empty(), "refused without a problem");
    let lines: Vec<&str> = text.split('\n').collect();
    let mut seen = HashSet::new();
    for problem in error.problems() {
        assert!(text.get(problem.span()).is_some(), "{problem:?}");
        let line =
            lines.get(problem.line() - 1).unwrap_or_else(|| panic!("no such line: {problem:?}"));
        assert!(problem.column() <= line.chars().count() + 1, "no such column: {problem:?}");
        assert!(!problem.message().trim().is_empty(), "{problem:?}");
        assert!(seen.insert((problem.span(), problem.message())), "twice: {problem:?}");
    }
    let shown = error.to_string();
    assert!(shown.starts_with("error: "), "{shown}");
}
